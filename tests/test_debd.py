"""`python -m benchmarks debd`: its data, trees, rows, tables and bad input."""

import json

import numpy as np
import pytest

from rapidbm.data import digits
from rapidbm.errors import InputError
from rapidbm_bench import __main__ as benchmarks
from rapidbm_bench import debd, debd_methods, debd_page, debd_sets
from rapidbm_bench.debd_methods import METHODS, Failed, Method, Score, Task

ALL = {"small": debd_sets.Size(5, 300, 80, 90), "other": debd_sets.Size(5, 300, 80, 90)}


def drawn(rng, rows, columns=5):
    """Rows of a tree: each column copies an earlier one, or not."""
    found = np.empty((rows, columns), np.uint8)
    found[:, 0] = rng.random(rows) < 0.6
    for j in range(1, columns):
        copied = found[:, (j - 1) // 2]
        found[:, j] = np.where(rng.random(rows) < 0.8, copied, rng.random(rows) < 0.3)
    return found


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Two small sets, in a folder that RAPIDBM_DATA names."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data"
    (folder / "debd").mkdir(parents=True)
    monkeypatch.setattr(debd_sets, "SETS", ALL)
    monkeypatch.setattr(debd_sets, "SHA", {})
    monkeypatch.setattr(debd_page, "SETS", ALL)
    row = debd_page.Names({**debd_page.ROW.must, "set": debd_page.OneOf(tuple(ALL))})
    monkeypatch.setattr(debd_page, "ROW", row)
    monkeypatch.setattr(debd, "ROW", row)
    monkeypatch.setenv("RAPIDBM_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, size in ALL.items():
        parts = {part: drawn(rng, getattr(size, part)) for part in debd_sets.PARTS}
        np.savez(folder / "debd" / f"{name}.npz", **parts)
    return folder / "debd"


@pytest.fixture
def calls(monkeypatch):
    """`auto` measures nothing: its value is minus the seed."""
    made = []

    def measure(task):
        made.append(task)
        value = -1.0 - task.seed
        return Score(value, value - 0.5, value + 0.5, value, "by hand", "a machine", 1.0)

    monkeypatch.setitem(METHODS, "auto", Method("`auto`", measure))
    return made


def test_a_tree_and_columns_are_measured_once(tables, tmp_path, capsys):
    words = ["small", "--methods", "independent,chow-liu", "--seeds", "3", "--out", str(tmp_path / "out")]
    result = debd.run(words)
    first, second = result["rows"]
    assert (first["method"], second["method"]) == ("independent", "chow-liu")
    assert first["log_p"] < second["log_p"] == second["low"] == second["high"]
    assert first["seed"] is first["budget"] is None
    assert "chow-liu" in capsys.readouterr().err
    assert debd.run(words) == result
    assert not capsys.readouterr().err
    debd.show(result)
    assert "Chow–Liu" in capsys.readouterr().out


def test_what_is_there_is_not_measured_again(tables, tmp_path, calls, capsys):
    words = ["--methods", "auto", "--seeds", "2", "--budget", "90s", "--out", str(tmp_path / "out")]
    result = debd.run(words)
    assert [(t.file.stem, t.seed, t.seconds) for t in calls] == [
        (name, seed, 90.0) for name in ALL for seed in (0, 1)
    ]
    assert debd.run(words)["rows"] == result["rows"]
    assert len(calls) == 4
    out = tmp_path / "out"
    (out / "small.auto.90s.1.json").write_text("half a ro")
    row = json.loads((out / "other.auto.90s.0.json").read_text())
    (out / "other.auto.90s.0.json").write_text(json.dumps({**row, "log_p": "none"}))
    (out / "other.auto.90s.1.json").write_text(json.dumps({**row, "seed": 1, "data": ["a", "b", "c"]}))
    capsys.readouterr()
    assert debd.run(words)["rows"] == result["rows"]
    told = capsys.readouterr().err
    assert [t.file.stem for t in calls[4:]] == ["small", "other", "other"]
    assert told.count("measured again") == 3
    assert "other data" in told
    debd.run([*words, "--seeds", "3"])
    assert [t.seed for t in calls[7:]] == [2, 2]
    debd.run([*words, "--seeds", "1", "--budget", "1m"])  # another budget, another number
    assert len(calls) == 11


def test_an_interruption_keeps_what_was_measured(tables, tmp_path, calls, monkeypatch, capsys):
    whole = METHODS["auto"].measure

    def interrupted(task):
        if task.seed:
            raise KeyboardInterrupt
        return whole(task)

    monkeypatch.setitem(METHODS, "auto", Method("`auto`", interrupted))
    words = ["small", "--methods", "auto", "--seeds", "2", "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as stopped:
        debd.run(words)
    assert stopped.value.code == 130
    assert "goes on" in capsys.readouterr().err
    monkeypatch.setitem(METHODS, "auto", Method("`auto`", whole))
    assert [row["seed"] for row in debd.run(words)["rows"]] == [0, 1]
    assert [t.seed for t in calls] == [0, 1]


def test_a_training_that_fails_leaves_no_row_and_stops_no_other(tables, tmp_path, calls, monkeypatch):
    def fails(task):
        raise Failed("see its log")

    monkeypatch.setitem(METHODS, "dense", Method("dense", fails))
    out = tmp_path / "out"
    result = debd.run(["small", "--methods", "dense,auto", "--out", str(out)])
    assert result["failed"] == ["small.dense.300s.0: see its log"]
    assert [row["method"] for row in result["rows"]] == ["auto"]
    assert [path.name for path in out.iterdir()] == ["small.auto.300s.0.json"]
    monkeypatch.setattr(
        "sys.argv", ["benchmarks", "debd", "small", "--methods", "dense", "--out", str(out)]
    )
    with pytest.raises(SystemExit) as stopped:
        benchmarks.main()
    assert stopped.value.code == 1


def test_writing_measures_nothing(tables, tmp_path, calls, monkeypatch, capsys):
    written = []
    monkeypatch.setattr(debd, "write", written.extend)
    words = ["--out", str(tmp_path / "out"), "--budget", "90s"]
    with pytest.raises(InputError, match=r"--write needs rows of --budget 90s.*measure some first"):
        debd.run([*words, "--write"])
    first = debd.run([*words, "--methods", "auto,independent"])["rows"]
    debd.run([*words, "--methods", "auto", "--budget", "1h"])
    (tmp_path / "out" / "small.auto.90s.7.json").write_text("{")
    assert len(calls) == 4
    result = debd.run([*words, "--write"])
    assert len(calls) == 4
    assert "cannot be read as a row" in capsys.readouterr().err
    assert {*map(debd_page.key, written)} == {*map(debd_page.key, first)}
    assert result["rows"] == written


def test_json_has_every_row_and_the_sources(tables, tmp_path, calls, monkeypatch, capsys):
    words = ["debd", "small", "--methods", "auto", "--json", "--out", str(tmp_path / "out")]
    monkeypatch.setattr("sys.argv", ["benchmarks", *words])
    benchmarks.main()
    told = json.loads(capsys.readouterr().out)
    assert told["benchmark"] == "debd"
    assert told["rows"] == debd.run([word for word in words[1:] if word != "--json"])["rows"]
    assert "arxiv.org" in told["published"][0]["source"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["smal"], "unknown density-estimation table 'smal': did you mean 'small'"),
        (["small", "--methods", "autos"], "unknown method 'autos': did you mean 'auto'"),
        (["small", "--budget", "soon"], "a budget is a time.*not 'soon'; give one"),
        (["small", "--seeds", "0"], "--seeds.*0"),
        (["small", "--device", "abacus"], "abacus"),
    ],
)
def test_bad_input_ends_with_2_and_says_why(tables, tmp_path, calls, words, said, monkeypatch, capsys):
    with pytest.raises(InputError, match=said):
        debd.run([*words, "--out", str(tmp_path / "out")])
    monkeypatch.setattr("sys.argv", ["benchmarks", "debd", *words])
    with pytest.raises(SystemExit) as stopped:
        benchmarks.main()
    assert stopped.value.code == 2
    assert not calls


def test_help_has_no_line_of_code(capsys):
    with pytest.raises(SystemExit):
        debd.run(["--help"])
    said = capsys.readouterr().out
    assert "python -m benchmarks debd nltcs" in said
    assert "import" not in said


def test_without_any_table_some_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("RAPIDBM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InputError, match=r"none is in \$RAPIDBM_DATA.*or all, to download"):
        debd.run([])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: {**p, "test": p["test"][:-1]}, r"test part of small.*\(89, 5\) instead of \(90, 5\)"),
        (lambda p: {**p, "valid": p["valid"] * 2}, "valid part of small.*value 2"),
        (lambda p: {**p, "train": p["train"] - 0.5}, "train part of small.*float64"),
        (lambda p: {"train": p["train"]}, "no array 'valid'"),
    ],
)
def test_other_data_are_refused(tables, change, said):
    with np.load(tables / "small.npz") as file:
        parts = dict(file)
    np.savez(tables / "small.npz", **change(parts))
    with pytest.raises(InputError, match=f"{said}.*remove or replace it"):
        debd_sets.load("small")


