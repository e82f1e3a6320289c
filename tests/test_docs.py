"""The README's code runs, and the commands that the documents name exist."""

import json
import re
from pathlib import Path

import pytest
import typer

from rapidbm.cli.main import app

ROOT = Path(__file__).parents[1]
COMMANDS = typer.main.get_command(app).commands
OPTIONS = {flag for c in COMMANDS.values() for p in c.params for flag in p.opts + p.secondary_opts}
OPTIONS |= {"--help"}
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
BENCHMARK = re.compile(r"python -m benchmarks (\w+)((?:\\\n|[^`\n])*)")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_readmes_python_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 3
    space = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), space)
    assert capsys.readouterr().out.startswith("1 tensor(")


@pytest.mark.parametrize("name", ["likelihood", "glass", "pretrained", "plots", "thermodynamics"])
def test_the_documents_python_runs(name):
    text = (ROOT / "docs" / f"{name}.md").read_text()
    space = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, name, "exec"), space)
    assert "machine" in space


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_options_and_links_exist(page):
    text = page.read_text()
    for name, words in BENCHMARK.findall(text):
        known = (ROOT / "benchmarks" / f"{name}.py").read_text()
        for flag in FLAG.findall(words):
            assert f'"{flag}"' in known, f"benchmarks {name} has no {flag}"
    text = BENCHMARK.sub("", text)
    for command in re.findall(r"^rapidbm (\w+)", text, re.MULTILINE):
        assert command in COMMANDS
    options = set(FLAG.findall(text))
    assert options <= OPTIONS, options - OPTIONS
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        if not link.startswith("http"):
            assert (page.parent / link).exists(), link


def test_nothing_speaks_of_the_machine_it_was_written_on():
    for page in PAGES:
        assert not re.search(r"(^|[^\w.])/(work|root|home|tmp)/", page.read_text()), page


def test_the_reproductions_tables_follow_from_its_records():
    import importlib.util

    path = ROOT / "docs" / "reproduction.py"
    spec = importlib.util.spec_from_file_location("reproduction_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.Reproduction(ROOT / "docs" / "reproduction")
    text = module.PAGE.read_text(encoding="utf-8")
    assert module.page(text, found) == text, "run python docs/reproduction.py"


@pytest.mark.parametrize("name", ["cpu", "h200"])
def test_the_page_about_speed_tells_what_was_recorded(name):
    page = (ROOT / "docs/performance.md").read_text()
    found = json.loads((ROOT / f"docs/performance/{name}.json").read_text())
    rows = found["peers"]["rows"] + found["axons"] + found["replicas"]
    told = [f"| {1e3 * row['seconds']:.3g} | " for row in rows if "seconds" in row]
    ratios = [row["ratio"] for row in rows if "seconds" in row and row["ratio"] != 1]
    assert len(told) >= 8
    assert not [text for text in told if text not in page]
    assert not [x for x in ratios if not any(f"| {x:.{n}f} |" in page for n in (1, 2))]
