"""The code of the pages: every ```python and ```sh block runs, in order, in one folder a page.

    <!-- not run: a GPU and hours -->     over a block that cannot, with the reason
    ```text                               after a block: what it printed

`python docs/pages.py [PAGE…]` runs pages (the tutorials and the start, unless told), writes what they
print into them, and what they leave in `pictures/` into docs/images/tutorials. Pages of `TABLES` read a
table of others from `$RAPIDBM_DATA/tables`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
IMAGES = DOCS / "images" / "tutorials"
RUN = ("python", "sh")
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?```(?P<language>\w*)[^\n]*\n(?P<code>.*?)^```$"
    r"(?:\n+```text\n(?P<shown>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"[-−+]?\b\d[\d,.]*(?:e[-+]?\d+)?\b|\b(?:nan|inf)\b")
TABLES = {"penguins": "penguins.csv", "income": "adult.csv.gz"}  # of pages that need one
TIME = re.compile(r"# (?:ms|s|min)\b(?: # s\b)?")


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    line: int  # of the page, where its code begins
    reason: str | None  # why it is not run
    shown: str | None  # what the page says that it prints
    span: tuple[int, int]  # of what is shown, in the text

    @property
    def runs(self) -> bool:
        return self.language in RUN and self.reason is None

    @property
    def commands(self) -> list[list[str]]:
        """The words of each line of a shell, comments apart."""
        lines = self.code.replace("\\\n", " ").splitlines()
        return [words for line in lines for words in parted(shlex.split(line, comments=True))]


def parted(words: list[str]) -> Iterator[list[str]]:
    """The commands of a line, between `&&`."""
    while "&&" in words:
        cut = words.index("&&")
        yield words[:cut]
        words = words[cut + 1 :]
    if words:
        yield words


def pages() -> list[Path]:
    """The pages at the top of the repository, and every page of the site."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("code")) + 1
        named = match.group("language", "code"), match.group("reason", "shown")
        (language, code), (reason, shown) = named
        found.append(Block(language, code, line, reason, shown, match.span("shown")))
    return found


def table_of(page: Path) -> Path | None:
    """The table of others that a page reads, in `$RAPIDBM_DATA`; None where it needs none."""
    name = TABLES.get(page.stem)
    return Path(os.environ.get("RAPIDBM_DATA", ""), "tables", name) if name else None


def run(page: Path, folder: Path) -> Iterator[tuple[Block, str]]:
    """Each block that runs, and what it printed; `folder` is empty and gets what the page writes."""
    space: dict[str, object] = {"__name__": "__main__"}
    (folder / "pictures").mkdir()
    if table := table_of(page):
        shutil.copy(table, folder)
    with contextlib.chdir(folder):
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.runs:
                yield block, (_python if block.language == "python" else _shell)(block, page, space)


def _python(block: Block, page: Path, space: dict[str, object]) -> str:
    # Blank lines before it, so that an error names the line of the page.
    code = compile("\n" * (block.line - 1) + block.code, str(page), "exec", dont_inherit=True)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, space)
    return out.getvalue()


def _shell(block: Block, page: Path, space: dict[str, object]) -> str:
    from typer.testing import CliRunner

    from rapidbm.cli.main import app

    told = []
    for name, *words in block.commands:
        if name != "rapidbm":
            raise ValueError(
                f"{page.name}:{block.line}: `{name}` is no command of ours; say why it is not run"
            )
        done = CliRunner().invoke(app, words, catch_exceptions=False)
        if done.exit_code:
            raise ValueError(f"{page.name}:{block.line}: {shlex.join(words)}\n{done.output}")
        told.append(done.stdout)
    return "".join(told)


def alike(shown: str, printed: str) -> bool:
    """Nine words of ten are the same: numbers differ between machines, and what hangs on one."""
    return SequenceMatcher(None, _words(shown), _words(printed), autojunk=False).ratio() > 0.9


def _words(text: str) -> list[str]:
    return TIME.sub("#", NUMBER.sub("#", text)).split()


def rewrite(page: Path) -> None:
    """Runs a page; what it shows is what it printed, and its pictures are the new ones."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for block, printed in reversed(list(run(page, folder))):
            if block.shown is not None:
                start, end = block.span
                text = text[:start] + printed + text[end:]
        IMAGES.mkdir(parents=True, exist_ok=True)
        for picture in (folder / "pictures").iterdir():
            shutil.copy(picture, IMAGES)
    page.write_text(text, encoding="utf-8")


def main() -> None:
    os.environ |= {"RAPIDBM_PROGRESS": "off", "MPLBACKEND": "agg"}
    sys.path.insert(0, str(ROOT / "src"))
    given = [Path(name).resolve() for name in sys.argv[1:]]
    for page in given or [DOCS / "start.md", *sorted((DOCS / "tutorials").glob("*.md"))]:
        rewrite(page)


if __name__ == "__main__":
    main()