def test_the_bits_are_checked(tables, monkeypatch):
    _, parts = debd_sets.load("small")
    sums = tuple(debd_sets.digest(parts[part]) for part in debd_sets.PARTS)
    monkeypatch.setattr(debd_sets, "SHA", {"small": sums})
    debd_sets.load("small")
    parts["test"][3, 2] ^= 1
    np.savez(tables / "small.npz", **parts)
    with pytest.raises(InputError, match="test part of small: the SHA-256"):
        debd_sets.load("small")


def text_of(values):
    return "\n".join(",".join(map(str, row)) for row in values).encode() + b"\n"


def test_a_clone_and_a_download_give_the_same_bits(tables, tmp_path, monkeypatch):
    _, parts = debd_sets.load("small")
    (tables / "small.npz").unlink()
    clone = tables / "datasets" / "small"
    clone.mkdir(parents=True)
    for part, values in parts.items():
        (clone / f"small.{part}.data").write_bytes(text_of(values).replace(b"\n", b"\r\n"))
    file, again = debd_sets.load("small")
    assert file == tmp_path / "cache" / "rapidbm" / "debd" / "small.npz"
    assert all(np.array_equal(again[part], parts[part]) for part in parts)
    file.unlink()
    for part in clone.iterdir():
        part.unlink()

    asked = []

    def fetch(url, checksum, right):
        asked.append(url)
        text = tmp_path / url.rpartition("/")[2]
        text.write_bytes(b"<html>a page to log in</html>")
        assert not right(text)
        text.write_bytes(text_of(parts[url.split(".")[-2]]))
        assert right(text)
        return text

    monkeypatch.setattr(digits, "_fetch", fetch)
    assert debd_sets.at_hand() == ["other"]
    _, again = debd_sets.load("small")
    assert all(np.array_equal(again[part], parts[part]) for part in parts)
    assert asked[0].startswith("https://")
    assert asked[0].endswith(f"/{debd_sets.COMMIT}/datasets/small/small.train.data")
    assert not [*tmp_path.glob("*.data")]
    assert debd_sets.at_hand() == ["small", "other"]
    debd_sets.load("small")
    assert len(asked) == 3


