"""`rapidbm report RUN`: a run on one page, made once, escaped, and sparing with what is not there."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import rapidbm
from rapidbm import InputError, pictures
from rapidbm.cli.main import app
from rapidbm.machines.spins import pack, unpack
from rapidbm.runs.diagnosis import Diagnosis, DiagnosisRow
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.report import measured, page
from rapidbm.runs.report.charts import HEIGHT, Chart, Curve, labelled, log_ticks, ticks, with_error
from rapidbm.runs.report.page import write_report
from rapidbm.runs.run import Run

STYLE = (Path(page.__file__).with_name("style.css")).read_text()
TAG = "<img src=x onerror=alert(1)>"
EMPTY = {"meta", "img", "br", "wbr", "link", "input"}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(measured, "SWEEPS", 3)
    monkeypatch.setattr(measured, "ROWS", 30)


def trained(folder, dataset, **chosen):
    run = Run.create(folder, Recipe.made(dataset, {"hidden": (6,), "device": "cpu", **chosen}))
    for _ in run.go():
        pass
    return run


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("bars") / TAG, "bars4", replicas=3, epochs=3).folder


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    rows = np.random.default_rng(0).integers(0, 2, (40, 5))
    names = ["smokes", "<script>alert(2)</script>", "a & b", '"quoted"', "None of these"]
    head = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    lines = [head, *(",".join(map(str, row)) for row in rows)]
    (folder / "mine.csv").write_text("\n".join(lines) + "\n")
    return trained(
        folder / "R", str(folder / "mine.csv"), patterns=None, negative="cd", epochs=4, valid=0.2
    ).folder


@pytest.fixture
def run(bars, tmp_path):
    return Path(shutil.copytree(bars, tmp_path / TAG))


class Tree(HTMLParser):
    """What a page is made of; raises where tags do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts, self.headings = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join("".join(self.texts).split())

    def of(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def checked(path):
    """A page that is sound: closed tags, names for what has none, nothing from elsewhere."""
    text = path.read_text()
    tree = Tree(text)
    ids = [attrs["id"] for _, attrs in tree.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for a in tree.of("a") if a["href"].startswith("#")} <= set(ids)
    assert all(a["href"].startswith("#") for a in tree.of("a"))
    for image in tree.of("img"):
        assert "alt" in image
        assert image.get("src", "data:image/").startswith("data:image/")
    for chart in tree.of("svg"):
        if chart.get("aria-hidden") == "true":  # a part of one
            continue
        assert chart["aria-label"]
        assert json.loads(chart["data-looks"])
    assert tree.headings[0] == 1
    assert all(b - a <= 1 for a, b in zip(tree.headings, tree.headings[1:], strict=False))
    assert len(tree.of("script")) == len(tree.of("style")) == 1
    assert not [k for _, attrs in tree.tags for k in attrs if k.startswith("on")]
    assert not re.search(r"url\(|@import|https?:", text)
    assert tree.of("html")[0]["lang"] == "en"
    return text, tree


# -- the page -----------------------------------------------------------------------------------------


def test_the_page_of_a_run_has_all_of_it(run):
    path, missing = write_report(run)
    assert path == run / "report.html"
    assert not missing
    text, tree = checked(path)
    sections = [s["id"] for s in tree.of("section")]
    assert sections == [
        "trained",
        "learning",
        "likelihood",
        "samples",
        "filled",
        "fields",
        "sizes",
        "next",
    ]
    for words in (
        "16 visible and 6 hidden units",
        "K = 8 patterns",
        "3 replicas",
        "rate 0.02",
        "finished",
    ):
        assert words in tree.text, words
    assert "10 to train, 4 to test" in tree.text
    assert not re.search(r"\b(None|nan|inf)\b", tree.text)
    assert text.count("data:image/png;base64,") == 6  # samples, data; three of the task; patterns
    assert STYLE.strip() in text


def test_names_are_text_and_no_tags(run, table):
    text, tree = checked(write_report(run)[0])
    assert TAG in tree.text
    assert TAG not in text
    assert f"rapidbm evaluate '{run}'" in tree.text
    text, tree = checked(write_report(table)[0])
    assert "<script>alert(2)" not in text
    assert "<script>alert(2)</script>" in tree.text


def test_what_a_strangers_folder_says_is_text(run):
    about = json.loads((run / "run.json").read_text())
    about |= {"device": TAG, "stopped": TAG, "fit": [TAG], "versions": [TAG], "started": {TAG: None}}
    about |= {"auto": {"budget": None, "found": [f"auto: {TAG}"]}, "evaluations_lost": TAG, "status": TAG}
    (run / "run.json").write_text(json.dumps(about))
    text, tree = checked(write_report(run, quick=True)[0])
    assert TAG not in text
    assert tree.text.count(TAG) > 6


def test_tables_are_tables(table):
    path, missing = write_report(table)
    assert not missing
    text, tree = checked(path)
    assert "data:image" not in text
    assert [t["class"] for t in tree.of("table") if t.get("class") == "bits"] == ["bits"] * 3
    for words in ("smokes", "a & b", '"quoted"', "None of these", "rows of 5 columns", "exact"):
        assert words in tree.text, words
    assert "Hidden unit" in tree.text
    # The likelihood that was watched, with train, test and valid.
    assert {"train", "test", "valid"} <= set(re.findall(r'<text class="mark"[^>]*>(\w+)<', text))


def test_the_likelihood_is_that_of_the_folder_where_none_is_measured(table, tmp_path):
    path, _ = write_report(table, tmp_path / "out", quick=True)
    _, tree = checked(path)
    last = Run(table).metrics()[-1]
    assert f"{last['log_likelihood_test'][0]:.2f}".replace("-", "−") in tree.text
    assert f"As the run watched it after update {last['update']}" in tree.text


def test_of_a_machine_of_the_trials_the_page_says_what_the_trials_said(table, tmp_path):
    """What the run watched is of machines that it did not keep."""
    folder = tmp_path / "R"
    shutil.copytree(table, folder)
    said = json.loads((folder / "run.json").read_text())
    said["best_from"] = {"what": "a trial", "value": -1.234, "error": 0.1}
    (folder / "run.json").write_text(json.dumps(said))
    path, _ = write_report(folder, tmp_path / "out", quick=True)
    _, tree = checked(path)
    assert "log p of a validation row" in tree.text
    assert "Of a trial, the best machine" in tree.text
    assert "−1.23" in tree.text
    assert "As the run watched it" not in tree.text


# -- what it measures ---------------------------------------------------------------------------------


def contents(folder):
    return {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file() and p.name != ".lock"}


def test_looking_changes_nothing_and_writes_elsewhere_if_told(run, tmp_path):
    before = contents(run)
    write_report(run, tmp_path / "out")
    assert contents(run) == before
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"report.html", "report.json"}


