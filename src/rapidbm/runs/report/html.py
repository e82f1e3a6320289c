"""A page as one file: style, script and pictures are in it, and nothing is asked of a network.

The page of a run and that of a reproduction extend `base.html`; what they are given is escaped, but for
`Markup` that was made here.
"""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

HERE = Path(__file__).parent
PNG, SVG = "image/png", "image/svg+xml"


@cache
def template(name: str, folder: Path = HERE) -> Template:
    """A template of a folder, or of this one; a name that it is not given is an error."""
    environment = Environment(
        loader=FileSystemLoader([folder, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": duration, "breakable": breakable}
    for name_of, file in (("style", "style.css"), ("script", "page.js")):
        text = (HERE / file).read_text(encoding="utf-8")
        environment.globals[name_of] = Markup(text.strip())
    return environment.get_template(name)


def render(page: Path, **values: Any) -> str:
    """The HTML of a template that extends `base.html`."""
    return template(page.name, page.parent).render(**values)


def embedded(content: bytes, kind: str) -> str:
    """A picture as an address that holds all of it."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def breakable(text: object) -> Markup:
    """A text that may be broken after a slash or a comma, and only there or between words."""
    return Markup(str(escape(text)).replace("/", "/<wbr>").replace(",", ",<wbr>"))


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"
