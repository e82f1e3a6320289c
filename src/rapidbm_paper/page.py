"""A reproduction as one self-contained page: figures beside the claims that they show, times."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from pathlib import Path

from rapidbm import __version__
from rapidbm.disk import inside
from rapidbm.runs.report.html import SVG, embedded, render

from . import registry
from .claims import FAILS, HOLDS, MISSED, OPEN, UNDECIDED, Verdict
from .records import Records, Values, settings_by_name, sizes_of

WIDE = 5.0  # inches from which on a figure does not stand beside its claims
TEMPLATE = Path(__file__).with_name("report.html")
MARKS = {HOLDS: "✓", FAILS: "✗", MISSED: "○", UNDECIDED: "≈", OPEN: "–"}
TONES = {HOLDS: "holds", FAILS: "fails", MISSED: "missed", UNDECIDED: "undecided", OPEN: "open"}
COUNTED = {  # what stands below the number of each
    HOLDS: "hold",
    FAILS: "do not hold",
    MISSED: MISSED,
    UNDECIDED: "undecided: measured, and left open by the errors",
    OPEN: "not measured at this scale",
}
ABOUT = {
    "tiny": "a check that everything runs, in seconds; its numbers mean little",
    "quick": "smaller machines and fewer instances than the paper's, for two CPU cores",
    "paper": "the paper's own sizes and numbers of instances",
}


def page(
    info: Values, out: Path, records: Records, times: dict[str, Values], verdicts: list[Verdict]
) -> str:
    """The HTML of the page: of a reproduction.json, with the figures in `out`."""
    counts = Counter(v.verdict for v in verdicts)
    return render(
        TEMPLATE,
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
        tally=[(TONES[v], counts[v], COUNTED[v]) for v in MARKS],
        total=len(verdicts),
        sections=_sections(out, records, times, verdicts),
        parts=_parts(records, times),
        failed=info["failed"],
        version=__version__,
    )


def _sections(
    out: Path, records: Records, times: dict[str, Values], verdicts: list[Verdict]
) -> list[Values]:
    """Items with the claims that they show; the panels of a figure, fig2a and fig2b, are together."""
    sections = []
    for name, group in groupby(registry.ITEMS, _figure):
        items = [_item(item, out, records, times) for item in group]
        names = [item["name"] for item in items]
        claims = [_claim(v, names) for v in verdicts if registry.shown_by(v.claim)[0] in names]
        tones = sorted({claim["tone"] for claim in claims}, key=list(TONES.values()).index)
        sections.append(
            {
                "name": name,
                "title": items[0]["title"] if len(items) == 1 else _title(items),
                "items": items,
                "wide": len(items) > 1 or items[0]["wide"],
                "claims": claims,
                "tones": tones,
            }
        )
    return sections


def _figure(name: str) -> str:
    """fig2 of fig2a; any other item stands for itself."""
    return name[:-1] if name.startswith("fig") and name[-2].isdecimal() else name


def _title(items: list[Values]) -> str:
    return "; ".join(f"{item['name'][-1]}: {item['title']}" for item in items)


def _claim(verdict: Verdict, names: list[str]) -> Values:
    also = [name for name in registry.shown_by(verdict.claim) if name in registry.ITEMS]
    return {
        **verdict.as_dict(),
        "mark": MARKS[verdict.verdict],
        "tone": TONES[verdict.verdict],
        "figures": also if len(also) < len(names) or len(names) == 1 else names,
    }


def _item(name: str, out: Path, every: Records, times: dict[str, Values]) -> Values:
    item = registry.item(name)
    records = item.records(every)
    picture, words = (inside(out, "figures", name + end) for end in (".svg", ".txt"))
    image, caption, wide = None, "", False
    if records and picture.is_file() and words.is_file():
        drawn = picture.read_bytes()
        image, wide = embedded(drawn, SVG), _wide(drawn)
        caption = words.read_text(encoding="utf-8", errors="replace").strip()
        caption = caption.removesuffix(sizes_of(records)).strip()
    studies = {record.name.partition(".")[0]: record for record in records.values()}
    return {
        "name": name,
        "title": item.title,
        "image": image,
        "wide": wide,
        "caption": caption,
        "missing": "It could not be drawn."
        if records
        else f"Not measured: there are no records of {', '.join(item.needs)}.",
        "seconds": sum(float(times[n]["seconds"]) for n in records if n in times),
        "records": sorted(records),
        "settings": [(study, record.seed, settings_by_name(record)) for study, record in studies.items()],
    }


def _wide(svg: bytes) -> bool:
    """Whether a figure takes two columns of a journal."""
    size = re.search(rb'viewBox="0 0 ([\d.]+) ', svg[:2000])
    return size is not None and float(size[1]) > 72 * WIDE


def _parts(records: Records, times: dict[str, Values]) -> list[Values]:
    """Studies, each with its parts: times, devices, memory."""
    studies = []
    for study in registry.STUDIES:
        rows, settings = [], []
        for name in registry.parts(study):
            took = times.get(name, {"seconds": None, "device": ""})
            peak = took.get("peak_bytes")
            if name in records:
                settings = settings_by_name(records[name])
            rows.append(
                {
                    "name": name,
                    "there": name in records,
                    "seconds": took["seconds"],
                    "device": took["device"],
                    "memory": f"{peak / 2**30:.1f} GiB" if peak else "",
                }
            )
        studies.append({"name": study, "rows": rows, "settings": settings})
    return studies
