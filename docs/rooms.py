"""Draws docs/images/rooms.png: the rooms of the package, as the contract of imports stacks them.

    python docs/rooms.py

A room may import from those below it. The words are the first sentence of its docstring.
"""

import ast
import tomllib
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "rapidbm"
WIDTH = 10.0


def sentence(name: str) -> str:
    folder = PACKAGE / name
    text = (folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")).read_text()
    return (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].replace("\n", " ")


def floors() -> list[list[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (levels,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    return [[name.strip() for name in level.split(":")] for level in levels]


def main() -> None:
    levels = floors()
    figure, axes = plt.subplots(figsize=(WIDTH, 0.62 * len(levels)))
    for height, names in enumerate(reversed(levels)):
        for place, name in enumerate(names):
            left, width = place / len(names), 1 / len(names)
            room = (PACKAGE / name).is_dir()
            axes.add_patch(
                plt.Rectangle(
                    (left + 0.004, height + 0.06),
                    width - 0.008,
                    0.88,
                    facecolor="#dce9f5" if room else "#f3f3f3",
                    edgecolor="#40566b",
                    linewidth=0.8,
                )
            )
            middle = left + width / 2
            axes.text(middle, height + 0.66, name, ha="center", va="center", weight="bold", size=9)
            words = sentence(name)
            most = int(150 * width)
            words = words if len(words) <= most else words[: most - 1].rsplit(" ", 1)[0] + " …"
            axes.text(middle, height + 0.3, words, ha="center", va="center", size=6.5)
    axes.set(xlim=(0, 1), ylim=(0, len(levels)))
    axes.axis("off")
    figure.savefig(ROOT / "docs" / "images" / "rooms.png", dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    main()
