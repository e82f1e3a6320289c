"""A reproduction as one self-contained page: claims, figures, settings, versions and times."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path

from .. import __version__
from ..disk import inside
from . import registry
from .claims import FAILS, HOLDS, MISSED, OPEN, Verdict
from .records import Records, Values, settings_in_words

TEMPLATE = Path(__file__).with_name("report.html")
MARKS = {HOLDS: "✓", FAILS: "✗", MISSED: "○", OPEN: "–"}
ABOUT = {
    "tiny": "a check that everything runs, in seconds; its numbers mean little",
    "quick": "smaller machines and fewer instances than the paper's, for two CPU cores",
    "paper": "the paper's own sizes and numbers of instances",
}


def page(
    info: Values, out: Path, records: Records, times: dict[str, Values], verdicts: list[Verdict]
) -> str:
    """The HTML of the page: of a reproduction.json, with the figures in `out`."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["duration"] = duration
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        scale=info["scale"],
        about=ABOUT[info["scale"]],
        seed=info["seed"],
        started=info["started"],
        seconds=sum(float(t["seconds"]) for t in times.values()),
        spent=info["seconds"],
        devices=sorted({str(t["device"]) for t in times.values()}),
        versions=[
            f"{name} {', '.join(sorted({str(t[name]) for t in times.values()}))}"
            for name in ("rapidbm", "python", "torch", "numpy")
            if times
        ],
        counts=Counter(v.verdict for v in verdicts),
        marks=MARKS,
        claims=[{**v.as_dict(), "mark": MARKS[v.verdict]} for v in verdicts],
        items=[_item(name, out, records, times) for name in registry.ITEMS],
        parts=_parts(records, times),
        failed=info["failed"],
        version=__version__,
    )


def _item(name: str, out: Path, every: Records, times: dict[str, Values]) -> Values:
    item = registry.item(name)
    records = item.records(every)
    picture, words = (inside(out, "figures", name + end) for end in (".png", ".txt"))
    image, caption = None, ""
    if records and picture.is_file() and words.is_file():
        image = "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode()
        caption = words.read_text(encoding="utf-8", errors="replace").strip()
    return {
        "name": name,
        "title": item.title,
        "image": image,
        "caption": caption,
        "missing": "It could not be drawn."
        if records
        else f"Not measured: there are no records of {', '.join(item.needs)}.",
        "seconds": sum(float(times[n]["seconds"]) for n in records if n in times),
        "records": sorted(records),
    }


def _parts(records: Records, times: dict[str, Values]) -> list[Values]:
    rows = []
    for name in (name for study in registry.STUDIES for name in registry.parts(study)):
        took = times.get(name, {"seconds": None, "device": ""})
        peak = took.get("peak_bytes")
        rows.append(
            {
                "name": name,
                "there": name in records,
                "seconds": took["seconds"],
                "device": took["device"],
                "memory": f"{peak / 2**30:.1f} GiB" if peak else "",
                "settings": settings_in_words(records[name], "{}") if name in records else "",
            }
        )
    return rows


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"
