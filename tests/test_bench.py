"""The benchmark's clock, counts, fits and rows; no time of this machine is judged."""

import importlib
import json
import os
import sys
import tracemalloc
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rapidbm.accel import rounding
from rapidbm.cli.main import main
from rapidbm.data.catalogue import load
from rapidbm.errors import InputError
from rapidbm_bench import clock
from rapidbm_bench.command import bench
from rapidbm_bench.speed import groups, peers, report, roofline, run, sizes
from rapidbm_bench.speed.jobs import Size, annealed, epoch, gibbs, ours, plain, rapid, tempered
from rapidbm_bench.speed.peak import peak_bytes

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def as_it_was():
    """Peers draw from torch's global stream; they and the profiler set variables."""
    with torch.random.fork_rng(), mock.patch.dict(os.environ):
        yield


@pytest.fixture
def hand_clock(monkeypatch):
    """A clock that only its hand moves, and no pauses."""
    hand = mock.Mock(now=0.0)
    monkeypatch.setattr(clock.time, "perf_counter", lambda: hand.now)
    monkeypatch.setattr(clock.time, "sleep", lambda seconds: None)
    return hand


def job(hand, heard, name, costs):
    """An action that takes the costs one after the other, the last for ever."""
    left = list(costs)

    def action():
        heard.append(name)
        hand.now += left.pop(0) if len(left) > 1 else left[0]

    return action


def test_rounds_alternate(hand_clock):
    heard = []
    actions = {name: job(hand_clock, heard, name, [1.0]) for name in "ab"}
    clock.interleaved(actions, 3)
    first = clock.WARM_UP + 1
    assert "".join(heard) == "a" * first + "b" * first + "aabb" * 3


def test_medians_and_quartiles_leave_out_what_was_not_timed(hand_clock):
    before = [100.0] * (clock.WARM_UP + 1)
    costs = [*before, 50.0, 1.0, 50.0, 5.0, 50.0, 3.0]  # each round: untimed, timed
    found = clock.interleaved({"a": job(hand_clock, [], "a", costs)}, 3)["a"]
    assert found.seconds == (1.0, 5.0, 3.0)
    assert found.median == 3.0
    assert found.quartiles == (2.0, 4.0)
    assert found.per(2).as_dict() == {"seconds": 1.5, "quartiles": [1.0, 2.0]}


def test_short_actions_are_called_often_enough(hand_clock):
    heard = []
    found = clock.interleaved({"a": job(hand_clock, heard, "a", [0.25])}, 1, least=1.0)["a"]
    assert found.seconds == (0.25,)
    assert len(heard) == clock.WARM_UP + 1 + 1 + 4


def test_the_peak_of_known_allocations():
    def work():
        a = torch.ones(1000, 1000)  # 4 MB
        b = a + 1  # 8 MB
        del a
        c = torch.cat([b, b])  # 12 MB
        del b, c
        np.ones(250_000)  # 2 MB

    found = peak_bytes(work, CPU)
    assert found == pytest.approx(14e6, rel=0.01)
    assert not tracemalloc.is_tracing()


def product(rows, inner, columns):
    """Operations of (rows, inner) @ (inner, columns), counted one by one."""
    count = 0
    for _ in range(rows):
        for _ in range(columns):
            count += 2 * inner
    return count


def test_operations_against_a_hand_count():
    v, h, k, c, e, s = 5, 7, 3, 4, 2, 6
    size = Size(v, h, k, c, e)
    half = [product(c, v, k), product(c, k, h), product(c, h, k), product(c, k, v)]
    assert roofline.sweep_count(size, s).operations == e * s * sum(half)
    gradient = product(k, c, v) + product(k, c, h)
    phase = product(c, v, k) + product(c, k, h) + product(c, h, k) + gradient
    assert roofline.update_count(size, s).operations == e * (s * sum(half) + 2 * phase)
    dense = Size(v, h, None, c, e)
    both = product(c, v, h) + product(c, h, v)
    assert roofline.sweep_count(dense, s).operations == e * s * both
    phase = product(c, v, h) + product(v, c, h)
    assert roofline.update_count(dense, s).operations == e * (s * both + 2 * phase)