def test_what_was_measured_is_kept_for_the_machine_it_was_measured_of(run, monkeypatch):
    write_report(run)
    first = (run / "report.html").read_bytes()

    def refuse(*given, **named):
        raise InputError("measured again")

    for name in ("likelihoods", "samples", "reconstruct", "hamming_distance", "spectrum"):
        monkeypatch.setattr(measured, name, refuse)
    assert not write_report(run)[1]
    assert (run / "report.html").read_bytes() == first
    for changed in ({"seed": 1}, {"replica": 1}, {"update": 1}):
        assert len(write_report(run, run.parent / "other", **changed)[1]) == 5
    (run / "report.json").write_text('{"of": 1}')
    assert len(write_report(run)[1]) == 5


def test_a_cache_of_nonsense_is_passed_over(run):
    write_report(run)
    kept = json.loads((run / "report.json").read_text())
    kept["samples"]["rows"] = ["zz"]
    kept["filled"] = ["00"]  # too short
    kept["norms"]["couplings"] = []
    kept["spectrum"]["values"] = []
    kept["likelihood"]["rows"] = {TAG: [1.0]}
    (run / "report.json").write_text(json.dumps(kept))
    _, tree = checked(write_report(run, quick=True)[0])
    assert not {"samples", "filled"} & {s["id"] for s in tree.of("section")}


def test_quick_draws_nothing_and_reads_no_data(run, monkeypatch):
    monkeypatch.setattr(Run, "data", lambda self: pytest.fail("read"))
    monkeypatch.setattr(measured, "samples", lambda *x: pytest.fail("sampled"))
    path, missing = write_report(run, quick=True)
    assert not missing
    _, tree = checked(path)
    assert {"trained", "learning", "fields"} <= {s["id"] for s in tree.of("section")}
    assert not (run / "report.json").exists()


def test_a_limit_leaves_out_what_does_not_fit(run):
    path, missing = write_report(run, limit=1e-9)
    assert any("the likelihood" in line for line in missing)
    _, tree = checked(path)
    assert "no time was left" in tree.text
    assert not write_report(run)[1]  # measured now


