"""Writes the card of docs/pretrained.md anew from the machine in the package.

python docs/pretrained.py
"""

from pathlib import Path

from rapidbm.runs.pretrained.packed import Pretrained, known

PAGE = Path(__file__).with_suffix(".md")
BEGIN, END = "<!-- card -->", "<!-- end -->"


def page(text: str) -> str:
    """The page with the card as it is in the package."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    card = Pretrained(known()["mnist"]).card
    return f"{before}{BEGIN}\n\n{card.table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