def test_bytes_against_a_hand_count():
    v, h, k, c, e, s = 5, 7, 3, 4, 2, 6
    patterns, chains = k * v + k * h, c * v + c * h
    words = [s * patterns, chains, chains]
    assert roofline.sweep_count(Size(v, h, k, c, e), s).bytes == 4 * e * sum(words)
    read, written = s + 2, 2 + 7  # by sweeps and phases; gradients and Adam
    images, means = c * v, 4 * c * h
    found = roofline.update_count(Size(v, h, k, c, e), s).bytes
    assert found == 4 * e * ((read + written) * patterns + images + 2 * chains + means)
    with rounding.precision("bf16"):  # operands of two bytes
        low = roofline.update_count(Size(v, h, k, c, e), s).bytes
        sweep = roofline.sweep_count(Size(v, h, k, c, e), s).bytes
    assert sweep == e * (2 * words[0] + 4 * sum(words[1:]))
    assert low == found - 2 * e * (read * patterns + images + means)


@pytest.mark.parametrize("patterns", [None, 4])
def test_the_plain_path_takes_the_counted_operations_and_little_more(patterns):
    """It forms some overlaps twice, and fields of biases are products too."""
    size = Size(40, 50, patterns, 20)
    step = ours(size, 3, CPU, 0)
    with FlopCounterMode(display=False) as found:
        step()
    counted = roofline.update_count(size, 3).operations
    assert counted <= found.get_total_flops() <= 1.25 * counted


def flops(action):
    with FlopCounterMode(display=False) as found:
        action()
    return found.get_total_flops()


def test_the_plain_loop_does_the_work_of_so_many_sweeps_and_no_more():
    v, h, c, s = 40, 50, 20, 3
    one = product(c, v, h)  # any of its products
    assert flops(plain(Size(v, h, None, c), s, CPU, 0)) == (2 * s + 2 + 2) * one


def test_pid_sweeps_as_often_as_it_says():
    v, h, k, images = 40, 50, 4, 30
    none, some = (flops(rapid(Size(v, h, k), s, images, CPU, 0)) for s in (0, 3))
    sweep = 4 * k * k * (v + h)  # K chains
    assert some - none == pytest.approx(3 * sweep, rel=0.5)  # plus the first hidden units


def test_times_are_those_of_one_update_and_one_replica(hand_clock, monkeypatch):
    built = []

    def cost(seconds):
        return job(hand_clock, [], "", [seconds])

    def update(size, sweeps, images, device, seed):
        built.append((size.replicas, sweeps, images))
        return cost(6.0)

    monkeypatch.setattr(peers, "rapid", update)
    monkeypatch.setattr(peers, "gibbs", lambda *_, **__: cost(2.0))
    monkeypatch.setattr(peers, "bars", lambda n, _: cost(float(n)))
    rows = peers.paper(Size(10, 20, 3), 50, (1, 3), 400, 3, CPU, 0)
    assert built == [(1, 10, 50), (1, 0, 50), (3, 10, 50), (3, 0, 50)]
    assert [row["seconds"] for row in rows[:4]] == [6.0, 6.0, 2.0, 2.0]
    sweep = 2.0 / peers.GIBBS_SWEEPS
    assert rows[4]["seconds"] == sweep
    assert rows[4]["spin_updates_per_ns"] == pytest.approx(400 * 30 / sweep / 1e9)
    assert rows[4]["couplings_per_ns"] == pytest.approx(400 * 2 * 10 * 20 / sweep / 1e9)
    one, many = peers.many((1, 8), 3, CPU)
    assert one["seconds"] == 1.0 / peers.PER_CALL
    assert many["ratio"] == 8.0