def test_data_that_are_gone_are_named_and_the_rest_is_shown(table, tmp_path):
    folder = Path(shutil.copytree(table, tmp_path / "R"))
    about = json.loads((folder / "run.json").read_text())
    about["recipe"]["dataset"] = str(tmp_path / "elsewhere.csv")
    (folder / "run.json").write_text(json.dumps(about))
    path, (line,) = write_report(folder)
    assert "elsewhere.csv" in line
    _, tree = checked(path)
    assert {"samples", "sizes"} <= {s["id"] for s in tree.of("section")}
    assert "filled" not in {s["id"] for s in tree.of("section")}


def test_a_run_that_has_not_begun_has_a_page(tmp_path):
    chosen = {"hidden": (4,), "device": "cpu"}
    Run.create(tmp_path / "R", Recipe.made("bars4", chosen))
    path, (line,) = write_report(tmp_path / "R")
    assert "no checkpoint" in line
    _, tree = checked(path)
    assert "created" in tree.text
    assert "rapidbm train --resume" in tree.text


@pytest.mark.parametrize("model", ["bm", "dbm"])
def test_other_machines_have_pages(tmp_path, model):
    hidden = {"bm": (), "dbm": (3, 2)}[model]
    chosen = {"model": model, "hidden": hidden, "patterns": None, "negative": "cd", "biases": True}
    path, missing = write_report(trained(tmp_path / "R", "bars4", **chosen, epochs=1).folder)
    assert not missing
    _, tree = checked(path)
    assert ("Visible units" if model == "bm" else "Hidden units") in tree.text


# -- diagnosis ----------------------------------------------------------------------------------------


@pytest.fixture
def diagnosis():
    fig = pictures.figure(1, 1)
    rows = (DiagnosisRow("verdict", TAG, "glassy"), DiagnosisRow("minima", "distinct", 3.0, 0.5))
    return Diagnosis(rows, {"phases": fig}, "glassy")


def test_a_diagnosis_is_shown_once_it_was_made(run, diagnosis, monkeypatch):
    _, tree = checked(write_report(run, quick=True)[0])
    assert "diagnosis" not in {s["id"] for s in tree.of("section")}
    monkeypatch.setattr(page, "diagnose", lambda *given, **named: diagnosis)
    write_report(run, diagnosed=True)
    text, tree = checked(write_report(run, quick=True)[0])
    assert "diagnosis" in {s["id"] for s in tree.of("section")}
    assert "3 ± 0.5" in tree.text
    assert "Where the machine stands among the phases" in tree.text
    assert TAG not in text


def test_pictures_of_a_diagnosis_lie_beside_it(run, diagnosis):
    figures = run / "figures"
    figures.mkdir(exist_ok=True)
    diagnosis.save(figures, "x")
    (run.parent / "secret.png").write_bytes(b"\x89PNG secret")
    (figures / "text.png").write_text("secret")
    path = figures / "diagnosis.json"
    for name in ("../../secret.png", "text.png", "none.png"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "figures": {"phases": name}}))
        before = write_report(run, quick=True)[0].read_text().count("data:image/png")
        assert before == 1  # the patterns


# -- the command --------------------------------------------------------------------------------------


def invoke(*words):
    return CliRunner().invoke(app, ["report", *map(str, words)])


def test_the_command_tells_where_the_page_is(run, tmp_path):
    done = invoke(run, "--quick", "--json", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert told == {"event": "finished", "report": str(tmp_path / "out" / "report.html"), "missing": []}
    done = invoke(run, "--limit", "1e-9")
    assert done.exit_code == 0
    assert "Without the likelihood" in done.output


def test_bad_input_is_refused(run, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "reproduced").mkdir()
    (tmp_path / "reproduced" / "reproduction.json").write_text("{}")
    for words, told in (
        ([tmp_path / "empty"], "no reproduction"),
        ([tmp_path / "empty", "--quick"], "no run folder"),
        ([tmp_path / "reproduced", "--quick"], "which are for runs"),
        ([run, "--replica", "3"], "has 3 replicas"),
        ([run, "--update", "77"], "no checkpoint of update 77"),
        ([run, "--limit", "-1"], "a limit is a positive number"),
    ):
        done = invoke(*words)
        assert isinstance(done.exception, InputError), words
        assert told in str(done.exception)
    assert not (run / "report.html").exists()


def test_a_cache_that_leads_out_of_the_folder_is_not_followed(run, tmp_path):
    (tmp_path / "secret").write_text("{}")
    (run / "report.json").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="leads out of"):
        write_report(run)
    assert (tmp_path / "secret").read_text() == "{}"