def test_the_tables_that_are_here_are_the_ones_that_are_known():
    sets = {name for name in debd_sets.SHA if name in debd_sets.at_hand()}
    if not sets:
        pytest.skip("no table is here; set RAPIDBM_DATA")
    for name in sets:
        debd_sets.load(name)


def row(name="nltcs", method="auto", seed=0, low=-6.1, high=-5.9, **other):
    return {
        "set": name,
        "method": method,
        "seed": seed,
        "budget": 300.0,
        "log_p": (low + high) / 2,
        "low": low,
        "high": high,
        "valid": -6.0,
        "bound": False,
        "chosen": "",
        "device": "an H200",
        "seconds": 300.0,
        "data": ["a", "b", "c"],
        "versions": {},
        **other,
    }


def test_the_median_and_the_worst_seed_are_shown():
    rows = [row(seed=s, low=low) for s, low in enumerate((-6.3, -6.1, -6.2, -9.0, -6.0))]
    assert debd_page.cell(rows) == "−6.05 [−6.20, −5.90], worst −9.00"
    assert debd_page.cell(rows[:2]) == "−6.10 [−6.30, −5.90], worst −6.30"
    assert debd_page.cell([row(low=-6.0, high=-6.0)]) == "−6.00"
    assert debd_page.cell([row(bound=True)]) == "≥ −6.00 [−6.10, −5.90]"
    assert debd_page.cell([]) == "–"
    assert debd_page.how(rows) == "`auto`: `--budget 300s` on an H200, seeds 0, 1, 2, 3, 4."


def test_the_best_pessimistic_end_is_bold():
    rows = [row(low=-5.99, high=-5.98), row("jester", low=-55.0, high=-50.0)]
    titles, lines = debd_page.table(rows)
    cells = {line[0]: dict(zip(titles, line, strict=True)) for line in lines}
    assert cells["nltcs"]["`auto`"] == "**−5.99 [−5.99, −5.98]**"
    assert cells["nltcs"]["HCLT"] == "−6.00"
    assert cells["jester"]["HCLT"] == "**−52.46**"
    assert cells["ad"]["HCLT"] == "−16.07"  # alone it is not the best of any
    assert len(lines) == len(debd_page.PUBLISHED[0].log_p)
    assert [line[0] for line in debd_page.table(rows, ["jester"])[1]] == ["nltcs", "jester"]