@pytest.mark.parametrize("kind", ["cuda", "cpu", "quick"])
def test_rows_of_groups_are_times_of_a_part_and_their_rates(hand_clock, monkeypatch, kind):
    """Every job takes a second per call here, whatever the device."""
    for name in ("gibbs", "annealed", "tempered", "deep", "full", "epoch", "often", "sklearn_fit"):
        monkeypatch.setattr(groups, name, lambda *_, **__: job(hand_clock, [], "", [1.0]))
    plan, told = groups.PLANS[kind], []
    found = groups.measured(plan, CPU, 0, told.append)
    assert [group["name"] for group in found] == list(groups.GROUPS)
    assert [group["title"] for group in found] == told
    rows = {group["name"]: group["rows"] for group in found}
    many, held = rows["sampling"][:-1][0], rows["sampling"][-1]
    first, calls = plan.sampled[0], plan.calls
    assert len(rows["sampling"]) == (2 * len(plan.sampled) + 1) * len(calls)
    assert many["seconds"] == 1 / calls[0]
    units = first.visible + first.hidden
    assert many["rate"] == pytest.approx(first.chains * units * calls[0] / 1e9)
    assert [row["biases"] for row in rows["sampling"][: 2 * len(calls)]] == (
        [False] * len(calls) + [True] * len(calls)
    )
    assert held["held"] == 1 / groups.HELD
    timed = [row for row in rows["small"] if "missing" not in row]
    assert {row["seconds"] for row in timed} == {1 / groups.PER_CALL}
    sampled = f"rapidbm, {plan.small[-1]}, sampling"
    assert {row["over"] for row in timed} == {sampled, *(f"rapidbm, {size}" for size in plan.small)}
    assert [row["method"] for row in rows["annealing"]] == ["forward", "back"] * 2
    assert rows["annealing"][0]["seconds"] == 1 / plan.steps
    (turn,) = rows["tempering"]
    assert turn["rate"] == pytest.approx(plan.rungs / turn["seconds"])
    assert [row["seconds"] for row in rows["others"]] == [1.0, 1.0]
    text = "\n".join(report._group_row(row) for group in found for row in group["rows"])
    assert "spin updates per ns" in text
    assert "×1" in text


def test_a_call_does_as_many_parts_as_its_row_says():
    size = Size(40, 50, 4, 20)

    def steps(count, back):
        return flops(annealed(size, count, CPU, 0, data=True, back=back))

    for back in (False, True):
        assert steps(12, back) - steps(6, back) == steps(6, back) - steps(0, back) > 0
    one, two = (flops(tempered(size, 3, turns, CPU, 0)) for turns in (1, 2))
    assert two == 2 * one > 0
    small = Size(6, 8, None, 10)
    assert flops(epoch(small, 1, CPU, 0)) == groups.PER_CALL * flops(ours(small, 1, CPU, 0))


def test_thrml_is_asked_for_as_many_sweeps_as_ours(monkeypatch):
    """It need not be installed: what it is told is heard by a stand-in."""
    jax, thrml = mock.MagicMock(), mock.MagicMock()
    for name, module in {"jax": jax, "thrml": thrml, "thrml.models": thrml}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    peers.by_thrml(Size(3, 4, None, 5), 7, CPU, 0)()
    assert thrml.SamplingSchedule.call_args.kwargs["n_warmup"] == 7
    assert thrml.SamplingSchedule.call_args.kwargs["n_samples"] == 1
    nodes, edges, *_ = thrml.IsingEBM.call_args.args
    assert (len(nodes), len(edges)) == (7, 12)
    assert jax.block_until_ready.call_count == 1


def test_held_units_stay():
    size = Size(40, 50, 4, 20)
    free, held = (gibbs(size, 3, CPU, 0, held=held) for held in (0, groups.HELD))
    first = gibbs(size, 0, CPU, 0)()
    stayed = (held() == first).all(1)[0]
    assert stayed[:: groups.HELD].all()
    assert not stayed.all()
    assert not (free() == first).all(1)[0, :: groups.HELD].any()


def test_the_rate_of_products_is_that_of_the_better_size(monkeypatch):
    def rate(n, *_):
        return {"median": float(n), "size": n}

    monkeypatch.setattr(roofline, "_products", rate)
    monkeypatch.setattr(roofline, "interleaved", lambda *_, **__: {"copy": mock.Mock(seconds=(1.0,))})
    assert roofline.measured(CPU, 1, quick=False)["float32"]["size"] == 2048