# -- style and charts ---------------------------------------------------------------------------------


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_contrast(scheme):
    block = re.findall(r":root \{([^}]*--ink[^}]*)\}", STYLE)[scheme]
    colours = dict(re.findall(r"--(\w+): (#\w{6})", block))
    for ink in ("ink", "soft", "link", "holds", "fails", "missed", "open", "undecided", "train", "test"):
        for ground in ("paper", "ground"):
            light, dark = sorted((luminance(colours[x]) for x in (ink, ground)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground)


def test_every_variable_of_the_style_is_set():
    used = set(re.findall(r"var\(--(\w+)", STYLE))
    assert used <= set(re.findall(r"--(\w+):", STYLE))


def points(svg, kind):
    found = re.search(rf'class="{kind}" points="([^"]+)"', svg)
    return [tuple(map(float, p.split(","))) for p in found[1].split()]


def test_a_chart_draws_values_where_they_are():
    chart = Chart("<b>", "epoch", [Curve("a & b", [0, 1, 3], [0.0, 1.0, 2.0], [0.5, 0.5, 0.5])])
    svg = str(chart.svg())
    (x0, y0), (x1, y1), (x2, y2) = points(svg, "line")
    assert (x2 - x0) == pytest.approx(3 * (x1 - x0), abs=0.2)
    assert (y0 - y1) == pytest.approx(y1 - y2, abs=0.2)
    band = points(svg, "band")
    assert len(band) == 6
    assert band[-1][1] == pytest.approx(y0, abs=0.2)  # no share is below 0
    assert band[0][1] == pytest.approx((y0 + y1) / 2, abs=0.2)
    assert "a &amp; b" in svg
    assert "<b>" not in svg
    assert "a & b 2.00\u00a0±\u00a00.50" in chart.last()


def test_a_start_far_away_does_not_flatten_the_rest():
    late = [-20.0 + 0.1 * i for i in range(20)]
    line = points(str(Chart("t", "x", [Curve("", list(range(21)), [-5000.0, *late])]).svg()), "line")
    heights = [y for _, y in line[5:]]
    assert max(heights) - min(heights) > 100
    assert all(0 <= y <= 270 for _, y in line[1:])


def test_a_chart_of_nothing_is_empty():
    chart = Chart("t", "x", [Curve("", [0, 1], [None, None])])
    assert str(chart.svg()) == chart.last() == ""
    assert "<svg" in Chart("t", "x", [Curve("", [0], [3.0])]).svg()


def test_ticks_are_round_and_within():
    assert ticks(0.0, 1.0) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert ticks(-23.7, -21.2) == pytest.approx([-23.5, -23.0, -22.5, -22.0, -21.5])
    assert [text for _, text in labelled(ticks(-0.18312, -0.18309))][:2] == ["−0.18312", "−0.18311"]
    assert [text for _, text in labelled([0.0, 2000.0])] == ["0", "2,000"]
    assert log_ticks(0.0, 60.0) == [0, 1, 2, 5, 10, 20, 50]
    assert log_ticks(0.0, 5000.0) == [0, 1, 10, 100, 1000]


def test_numbers_have_the_digits_of_their_errors():
    assert with_error(-21.3004, 0.0897) == "−21.300\u00a0±\u00a00.090"
    assert with_error(-2226.4, 1243.7) == "−2,226\u00a0±\u00a01,244"
    assert with_error(0.25, 0.0) == "0.25\u00a0±\u00a00"


def test_samples_survive_their_text():
    spins = torch.tensor([[1, -1, 1], [-1, -1, 1]])
    assert torch.equal(unpack(pack(spins), 3), spins.to(torch.int8))
    for rows in (["ff"], ["zz", "00"], ["0000", "00"], []):
        with pytest.raises(ValueError, match=r"."):
            unpack(rows, 12)


def test_the_package_has_what_a_page_needs():
    folder = Path(rapidbm.__file__).parent / "runs" / "report"
    assert {"base.html", "run.html", "style.css", "page.js"} <= {p.name for p in folder.iterdir()}


def test_few_looks_stay_in_the_frame_and_a_far_start_is_cut_off_by_it():
    few = Chart("log p", "epoch", [Curve("test", [0, 1, 2, 3], [-24.4, -21.6, -20.9, -20.8])])
    points = re.search(r'polyline class="line" points="([^"]+)"', few.svg())[1].split()
    heights = [float(point.split(",")[1]) for point in points]
    assert heights == sorted(heights, reverse=True)
    assert len(set(heights)) == 4  # none lies on the edge in the place of another
    many = Chart(
        "log p", "epoch", [Curve("test", range(20), [-900.0, *(-21 + 0.01 * i for i in range(19))])]
    )
    start = re.search(r'polyline class="line" points="([^"]+)"', many.svg())[1].split()[0]
    assert float(start.split(",")[1]) > HEIGHT  # below the inner svg, which cuts the line off
    assert many.svg().count("<svg ") == 2
