"""Writes the card of docs/pretrained.md anew from the machine in the package.

python docs/pretrained.py
"""

from pathlib import Path

from rapidbm.runs.pretrained.packed import Card, Pretrained, known

PAGE = Path(__file__).with_suffix(".md")
BEGIN, END = "<!-- card -->", "<!-- end -->"


def table(card: Card) -> str:
    """The card for a page."""
    rows = {
        "data": f"`{card.data}`, {card.shape[0]}×{card.shape[1]} pixels",
        "machine": f"{card.machine}; {card.parameters:,} parameters",
        "trained by": f"`{card.command}`",
        "replica": card.replica,
        "seed": str(card.recipe["seed"]),
        "training": f"{card.updates:,} updates, {card.seconds:.0f} s on {card.device}",
        **{
            f"log p, {part} images": f"{value:.2f} nats ({low:.2f} to {high:.2f})"
            for part, (value, low, high) in card.log_p.items()
        },
        "log Z": "{:.2f} ({:.2f} to {:.2f})".format(*card.log_z),
        "half precision": "moves log p of the test images by {:+.4f} to {:+.4f} nats".format(
            *card.rounding
        ),
    }
    return "\n".join(["| | |", "| --- | --- |", *(f"| {a} | {b} |" for a, b in rows.items())])


def page(text: str) -> str:
    """The page with the card as it is in the package."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    card = Pretrained(known()["mnist"]).card
    return f"{before}{BEGIN}\n\n{table(card)}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