def test_the_roof_is_the_lower_of_products_and_copies():
    rate = {name: {"median": x} for name, x in (("float32", 50.0), ("tf32", 300.0), ("copy", 10.0))}
    assert roofline.roof(rate, "float32", 2.0) == 20.0
    assert roofline.roof(rate, "float32", 99.0) == 100.0  # three products of tf32 are faster
    assert roofline.roof(rate, "tf32", 99.0) == 300.0
    other = {**rate, "copy": {"median": 12.0}, "tf32": {"median": 1.0}}
    assert [r["median"] for r in roofline.best(rate, other).values()] == [50.0, 300.0, 12.0]


def test_the_fit_finds_the_law_it_was_given():
    size = np.array([1e5, 2e5, 4e5, 8e5, 2e6])
    units = np.array([3e3, 1e3, 4e3, 1e3, 5e3])
    exact = sizes.law({"a": np.ones(5), "b": size}, 2e-3 + 3e-8 * size)
    assert exact["a"]["value"] == pytest.approx(2e-3)
    assert exact["b"]["value"] == pytest.approx(3e-8)
    assert exact["worst_miss"] < 1e-9
    columns = {"a": np.ones(5), "b": size, "d": units}
    drawn = sizes.law(columns, 1e-3 + 2e-8 * size + 4e-7 * units)
    assert drawn["d"]["value"] == pytest.approx(4e-7)


def test_errors_of_the_fit_cover_its_scatter():
    rng = np.random.default_rng(0)
    size = np.geomspace(1e5, 1e7, 10)
    misses = []
    for _ in range(400):
        times = (1e-3 + 1e-8 * size) * (1 + 0.05 * rng.standard_normal(10))
        b = sizes.law({"a": np.ones(10), "b": size}, times)["b"]
        misses.append((b["value"] - 1e-8) / b["error"])
    # Student's t with 8 degrees of freedom has 1.15 and a kurtosis of 4.5: of 400 the deviation is known
    # to 4.7 %, and the bounds are more than five times that away, p < 1e-6.
    assert 0.85 < np.std(misses) < 1.5


def test_exponents_of_made_up_times():
    plan = sizes.PLANS["quick"]
    rows = []
    for varied in sizes.VARIED:
        for size in plan.sizes(varied):
            cost = 1e-9 * size.patterns * (size.visible + size.hidden) * size.chains**0.5
            times = clock.Times((cost,))
            for work in sizes.WORKS:
                row = {"varied": varied, "work": work, **vars(size)}
                rows.append(row | sizes.rates(size, work, plan.sweeps, times))
    found = sizes.fits(rows)["update"]
    exponents = {name: number["value"] for name, number in found["exponents"].items()}
    assert exponents == pytest.approx({"K": 1, "V+H": 1, "chains": 0.5, "replicas": 0})
    assert found["law"]["b"]["value"] == pytest.approx(1e-9 * plan.base.chains**0.5)


def test_rates_of_a_sweep_are_those_of_one_in_the_call():
    found = sizes.rates(Size(6, 4, 2, 10, 3), "sweep", 5, clock.Times((1e-6,)))
    assert found["seconds"] == pytest.approx(2e-7)
    assert found["per_second"] == pytest.approx(5e6)
    assert found["spin_updates_per_ns"] == pytest.approx(5 * 3 * 10 * 10 / 1e3)
    assert found["couplings_per_ns"] == pytest.approx(5 * 3 * 10 * (6 * 4 + 4 * 6) / 1e3)
    assert found["operations"] == 4 * 3 * 10 * 2 * 10


def test_missing_and_broken_peers_are_told_and_do_not_end_the_run():
    def at_once(*_):
        raise RuntimeError("no such kernel\nmore")

    def later(*_):
        calls = iter([None] * 6)
        return lambda: next(calls)

    known = {
        "absent": peers.Peer("no_such_package", "PCD-{sweeps}", at_once),
        "broken": peers.Peer("torch", "PCD-{sweeps}", at_once),
        "tired": peers.Peer("torch", "PCD-{sweeps}", later),
        "sound": peers.Peer("torch", "PCD-{sweeps}", lambda *_: lambda: None, sweeps=1),
    }
    rows = {r["name"]: r for r in peers.peers(Size(6, 4, None, 3), 2, 3, CPU, 0, known)}
    assert rows["absent"]["missing"] == "not installed (pip install 'rapidbm[bench]')"
    assert rows["broken"]["missing"] == "failed: RuntimeError: no such kernel"
    assert rows["tired"]["missing"].startswith("failed: StopIteration")
    assert rows["sound"]["over"] == "rapidbm, PCD-1"
    assert "ratio" in rows["sound"]
    assert all("seconds" not in rows[name] for name in ("absent", "broken", "tired"))
    assert "not installed" in report._row(rows["absent"])


