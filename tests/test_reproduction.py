"""`rapidbm reproduce`: restartable, honest about what is missing, one page at the end."""

import json
import os
import re
import shutil
import signal

import numpy as np
import pytest
import torch
from markupsafe import escape
from typer.testing import CliRunner

import rapidbm_paper as experiments
from forked import Forked
from rapidbm import InputError
from rapidbm.cli.main import app
from rapidbm.random import stream
from rapidbm.runs.run import Run
from rapidbm_paper.bars import bars4, bars_and_stripes, large_weights
from rapidbm_paper.claims import (
    FAILS,
    HOLDS,
    MISSED,
    OPEN,
    STUDENT,
    UNDECIDED,
    VERDICTS,
    Claim,
    Finding,
    Number,
    judged,
)
from rapidbm_paper.lab import SCALE_NAMES, Part
from rapidbm_paper.page import COUNTED, MARKS, TONES
from rapidbm_paper.records import Record, read_record, write_record
from rapidbm_paper.registry import shown_by
from rapidbm_paper.reproduction import Interrupted, Reproduction, item_names

ITEMS = ["fig3a", "fig5"]


def invoke(*words):
    return CliRunner().invoke(app, ["reproduce", *map(str, words)])


def records(folder):
    return {p.name: p.read_bytes() for p in sorted((folder / "records").glob("*.json"))}


