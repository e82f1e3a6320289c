"""Writes docs/reproduction.md's tables and pictures anew from the records in docs/reproduction.

python docs/reproduction.py
"""

import re
from pathlib import Path

import rapidbm_paper as experiments
from rapidbm.runs.report.html import duration
from rapidbm_paper.claims import FAILS, HOLDS, MISSED, OPEN, UNDECIDED, Verdict
from rapidbm_paper.page import MARKS
from rapidbm_paper.records import Record
from rapidbm_paper.reproduction import Reproduction

HERE = Path(__file__).parent
PAGE = HERE / "reproduction.md"


def claims(verdicts: list[Verdict]) -> str:
    lines = ["| the paper | read as; *rule* | verdict | measured |", "| --- | --- | --- | --- |"]
    for verdict in verdicts:
        claim, finding = verdict.claim, verdict.finding
        note = f" *{finding.note}*" if finding.note else ""
        cells = (
            f"{claim.says} ({claim.where})",
            f"{claim.reads} *{claim.rule}*",
            f"{MARKS[verdict.verdict]} {verdict.verdict}",
            f"{finding.measured}{note}",
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def tally(verdicts: list[Verdict]) -> str:
    found = [v.verdict for v in verdicts]
    counts = {name: found.count(name) for name in MARKS}
    return (
        f"{counts[HOLDS]} of {len(verdicts)} claims hold, {counts[FAILS]} do not, {counts[MISSED]} were "
        f"{MISSED}, {counts[UNDECIDED]} are undecided, {counts[OPEN]} not measured."
    )


def times(found: Reproduction) -> str:
    lines = ["| study | parts | time | on |", "| --- | --- | --- | --- |"]
    took, total = found.times(), 0.0
    for study in experiments.STUDIES:
        names = [n for n in experiments.parts(study) if n in took]
        if not names:
            lines.append(f"| {study} | – | not measured | |")
            continue
        seconds = sum(float(took[n]["seconds"]) for n in names)
        total += seconds
        on = ", ".join(sorted({str(took[n]["device"]) for n in names}))
        lines.append(f"| {study} | {len(names)} | {duration(seconds)} | {on} |")
    lines.append(f"| all | {len(took)} | {duration(total)} | |")
    return "\n".join(lines)


def pictures(known: dict[str, Record]) -> str:
    parts = []
    for name in experiments.ITEMS:
        item = experiments.item(name)
        records = item.records(known)
        if records:
            parts.append(
                f"### {name}: {item.title}\n\n![{item.title}](images/reproduction/{name}.png)\n\n"
                f"{item.caption(records)}"
            )
    return "\n\n".join(parts)


def page(text: str, found: Reproduction) -> str:
    """The text with every block between `<!-- name -->` and `<!-- end -->` made anew."""
    verdicts = found.verdicts()
    blocks = {
        "tally": tally(verdicts),
        "times": times(found),
        "claims": claims(verdicts),
        "pictures": pictures(found.records()),
    }
    for name, made in blocks.items():
        block = f"<!-- {name} -->\n{made}\n<!-- end -->"
        pattern = rf"<!-- {name} -->\n.*?<!-- end -->"
        text, count = re.subn(pattern, lambda _, block=block: block, text, flags=re.DOTALL)
        assert count == 1, name
    return text


def main() -> None:
    found = Reproduction(HERE / "reproduction", HERE / "images" / "reproduction" / "new")
    found.draw(experiments.ITEMS)
    for picture in (found.out / "figures").glob("*.png"):
        picture.replace(HERE / "images" / "reproduction" / picture.name)
    for left in (found.out / "figures").iterdir():
        left.unlink()
    (found.out / "figures").rmdir()
    found.out.rmdir()
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