def test_the_command(tmp_path, monkeypatch, capsys):
    words = ["bench", "--quick", "--device", "cpu", "--json", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["rapidbm", *words])
    # No time is judged: the machines are small, and each is timed by one call after another.
    small = replace(sizes.PLANS["quick"], base=Size(128, 128, 8, 16))
    monkeypatch.setitem(sizes.PLANS, "quick", small)
    monkeypatch.setitem(clock.interleaved.__kwdefaults__, "pause", 0.0)
    monkeypatch.setattr(clock, "MOST_CALLS", 1)
    with pytest.raises(SystemExit) as leaving:
        main()
    assert not leaving.value.code
    found = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "bench.json").read_text()) == found
    for ending in ("png", "pdf"):
        assert (tmp_path / f"bench.{ending}").stat().st_size > 1000
    assert set(found["roofline"]) == {"float32", "copy"}
    assert [row["name"] for row in found["peers"]["rows"][:2]] == ["rapidbm", "plain torch"]
    *updates, sampling = found["paper"]
    assert [row["method"] for row in updates] == ["PID-10", "PID-0"] * 2
    spins = 100 * 884 / sampling["seconds"] / 1e9  # 784 + 100 units, as many chains
    assert sampling["spin_updates_per_ns"] == pytest.approx(spins)
    assert sampling["couplings_per_ns"] == pytest.approx(spins * 2 * 784 * 100 / 884)
    for rows in (found["peers"]["rows"], found["axons"], found["replicas"]):
        times = {row["name"]: row["seconds"] for row in rows if "missing" not in row}
        for row in rows:
            if "missing" not in row:
                assert row["ratio"] == pytest.approx(row["seconds"] / times[row["over"]])
                assert row["quartiles"][0] <= row["seconds"] <= row["quartiles"][1]
    plan = sizes.PLANS["quick"]
    wanted = [(v, w) for v in sizes.VARIED for _ in plan.sizes(v) for w in sizes.WORKS]
    assert [(row["varied"], row["work"]) for row in found["sizes"]] == wanted
    for row in found["sizes"]:
        top = roofline.roof(found["roofline"], "float32", row["operations_per_byte"])
        assert row["share_of_roof"] == pytest.approx(row["operations_per_second"] / top)
        assert row["operations_per_second"] == pytest.approx(row["operations"] / row["seconds"])
        held = 4 * row["replicas"] * row["patterns"] * (row["visible"] + row["hidden"])
        assert row["peak_bytes"] > held  # the patterns, and more
    assert found["fits"] == sizes.fits(found["sizes"])
    assert [group["name"] for group in found["groups"]] == list(groups.GROUPS)
    text = "\n".join(report.lines(found))
    assert "K(V+H)" in text
    for group in found["groups"]:
        assert group["title"] in text
        assert group.get("left_out", "") in text
    with pytest.raises(InputError, match=r"holds a bench\.json, which is kept"):
        bench(quick=True, out=tmp_path, device="cpu")


