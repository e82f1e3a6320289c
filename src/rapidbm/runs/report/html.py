"""A page as one file: style, script and pictures are in it, and nothing is asked of a network.

The page of a run and that of a reproduction extend `base.html`; what they are given is escaped, but for
`Markup` that was made here.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PNG, SVG = "image/png", "image/svg+xml"


def render(template: Path, **values: Any) -> str:
    """The HTML of a template that extends `base.html`; a name that it is not given is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader([template.parent, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"duration": duration, "breakable": breakable}
    own = {
        name: Markup((HERE / file).read_text(encoding="utf-8").strip())
        for name, file in (("style", "style.css"), ("script", "page.js"))
    }
    return environment.get_template(template.name).render(**own, **values)


def embedded(content: bytes, kind: str) -> str:
    """A picture as an address that holds all of it."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def breakable(text: object) -> Any:
    """A text that may be broken after a slash or a comma, and only there or between words."""
    from markupsafe import Markup, escape

    return Markup(str(escape(text)).replace("/", "/<wbr>").replace(",", ",<wbr>"))


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"