def reproduce(folder, items=ITEMS, **more):
    found = Reproduction.open(folder, "tiny", 0)
    return found, found.go(items, "cpu", **more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted reproduction of a few items."""
    folder = tmp_path_factory.mktemp("whole") / "r"
    assert reproduce(folder)[1]
    return folder


@pytest.fixture
def few_figures(monkeypatch):
    """`report` draws these items alone, not all that their records serve."""
    monkeypatch.setattr(experiments, "ITEMS", {name: experiments.ITEMS[name] for name in ITEMS})


# -- registries ---------------------------------------------------------------------------------------


def test_every_study_has_settings_at_every_scale():
    for study in experiments.STUDIES:
        assert len({type(experiments.settings(study, scale)) for scale in SCALE_NAMES}) == 1


def test_items_and_claims_ask_for_records_that_exist():
    parts = {name for study in experiments.STUDIES for name in experiments.parts(study)}
    for name in experiments.ITEMS:
        for need in experiments.item(name).needs:
            assert need in parts or need in experiments.STUDIES, (name, need)
    claims = experiments.claims()
    assert len({claim.name for claim in claims}) == len(claims)
    for claim in claims:
        assert {*claim.needs, *claim.also} <= parts, claim.name
        assert claim.needs, claim.name
    for study in experiments.STUDIES:
        for part in experiments.parts(study).values():
            assert set(part.needs) <= parts


@pytest.mark.parametrize("claim", experiments.claims(), ids=lambda claim: claim.name)
def test_a_claim_says_what_the_paper_says_how_it_is_read_and_by_which_rule(claim):
    for text in (claim.says, claim.reads, claim.rule):
        assert text.endswith((".", ".”")), text
    assert len({claim.says, claim.reads, claim.rule}) == 3
    # So many standard errors, so many of the draws, or no error at all.
    assert re.search(r"\d σ|as many σ|% of the bootstrap draws|exactly", claim.rule), claim.rule


def test_names_of_items():
    assert item_names(["fig2"]) == ["fig2a", "fig2b"]
    assert item_names(["fig3b", "fig3b"]) == ["fig3b"]
    assert item_names(["all"]) == list(experiments.ITEMS)
    for wrong in ("fig9", "prob", "figC"):
        with pytest.raises(InputError, match=f"unknown item '{wrong}'"):
            item_names([wrong])


# -- the folder ---------------------------------------------------------------------------------------


def test_a_reproduction_leaves_records_figures_verdicts_and_a_page(whole):
    assert {p.split(".")[0] for p in records(whole)} == {"bars", "bas"}
    for name in ITEMS:
        assert (whole / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert (whole / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (whole / "figures" / f"{name}.svg").read_bytes()
        assert "seed 0" in (whole / "figures" / f"{name}.txt").read_text()
    verdicts = json.loads((whole / "claims.json").read_text())
    assert {v["claim"] for v in verdicts} == {c.name for c in experiments.claims()}
    there = {v["claim"] for v in verdicts if not v["measured"].startswith("no record")}
    assert {"train-and-test-together", "bas-parallel"} <= there
    assert "probe-accuracy" not in there


def test_the_page_is_self_contained(whole):
    page = (whole / "report.html").read_text()
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "@import" not in page
    assert "url(" not in page
    for name in experiments.ITEMS:
        assert f'id="{name}"' in page
    for claim in experiments.claims():
        assert claim.name in page
    assert page.count("data:image/svg+xml;base64,") == len(ITEMS)


def test_what_is_finished_is_not_done_again(whole, monkeypatch):
    before, page = records(whole), (whole / "report.html").stat().st_mtime_ns
    drawn = (whole / "figures" / "fig5.png").stat().st_mtime_ns
    monkeypatch.setattr(bars_and_stripes, "PARTS", {"rapid": Part(_broken)})
    events = []
    assert reproduce(whole, tell=events.append)[1]
    assert not events
    assert records(whole) == before
    assert (whole / "figures" / "fig5.png").stat().st_mtime_ns == drawn
    assert (whole / "report.html").stat().st_mtime_ns > page


def _broken(lab, scale):
    raise ZeroDivisionError("on purpose")


def unfinished(whole, folder, *parts):
    """A copy of the reproduction without the records of these parts."""
    shutil.copytree(whole, folder)
    for part in parts:
        (folder / "records" / f"{part}.json").unlink()
    return folder


def test_interrupted_and_gone_on_gives_the_same_records(whole, tmp_path):
    unfinished(whole, tmp_path / "r", "bars.cd-epoch", "bas.rapid")
    left = [7]

    def stop():
        left[0] -= 1
        return left[0] < 0

    with pytest.raises(Interrupted):
        reproduce(tmp_path / "r", stop=stop)
    assert not list((tmp_path / "r").rglob(".*.part"))
    assert len(records(tmp_path / "r")) < len(records(whole))
    assert reproduce(tmp_path / "r")[1]
    assert records(tmp_path / "r") == records(whole)


def interrupted_while_training(whole, folder, *more):
    """A reproduction that stops after a few updates of `bars.rapid`; the run folder of that. It lacks
    the records of more parts."""
    unfinished(whole, folder, "bars.rapid", *more)
    left = [5]

    def stop():
        left[0] -= 1
        return left[0] < 0

    with pytest.raises(Interrupted):
        reproduce(folder, stop=stop)
    run = Run(folder / "trainings" / "bars.rapid" / "run")
    assert run.status == "interrupted"
    assert 0 < run.info["update"] < run.info["updates"]
    return run


def test_a_training_is_a_run_that_goes_on_where_it_stopped(whole, tmp_path, monkeypatch):
    run = interrupted_while_training(whole, tmp_path / "r", "bars.cd-epoch")
    made, create = [], Run.create

    def watched(folder, *args, **more):
        made.append(folder.parent.name)
        return create(folder, *args, **more)

    monkeypatch.setattr(Run, "create", watched)
    assert reproduce(tmp_path / "r")[1]
    assert "bars.rapid" not in made
    assert "bars.cd-epoch" in made
    assert records(tmp_path / "r") == records(whole)
    assert not run.folder.exists()  # the record is there


@pytest.mark.parametrize("damage", ["checkpoint", "evaluations", "recipe"])
def test_a_training_that_cannot_go_on_begins_anew(whole, tmp_path, damage):
    run = interrupted_while_training(whole, tmp_path / "r")
    if damage == "checkpoint":
        run.latest.write_bytes(b"damaged")
    elif damage == "evaluations":
        (run.folder / "metrics.jsonl").write_text("")
    else:
        run.info["recipe"]["epochs"] += 1
        (run.folder / "run.json").write_text(json.dumps(run.info))
    assert reproduce(tmp_path / "r")[1]
    assert records(tmp_path / "r") == records(whole)


def killed(folder, moment):
    """Whether a process that works in the folder was killed after asking so often if it is to stop."""
    left = [moment]

    def stop():
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    return Forked(lambda: reproduce(folder, stop=stop), folder.parent).wait() == -signal.SIGKILL


def test_killed_at_any_moment_and_started_again_gives_the_same_records(whole, tmp_path):
    folder = unfinished(whole, tmp_path / "r", "bars.rapid", "bas.rapid")
    for moment in (0, 5, 2, 7):  # before the first part, in a training, in the same one again
        assert killed(folder, moment)
    assert len(records(folder)) < len(records(whole))
    assert reproduce(folder)[1]
    assert records(folder) == records(whole)


def _draws(lab, scale):
    """A part that only says which numbers it would have used."""
    recipe = lab.recipe("bars4", "paper-bars")
    drawn = torch.rand(4, generator=lab.rng("here"), dtype=torch.float64)
    return {"drawn": drawn, "trained_with": recipe.seed, "seed": lab.seed}


@pytest.mark.parametrize("seed", [0, 3])
def test_every_part_draws_from_the_seed_and_its_own_name(tmp_path, monkeypatch, seed):
    study = {"cd-one": Part(_draws), "pcd-one": Part(_draws)}
    monkeypatch.setattr(large_weights, "PARTS", study)
    monkeypatch.setattr(bars4, "PARTS", {"rapid": Part(_draws)})
    monkeypatch.setattr(Reproduction, "draw", lambda *_: True)
    words = ["large-start", "--scale", "tiny", "--out", tmp_path / "r", "--device", "cpu"]
    assert invoke(*words, *(["--seed", seed] if seed else [])).exit_code == 0
    found = Reproduction(tmp_path / "r")
    assert found.seed == seed
    records = found.records()
    assert set(records) == {"large-start.cd-one", "large-start.pcd-one", "bars.rapid"}
    for name, record in records.items():
        assert record.seed == record["seed"] == record["trained_with"] == seed
        wanted = torch.rand(4, generator=stream(seed, name, "here"), dtype=torch.float64)
        assert record["drawn"] == pytest.approx(wanted.tolist(), rel=1e-6)


def test_a_machine_that_is_gone_is_made_again(tmp_path):
    found = Reproduction.open(tmp_path / "r", "tiny", 0)
    assert found.go(["fig7"], "cpu")
    before = records(tmp_path / "r")
    times = found.times()["mnist.rapid"]
    (tmp_path / "r" / "records" / "mnist.patterns.json").unlink()
    (machine,) = (tmp_path / "r" / "machines").glob("mnist.rapid*")
    machine.write_bytes(b"damaged")
    assert found.go(["fig7"], "cpu")
    assert records(tmp_path / "r") == before
    assert found.times()["mnist.rapid"] == times  # its record was there and stays
    assert "mnist.rapid.json" in before


def test_a_failing_part_is_reported_and_the_others_go_on(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(bars_and_stripes, "PARTS", {"rapid": Part(_broken)})
        done = invoke("fig5", "figC1", "--scale", "tiny", "--out", tmp_path / "r")
        assert done.exit_code == 1
        assert "bas.rapid failed: ZeroDivisionError: on purpose" in done.output
        assert (tmp_path / "r" / "figures" / "figC1.png").exists()
        assert "bas.rapid failed" in (tmp_path / "r" / "report.html").read_text()
    done = invoke("fig5", "figC1", "--scale", "tiny", "--out", tmp_path / "r")
    assert done.exit_code == 0
    assert "failed:" not in (tmp_path / "r" / "report.html").read_text()


@pytest.mark.usefixtures("few_figures")
def test_deleting_a_record_turns_its_claims_into_not_measured(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "r")
    (folder / "records" / "bas.rapid.json").unlink()
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 0
    verdicts = {v["claim"]: v for v in json.loads((folder / "claims.json").read_text())}
    before = {v["claim"]: v for v in json.loads((whole / "claims.json").read_text())}
    for claim in experiments.claims():
        if "bas.rapid" in claim.needs:
            assert verdicts[claim.name]["verdict"] == OPEN
            assert "bas.rapid" in verdicts[claim.name]["measured"]
        else:
            assert verdicts[claim.name] == before[claim.name]
    page = (folder / "report.html").read_text()
    assert '<figure id="fig5" class="missing">' in page
    assert '<figure id="fig3a">' in page
    assert not (folder / "figures" / "fig5.png").exists()


def test_a_changed_number_changes_the_verdict(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "r")
    path = folder / "records" / "bas.rapid.json"
    text = json.loads(path.read_text())
    count = len(text["values"]["shares"])
    for images, expected in ((5, HOLDS), (0, FAILS)):
        text["values"]["distinct_test"] = [images + 1e-6 * i for i in range(count)]
        path.write_text(json.dumps(text))
        found = {v.claim.name: v.verdict for v in Reproduction(folder).verdicts()}
        assert found["generates-unseen"] == expected


def test_a_record_of_other_settings_is_measured_again(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "r")
    path = folder / "records" / "bas.rapid.json"
    text = json.loads(path.read_text())
    text["settings"]["epochs"] += 1
    path.write_text(json.dumps(text))
    assert Reproduction(folder).record("bas.rapid") is None
    assert reproduce(folder)[1]
    assert records(folder) == records(whole)


# -- bad input ----------------------------------------------------------------------------------------


def test_bad_input_is_refused_before_anything_is_written(whole, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    cases = [
        (["fig9"], "unknown item"),
        (["fig5", "--scale", "huge"], "unknown scale"),
        (["fig5", "--scale", "quick", "--out", whole], "scale tiny with seed 0"),
        (["fig5", "--scale", "tiny", "--seed", "1", "--out", whole], "another --out"),
        (["fig5", "--scale", "tiny", "--out", tmp_path / "full"], "not empty"),
        (["fig5", "--scale", "tiny", "--out", tmp_path / "file"], "not empty"),
        (["claims", "--out", tmp_path / "none"], "no reproduction"),
        (["fig5", "--out", tmp_path / "new", "--device", "nowhere"], "nowhere"),
    ]
    for words, text in cases:
        done = invoke(*words)
        assert isinstance(done.exception, InputError), words
        assert text in str(done.exception)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "full"]
    done = CliRunner().invoke(app, ["report", str(tmp_path / "full")])
    assert isinstance(done.exception, InputError)


@pytest.mark.usefixtures("few_figures")
def test_a_damaged_record_is_measured_again(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "r")
    (folder / "records" / "bas.rapid.json").write_text('{"name": "bas.rapid"}')
    (folder / "records" / "notes.json").write_text("mine")
    assert Reproduction(folder).passed_over() == ["bas.rapid", "notes"]
    done = CliRunner().invoke(app, ["report", str(folder), "--out", str(tmp_path / "out")])
    assert done.exit_code == 0
    assert "notes" in done.output
    assert reproduce(folder)[1]
    (folder / "records" / "notes.json").unlink()
    assert records(folder) == records(whole)


def test_records_of_another_reproduction_are_not_judged(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "r")
    path = folder / "records" / "bas.rapid.json"
    for key, value in (("seed", 5), ("scale", "quick"), ("settings", {})):
        path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
        found = Reproduction(folder)
        assert "bas.rapid" not in found.records()
        verdicts = {v.claim.name: v.verdict for v in found.verdicts()}
        assert verdicts["bas-parallel"] == OPEN


@pytest.mark.usefixtures("few_figures")
def test_figures_follow_their_records(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "r")
    picture = folder / "figures" / "fig3a.png"
    before = picture.read_bytes()
    (folder / "records" / "bars.cd-epoch.json").unlink()  # the others are left
    Reproduction(folder).draw(["fig3a"])
    assert picture.read_bytes() != before
    picture.write_bytes(b"damaged")
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    (folder / "figures" / "fig5.pdf").unlink()
    Reproduction(folder).draw(["fig5"])
    assert (folder / "figures" / "fig5.pdf").exists()


@pytest.mark.usefixtures("few_figures")
def test_a_figure_that_cannot_be_drawn_is_said_and_not_shown(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "r")
    path = folder / "records" / "bas.rapid.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "values": {}}))
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 1
    assert "fig5 could not be drawn" in done.output
    assert not (folder / "figures" / "fig5.png").exists()
    page = (folder / "report.html").read_text()
    assert "It could not be drawn." in page


@pytest.mark.usefixtures("few_figures")
def test_files_beside_the_records_may_be_damaged(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "r")
    (folder / "times.json").write_text('{"bas.rapid": {}}')
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code == 0
    (folder / "reproduction.json").write_text('{"format": 1, "scale": "tiny", "seed": 0}')
    assert reproduce(folder)[1]
    (folder / "reproduction.json").unlink()
    with pytest.raises(InputError, match="records but no reproduction"):
        reproduce(folder)


def test_interrupted_while_drawing(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "r")
    shutil.rmtree(folder / "figures")
    with pytest.raises(Interrupted):
        reproduce(folder, stop=lambda: True)
    assert not (folder / "figures" / "fig5.png").exists()
    assert reproduce(folder)[1]


def test_a_failure_is_remembered_until_it_is_mended(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(bars_and_stripes, "PARTS", {"rapid": Part(_broken)})
        assert not reproduce(tmp_path / "r", ["fig5"])[1]
    found, well = reproduce(tmp_path / "r", ["figC1"])
    assert well
    assert "bas.rapid" in found.info["failed"]
    found, _ = reproduce(tmp_path / "r", ["fig5"])
    assert not found.info["failed"]


def test_two_processes_do_not_work_in_one_folder(whole):
    from rapidbm.disk import locked

    with locked(whole, "working"), pytest.raises(InputError, match="another process is working"):
        reproduce(whole)


def test_json_and_lists(whole):
    done = invoke("list")
    assert all(name in done.output for name in experiments.ITEMS)
    done = invoke("claims", "--out", whole, "--json")
    rows = [json.loads(line) for line in done.output.splitlines()]
    assert {row["claim"] for row in rows} == {c.name for c in experiments.claims()}
    assert {row["verdict"] for row in rows} <= set(VERDICTS)
    assert all(row["reads"] and row["rule"] for row in rows)
    said = invoke("claims", "--out", whole).output
    assert said.count("    rule ") == said.count("    read as ") == len(rows)
    assert MISSED in said


# -- records, numbers, verdicts -----------------------------------------------------------------------


def test_a_record_survives_its_file(tmp_path):
    values = {"x": torch.tensor([[1.0, float("nan")], [1 / 3, 2.0]]), "n": 3, "words": ["a", "b"]}
    write_record(tmp_path, Record("s.p", "tiny", 4, {"a": 1}, values))
    found = read_record(tmp_path / "s.p.json")
    assert (found.name, found.scale, found.seed, found.settings) == ("s.p", "tiny", 4, {"a": 1})
    assert np.isnan(found.array("x")[0, 1])
    assert found.array("x")[1, 0] == pytest.approx(1 / 3, rel=1e-6)
    assert found["words"] == ["a", "b"]


def test_numbers_say_what_their_errors_allow():
    rng = np.random.default_rng(0)
    number = Number.of(rng.normal(1.0, 1.0, 400))
    assert number.error == pytest.approx(0.05, rel=0.2)
    assert number.above(0.5) is True
    assert number.below(0.5) is False
    assert number.above(number.value + number.error) is None
    assert Number.of([1.0]).above(0.0) is None  # one instance has no error
    assert Number.of([1.0, 1.4]).above(0.0) is None  # nor do two say much: 1.2 ± 0.2
    assert Number.of([1.0, 1.4] * 3).above(0.0) is True
    from scipy.stats import t

    for free, value in enumerate(STUDENT, 1):
        assert value == pytest.approx(t.ppf(0.97725, free), abs=0.02)
    assert str(Number(0.12344, 0.0067)) == "0.1234 ± 0.0067"


def test_a_difference_is_no_surer_than_its_fewer_instances():
    few, many = Number(1.0, 0.3, 3), Number(0.4, 0.4, 50)
    for difference, value in ((few - many, 0.6), (many - few, -0.6)):
        assert difference.value == pytest.approx(value)
        assert difference.error == pytest.approx(0.5)
        assert difference.count == 3
    known = Number(0.0, 0.0)
    assert ((few - known).count, (known - few).count, (known - known).count) == (3, 3, 0)
    # Three instances at 1 ± 0.3 say less than fifty.
    assert Number(1.0, 0.3, 50).above(0) is True
    assert (few - known).above(0) is (known - few).below(0) is None
    uneven = Number.of([1.0, 2.0, 3.0]) - Number.of([0.0, 1.0] * 8)
    assert uneven.error == pytest.approx((1 / 3 + 4 / 15 / 16) ** 0.5)


def test_a_check_that_meets_nonsense_is_not_measured():
    claim = Claim("c", "", "", "", "", ("s.p",), lambda r: Finding(r["s.p"]["x"], "x"))
    record = Record("s.p", "tiny", 0, {}, {})
    assert judged(claim, {}).verdict == OPEN
    assert judged(claim, {"s.p": record}).verdict == OPEN
    for value, verdict in ((True, HOLDS), (False, FAILS), (None, OPEN)):
        found = judged(claim, {"s.p": Record("s.p", "tiny", 0, {}, {"x": value})})
        assert found.verdict == verdict


def test_what_is_measured_and_left_open_is_undecided_and_what_is_too_small_not_measured():
    check = lambda records: Finding(None, "x")  # noqa: E731
    for scale, full, verdict in (
        ("tiny", False, OPEN),
        ("quick", False, UNDECIDED),
        ("paper", False, UNDECIDED),
        ("quick", True, OPEN),
        ("paper", True, UNDECIDED),
    ):
        claim = Claim("c", "", "", "", "", ("s.p",), check, full=full)
        found = judged(claim, {"s.p": Record("s.p", scale, 0, {}, {})})
        assert found.verdict == verdict, (scale, full)


def test_every_claim_is_shown_by_figures_of_its_records():
    found = {claim.name: shown_by(claim) for claim in experiments.claims()}
    assert all(found.values())
    assert found["train-and-test-together"] == ["fig3a", "fig3b"]
    assert found["pid-early-and-late"] == ["fig2b"]
    assert found["fewer-epochs"] == ["fig3a", "fig3b"]  # names no figure; drawn beside it
    assert found["four-patterns"] == ["conjecture"]  # names fig. 4, which has other records
    assert found["pure-pid-overfits"] == ["variants"]


def test_claims_stand_beside_their_figures_and_counters_filter(whole):
    page = (whole / "report.html").read_text()
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    sections = {s.split('"')[0]: s for s in page.split('<section class="item" id="')[1:]}
    assert 'id="claim-bas-parallel"' in sections["about-fig5"]
    assert '<a href="#fig5">fig5</a>' in sections["about-fig5"]
    assert 'id="fig3b"' in sections["fig3"]
    assert page.index('<figure id="fig1"') < page.index('id="claim-')
    for verdict in json.loads((whole / "claims.json").read_text()):
        assert (
            f'<details class="claim {TONES[verdict["verdict"]]}" id="claim-{verdict["claim"]}">' in page
        )
    for tone in TONES.values():
        assert f'id="only-{tone}"' in page
        assert f":has(#only-{tone}:checked) .claim:not(.{tone})" in page
    assert not re.search(r"\bNone\b", re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL))


def test_what_one_recipe_does_not_show_is_not_refuted():
    claim = Claim("c", "", "", "", "", ("s.p",), lambda r: Finding(r["s.p"]["x"], "x"), one_recipe=True)
    for value, verdict in ((True, HOLDS), (False, MISSED), (None, OPEN)):
        found = judged(claim, {"s.p": Record("s.p", "tiny", 0, {}, {"x": value})})
        assert found.verdict == verdict


def test_the_page_and_the_tally_have_every_verdict(whole):
    assert tuple(MARKS) == tuple(TONES) == tuple(COUNTED) == VERDICTS
    page = (whole / "report.html").read_text()
    for claim in experiments.claims():
        assert escape(claim.reads) in page
        assert escape(claim.rule) in page
    for words in COUNTED.values():
        assert f"{words}</label>" in page


def test_numbers_whose_instances_are_alike_have_no_error():
    assert str(Number.of([0.2] * 3)) == "0.2 ± 0"
    assert str(Number.of([0.5, 0.5 + 1e-8])) == "0.5 ± 0"
    assert str(Number.of([0.0, 0.0])) == "0"
