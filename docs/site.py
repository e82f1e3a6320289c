"""The site takes in some pages of the repository's root; links serve on both as they stand."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
FROM_ROOT = ("CHANGELOG.md", "SECURITY.md", "CITATION.cff", "LICENSE")


def on_files(files: Files, *, config: Any) -> Files:
    for name in FROM_ROOT:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """`../SECURITY.md` of docs/runs.md is `SECURITY.md` of the site."""
    if page.file.src_uri in FROM_ROOT:
        return markdown.replace("](docs/", "](")
    up = "../" * page.file.src_uri.count("/")
    names = "|".join(map(re.escape, FROM_ROOT))
    return re.sub(rf"\]\({re.escape(up)}\.\./({names})([)#])", rf"]({up}\1\2", markdown)