@pytest.mark.parametrize(("load", "told"), [(0.1, None), (1.7, 1.7)])
def test_a_busy_machine_is_noticed(load, told, monkeypatch):
    monkeypatch.setattr(run.os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    monkeypatch.setattr(run.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert run.busy() == told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--precision", "tf32"], "float32, not tf32; leave --precision out"),
        (["--precision", "int8"], "unknown precision 'int8'"),
        (["--device", "meta"], "meta"),
        (["--device", "nonsense"], "cannot be used here"),
    ],
)
def test_bad_input_ends_with_two(words, told, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["rapidbm", "bench", "--device", "cpu", "--quick", *words])
    with pytest.raises(SystemExit) as leaving:
        main()
    assert leaving.value.code == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_the_two_ways_of_a_pid_update_agree_before_they_are_timed(monkeypatch):
    pid = importlib.import_module("rapidbm_bench.pid")
    for name, value in (("VISIBLE", 30), ("HIDDEN", 60), ("PATTERNS", 4), ("BATCH", 10)):
        monkeypatch.setattr(pid, name, value)
    monkeypatch.setattr(
        pid, "interleaved", lambda actions, **_: {name: clock.Times((1.0,)) for name in actions}
    )
    monkeypatch.setattr(pid, "peak_megabytes", lambda: 0.0)
    assert pid.run()["W over overlaps"] == 1.0
    monkeypatch.setattr(pid, "through_w", lambda made: None)  # an update that is not made shows
    with pytest.raises(AssertionError, match="alike"):
        pid.run()


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # of rbms
def test_a_potts_machine_is_timed_beside_that_of_rbms(monkeypatch, capsys):
    pytest.importorskip("rbms")
    potts = importlib.import_module("rapidbm_bench.potts")
    calls = dict.fromkeys(potts.BUILDERS, 0)

    def counted(kind, build):
        def made(*given):
            action = build(*given)

            def update():
                calls[kind] += 1
                action()

            return update

        return made

    monkeypatch.setattr(potts, "BUILDERS", {k: counted(k, b) for k, b in potts.BUILDERS.items()})
    tiny = {"dense": Size(4, 6, None, 5), "K=2": Size(4, 6, 2, 5)}
    threads = torch.get_num_threads()
    rows = potts.run(["--threads", "1"], tiny, rounds=2, least=0.0)
    assert torch.get_num_threads() == threads
    assert rows["dense"]["asked"] == 1.3
    assert rows["K=2"]["asked"] is None
    assert all(0 < row["low"] <= row["ratio"] <= row["high"] for row in rows.values())
    assert min(calls.values()) >= 2 * len(tiny)
    assert potts.failed({"dense": rows["dense"] | {"ratio": 1.29}})
    assert not potts.failed({"dense": rows["dense"] | {"ratio": 1.3}, "K=2": rows["K=2"]})
    with pytest.raises(InputError, match="--threads"):
        potts.run(["--threads", "0"])
    monkeypatch.setattr(potts, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="rbms"):
        potts.run()


def test_the_benchmark_of_verdicts_counts_what_is_said(monkeypatch, capsys):
    verdicts = importlib.import_module("rapidbm_bench.verdicts")
    names = [name for name, _, _ in verdicts.cases()]
    assert len(set(names)) == len(names) >= 60
    said = iter([verdicts.GLASS, verdicts.ORDERED, "undecided: Y = 0.02 is too near 0.02"])
    few = [(str(i), verdicts.GLASSY, lambda: None) for i in range(3)]
    monkeypatch.setattr(verdicts, "cases", lambda: few)
    monkeypatch.setattr(verdicts, "verdict_on", lambda machine: next(said))
    assert verdicts.run() == {"machines": 3, "right": 1, "undecided": 1, "wrong": 1}
    assert "wrong: 1: ordered" in capsys.readouterr().err


def test_labels_are_measured_beside_logistic_regression(capsys):
    labels = importlib.import_module("rapidbm_bench.labels")
    words = ["--rows", "300", "--tested", "100", "--hidden", "8", "--epochs", "3", "--annealed", "20"]
    rows = labels.run([*words, "--share", "0.1", "--device", "cpu"], load("digits"))
    assert list(rows) == ["pixels", "and labels", "few labels", "logistic"]
    assert all(list(row) == list(rows["pixels"]) for row in rows.values())
    assert rows["logistic"]["labels"] == 30
    assert 0.0 < rows["and labels"]["error"] < 0.9
    assert rows["few labels"]["asked"] == pytest.approx(0.8 * rows["logistic"]["error"])
    good = {"and labels": {"error": 0.03, "asked": 0.03, "nats lost": 1.9, "nats asked": 2.0}}
    good["few labels"] = {"error": 0.1, "asked": 0.1}
    assert not labels.failed(good)
    assert labels.failed({**good, "few labels": {"error": 0.11, "asked": 0.1}})
    assert labels.failed({**good, "and labels": good["and labels"] | {"nats lost": 2.1}})
    assert labels.failed({**good, "and labels": good["and labels"] | {"error": 0.031}})
