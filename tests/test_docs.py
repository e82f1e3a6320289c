"""The code of README and docs runs, commands and names exist, and the site builds strictly."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import typer

import rapidbm
from rapidbm.cli.main import app

ROOT = Path(__file__).parents[1]
COMMANDS = typer.main.get_command(app).commands
OPTIONS = {flag for c in COMMANDS.values() for p in c.params for flag in p.opts + p.secondary_opts}
OPTIONS |= {"--help", *(flag for p in typer.main.get_command(app).params for flag in p.opts)}
OPTIONS |= {"--nproc-per-node", "--nnodes", "--max-restarts", "--rdzv-endpoint"}  # torchrun's
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
BENCHMARK = re.compile(r"python -m benchmarks (\w+)((?:\\\n|[^`\n])*)")
NOT_RUN = 26  # blocks of code that only hours, hardware or a network would run; each says why


def script(name):
    """A module of docs/."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pages = script("pages")
PAGES = pages.pages()
BLOCKS = {page: pages.blocks(page.read_text(encoding="utf-8")) for page in PAGES}


def by_name(page):
    return str(page.relative_to(ROOT)).removesuffix(".md")


LONG = {f"docs/tutorials/{name}" for name in ("diagnostics", "digits", "inpainting", "phases")}
LONG |= {"docs/estimator"}  # pages that train and measure for seconds


def run_once(page):
    name = by_name(page)
    return pytest.param(page, marks=[pytest.mark.slow] if name in LONG else [], id=name)


@pytest.mark.parametrize("page", [run_once(p) for p in PAGES if any(b.runs for b in BLOCKS[p])])
def test_the_code_of_a_page_runs_and_prints_what_it_shows(page, tmp_path):
    table = pages.table_of(page)
    if table is not None and not table.is_file():
        pytest.skip(f"RAPIDBM_DATA has no tables/{table.name}")
    plt.switch_backend("agg")
    for block, printed in pages.run(page, tmp_path):
        if block.shown is not None:
            where = f"{page.name}:{block.line} printed\n{printed}\nrun python docs/pages.py {page}"
            assert pages.alike(block.shown, printed), where
    plt.close("all")


def test_every_block_is_of_a_language_and_few_do_not_run():
    left_out = []
    for page, blocks in BLOCKS.items():
        assert len(re.findall("^```", page.read_text(), re.MULTILINE)) % 2 == 0, (
            f"{page}: a fence is open"
        )
        for block in blocks:
            where = f"{page}:{block.line}"
            assert block.language in (*pages.RUN, "text", "toml", "json"), f"{where} is of no language"
            assert block.language in pages.RUN or "rapidbm train" not in block.code, f"{where} is sh"
            if block.reason:
                left_out.append(where)
    assert 0 < len(left_out) <= NOT_RUN, left_out


def test_what_a_block_may_be():
    text = (
        "<!-- not run: hours -->\n```sh\nmake all\n```\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n"
    )
    slow, quick = pages.blocks(text)
    assert (slow.runs, slow.reason, slow.commands) == (False, "hours", [["make", "all"]])
    assert (quick.runs, quick.shown, quick.line) == (True, "1\n", 7)
    assert pages.alike("log p −3.14 in 2 s", "log p −2.7 in 1 min 3 s")
    assert not pages.alike("log p −3.14 nats", "the energy is 12")


@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(b.language == "sh" for b in BLOCKS[p])], ids=by_name
)
def test_the_commands_of_a_page_have_their_options(page):
    for block in BLOCKS[page]:
        for program, *words in block.commands if block.language == "sh" else []:
            if program == "rapidbm" and not words[0].startswith("-"):
                COMMANDS[words[0]].make_context(words[0], words[1:])


def test_the_reference_has_every_public_name():
    text = "".join(page.read_text() for page in (ROOT / "docs/api").glob("*.md"))
    listed = re.findall(r"^::: rapidbm\.(\w+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(set(rapidbm.__all__) - {"__version__"})


@pytest.mark.slow
def test_the_site_builds_strictly_and_fetches_nothing(tmp_path):
    # Not --quiet: warnings that are not shown are not counted, and nothing is strict.
    words = ["-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [sys.executable, *words], check=False, cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for name in ("index", "tutorials/table", "api/machines"):
        html = (tmp_path / "site" / f"{name}.html").read_text()
        fetched = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(https?:[^\"]+)", html)
        assert not fetched, fetched
    assert "Regularized Axons" in (tmp_path / "site/api/machines.html").read_text()


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_commands_options_and_links_exist(page):
    text = page.read_text()
    for name, words in BENCHMARK.findall(text):
        known = (ROOT / "src/rapidbm_bench" / f"{name}.py").read_text()
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
    module = script("reproduction")
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
