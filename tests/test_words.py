"""The pages: short enough to be read, and true where that can be checked by a program."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700


def test_contributing_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (?!I want|---).*$", text, re.MULTILINE)
    paths = [path for row in table for path in re.findall(r"`([\w/.]+(?:\.\w+|/))`", row)]
    assert len(table) >= 12
    places = (ROOT / "src/rapidbm", ROOT / "tests", ROOT)
    assert not [path for path in paths if not any((place / path).exists() for place in places)]


def test_the_changelog_is_by_version_in_short_lines():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, *versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert first == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ — ([\d-]{10}|never published)", x) for x in versions)
    long = [line for line in text.splitlines() if len(line) >= 200]
    assert not long, long


def test_the_index_of_decisions_names_every_page():
    folder = ROOT / "docs/decisions"
    listed = set(re.findall(r"\]\((\w+\.md)\)", (folder / "README.md").read_text(encoding="utf-8")))
    assert listed == {page.name for page in folder.glob("*.md")} - {"README.md"}