def test_rows_go_into_the_page_and_stay_there(tmp_path):
    page, records = tmp_path / "page.md", tmp_path / "records.json"
    page.write_text("# Before\n\n<!-- debd -->\nold\n<!-- end -->\n\nafter\n")
    debd_page.write([row(seed=1), row("voting", "chow-liu", None, budget=None)], page, records)
    debd_page.write([row(seed=0, low=-6.5)], page, records)
    kept = debd_page.read_rows(records)
    assert [debd_page.key(r) for r in kept] == [
        ("nltcs", "auto", 0),
        ("nltcs", "auto", 1),
        ("voting", "chow-liu", None),
    ]
    text = page.read_text()
    assert text.startswith("# Before\n\n<!-- debd -->\n| set |")
    assert text.endswith("<!-- end -->\n\nafter\n")
    assert "−6.20 [−6.50, −5.90], worst −6.50" in text
    assert "old" not in text
    debd_page.write([row(seed=0, budget=600.0)], page, records)  # seeds of two budgets are no sample
    assert [r["budget"] for r in debd_page.read_rows(records)] == [600.0, None]
    records.write_text("[]]")
    with pytest.raises(InputError, match="cannot be read as records"):
        debd_page.write([row()], page, records)


def test_the_leaderboard_of_the_docs_follows_from_its_records():
    text = debd_page.PAGE.read_text(encoding="utf-8")
    rows = debd_page.read_rows(debd_page.RECORDS)
    assert debd_page.page(text, rows) == text, "run python -m benchmarks debd --write"
    assert {r["set"] for r in rows} >= {*debd_sets.SHA}


def test_an_rbm_of_scikit_learn_is_measured_by_our_likelihood(tables, tmp_path):
    file, parts = debd_sets.load("small")
    task = Task(file, parts, tmp_path / "run", 0.3, 0, "cpu")
    found = METHODS["sklearn"].measure(task)
    independent = METHODS["independent"].measure(task)
    assert found.low <= found.log_p <= found.high < 0
    assert found.log_p > independent.log_p - 2
    assert "256 hidden units" in found.chosen


def test_trainings_are_commands_that_go_on_where_they_were_cut(tables, tmp_path, monkeypatch):
    """What `rapidbm` would be asked, and what is made of its answers; nothing is trained."""
    file, parts = debd_sets.load("small")
    task = Task(file, parts, tmp_path / "small.ra.60s.3", 60.0, 3, "cpu")
    asked, broken = [], []
    answer = {"log_bound_test": [-2.5], "log_bound_test_from": [-2.6], "log_bound_test_to": [-2.4]}

    def command(words, log):
        asked.append(words)
        if words[0] == "train":
            if "--resume" in words and broken:
                return None
            task.folder.mkdir(exist_ok=True)
            (task.folder / "run.json").write_text("{}")
            return ""
        return "said before\n" + json.dumps({**answer, "log_bound_valid": [-2.7]})

    monkeypatch.setattr(debd_methods, "command", command)
    monkeypatch.setattr(debd_methods.rb, "Run", lambda folder: None)
    monkeypatch.setattr(debd_methods, "_chosen", lambda run: "as asked")
    found = METHODS["ra"].measure(task)
    assert (found.log_p, found.low, found.high, found.valid, found.bound) == (
        -2.5,
        -2.6,
        -2.4,
        -2.7,
        True,
    )
    train, evaluate = asked
    assert train[:2] == ["train", str(file)]
    given = dict(zip(train[2::2], train[3::2], strict=True))
    assert given["--budget"] == "60s"
    assert given["--seed"] == "3"
    assert given["--hidden"] == "100"
    assert given["--patterns"] == "16"
    assert given["--out"] == str(task.folder)
    assert evaluate[:2] == ["evaluate", str(task.folder)]
    del asked[:]
    assert METHODS["ra"].measure(task).seconds is None  # of a part of a training nobody knows it
    assert asked[0] == ["train", "--resume", "--out", str(task.folder)]
    del asked[:]
    broken.append(True)  # a folder that cannot go on is begun anew
    assert METHODS["ra"].measure(task).seconds is not None
    assert [words[1] for words in asked] == ["--resume", str(file), str(task.folder)]


def test_a_command_that_fails_leaves_its_words_in_the_log(tmp_path):
    log = tmp_path / "log"
    assert debd_methods.command(["trane"], log) is None
    assert log.read_text().startswith("rapidbm trane\n")
    assert "train" in log.read_text()


@pytest.mark.slow
def test_a_machine_is_trained_and_evaluated(tables, tmp_path):
    words = [
        "small",
        "--methods",
        "dense",
        "--budget",
        "2s",
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "out"),
    ]
    (trained,) = debd.run(words)["rows"]
    assert trained["low"] <= trained["log_p"] <= trained["high"]
    assert (
        trained["log_p"]
        > debd.run(["small", "--methods", "independent", "--out", str(tmp_path)])["rows"][0]["log_p"] - 1
    )
    assert trained["chosen"].startswith("rbm, 100 hidden units, dense")
