"""The site takes in files of the repository that pages link to; links serve on both as they stand."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parent
ROOT = DOCS.parent
ALWAYS = {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}  # pages of the site, linked to or not
LINK = re.compile(r"\]\((\.\./[^)#\s]+)")


def outside(page: Path, link: str) -> str | None:
    """The file of the repository, but not of docs/, that a page links to."""
    target = (page.parent / link).resolve()
    if target.is_file() and ROOT in target.parents and DOCS not in target.parents:
        return target.relative_to(ROOT).as_posix()
    return None


def on_files(files: Files, *, config: Any) -> Files:
    pages = list(DOCS.rglob("*.md"))
    linked = {outside(page, link) for page in pages for link in LINK.findall(page.read_text("utf-8"))}
    for name in sorted(ALWAYS | linked - {None}):
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """`../SECURITY.md` of docs/runs.md is `SECURITY.md` of the site, docs/ being its root."""
    if page.file.src_uri in ALWAYS:
        return markdown.replace("](docs/", "](")
    source = DOCS / page.file.src_uri

    def moved(match: re.Match[str]) -> str:
        link = match[1]
        return f"]({link.removeprefix('../')}" if outside(source, link) else match[0]

    return LINK.sub(moved, markdown)
