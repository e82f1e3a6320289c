"""The mutations change what they say, and a toy's tests notice one of them and miss another."""

import importlib
import json
from pathlib import Path

import pytest

SOURCE = '''"""A text with 1 < 2."""

from __future__ import annotations

WIDTH = 3


def inside(ξ: int = 0, steps: int = 20) -> bool:
    """Whether 0 < ξ."""
    if ξ > 7:
        raise ValueError(f"at most {7 + 1}")
    return 0 <= ξ < 5 and not ξ == 2


def unused(ξ):
    with watch("steps", 10) as tick:
        for i in range(steps):
            tick(1 + i)
            if i:
                continue
            total[ξ - 1 :] += -ξ.sum(1) * 0.5
    return torch.cat(
        [total.abs(), min(a, b)], dim=1, generator=rng, device=ξ.device
    )
'''


@pytest.fixture
def mutants(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    return importlib.import_module("mutants.__main__")


def test_every_module_of_a_group_exists_and_can_be_mutated(mutants):
    modules = [module for group in mutants.GROUPS.values() for module in group]
    assert len({*modules}) == len(modules)
    texts = mutants.sources(mutants.ROOT, mutants.PACKAGE, modules)
    assert [m for m in modules if not mutants.mutations(m, texts[m])] == []


def changes(mutants, source: str) -> dict[str, str]:
    """Every changed line of a source under its mutation's name."""
    return {m.name: m.difference(source)[1] for m in mutants.mutations("toy", source)}


def test_a_mutation_changes_one_place_and_no_text(mutants):
    found = mutants.mutations("toy", SOURCE)
    for mutation in found:
        assert mutants.sound(mutation, SOURCE)
        pairs = zip(SOURCE.splitlines(), mutation.apply(SOURCE).splitlines(), strict=True)
        assert [i for i, (old, new) in enumerate(pairs, 1) if old != new] == [mutation.line]
    # No docstring, no annotation, no setting, no error, no progress.
    assert {m.line for m in found} == {8, 10, 12, 19, 20, 21, 23}
    assert [m.new for m in found if m.line == 8] == ["1"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0 <= ξ < 5 and not ξ == 2", "0 < ξ < 5 and not ξ == 2"),
        ("0 <= ξ < 5 and not ξ == 2", "0 <= ξ >= 5 and not ξ == 2"),
        ("0 <= ξ < 5 and not ξ == 2", "0 <= ξ < 5 or not ξ == 2"),
        ("0 <= ξ < 5 and not ξ == 2", "0 <= ξ < 5 and ξ == 2"),
        ("0 <= ξ < 5 and not ξ == 2", "0 <= ξ < 6 and not ξ == 2"),
        ("if i:", "if (not i):"),
        ("continue", "break"),
        ("total[ξ - 1 :] += -ξ.sum(1) * 0.5", "pass"),
        ("-ξ.sum(1) * 0.5", "ξ.sum(1) * 0.5"),
        ("-ξ.sum(1) * 0.5", "-ξ.sum(0) * 0.5"),
        ("-ξ.sum(1) * 0.5", "-ξ.mean(1) * 0.5"),
        ("-ξ.sum(1) * 0.5", "-ξ.sum(1) / 0.5"),
        ("-ξ.sum(1) * 0.5", "-ξ.sum(1) * 1.0"),
        ("total[ξ - 1 :]", "total[(ξ - 1) + 1 :]"),
        ("+= -ξ", "-= -ξ"),
        ("total.abs()", "total"),
        ("min(a, b)", "max(a, b)"),
        ("dim=1, ", "dim=0, "),
        (" dim=1,", ""),
        (" generator=rng,", ""),
    ],
)
def test_every_kind_of_mutation(mutants, old, new):
    line = next(line.strip() for line in SOURCE.splitlines() if old in line)
    assert line.replace(old, new) in changes(mutants, SOURCE).values()


def test_graphs_stubs_and_choices_between_texts_are_left_alone(mutants):
    source = """def step(self):
    few = f"{widths[:3]}…" if len(widths) > 3 else "few"
    if self.replay is None:
        self.chains = 2 * chains
    elif chains.numel():
        self.chains.copy_(2 * chains)


def replayed(self):
    return 2 * self.chains


def moments(rows, room):
    for _ in range(50):
        rows.sum(0, dtype=torch.float64)
    return torch.split(rows, max(1, room // len(rows)))


def field(self, own: bool = True):
    \"\"\"What a coupling gives.\"\"\"
    ...
"""
    assert {m.line for m in mutants.mutations("toy", source)} == {4, 15}  # the axis


def test_signs_texts_and_the_conditions_of_silent_things_are_left_alone(mutants):
    source = """def told(rows, turned, halts):
    text = "so many"
    text += f"{rows}"[:200]
    rng = stream(7, 1)
    if halts or rows:
        wait(rows)
    return text, rows * turned[:, None]


def other(turned, rows, halts):
    if halts or rows:
        wait(rows)
        rows += 1
    return turned * rows + torch.randn(stream(0, "noise"))
"""
    found = mutants.mutations("toy", source)
    assert {(m.line, m.kind) for m in found} == {
        (4, "number"), (11, "logic"), (13, "deleted"), (13, "arithmetic"), (13, "number"),
        (14, "arithmetic"),
    }  # fmt: skip


TOY = """def grown(x):
    if x > 3:
        return x + 1
    return 2 * x


def forever(x):
    while x:
        x += 1
"""
TESTS = """
from toy.growth import forever, grown


def test_small():
    assert grown(2) == 4


def test_large():
    assert grown(9) == 10


def test_slow():
    forever(grown(2))
"""


@pytest.fixture
def toy(tmp_path):
    for name, text in {
        "src/toy/__init__.py": "",
        "src/toy/growth.py": TOY,
        "tests/test_growth.py": TESTS,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def run(mutants, toy, monkeypatch):
    running = importlib.import_module("mutants.running")
    monkeypatch.setattr(running, "SLOW", 0.2)  # test_slow ends there
    groups = {"growth": ("growth",)}

    def run(*words):
        mutants.main(["--workers", "1", *words], root=toy, package="toy", groups=groups)

    return run


def test_one_mutant_is_killed_and_one_survives(run, toy, capsys):
    seen = {path: path.read_text() for path in toy.rglob("*.py")}
    names = ("growth:2:9:edge", "growth:4:11:number")
    only = [word for name in names for word in ("--only", name)]
    run(*only, "--budget", "5", "--out", str(toy / "out.json"))
    found = json.loads((toy / "out.json").read_text())
    assert [m["name"] for m in found["mutants"]] == list(names)
    assert [m["by"] for m in found["mutants"]] == [
        "",
        "tests/test_growth.py::test_small",
    ]
    # Only the tests that execute a line meet its mutant, and the slow one only if there is time.
    assert [(m["tests"], m["of"]) for m in found["mutants"]] == [(2, 3), (1, 2)]
    assert found["summary"]["all"] == "1 of 2 killed (50%)"
    assert "SURVIVED 2 of the 3 tests that execute it" in capsys.readouterr().out
    # Everything happened in a copy.
    assert {path: path.read_text() for path in toy.rglob("*.py")} == seen


def test_who_makes_a_dataclass_meets_its_defaults(run, toy):
    (toy / "src/toy/growth.py").write_text(
        "from dataclasses import dataclass\n\n\n@dataclass\nclass Growth:\n    steps: int = 1\n"
    )
    (toy / "tests/test_growth.py").write_text(
        "from toy.growth import Growth\n\n\ndef test_steps():\n    assert Growth().steps == 1\n"
    )
    run("--only", "growth:6:17:number", "--out", str(toy / "out.json"))
    (mutant,) = json.loads((toy / "out.json").read_text())["mutants"]
    assert mutant["by"] == "tests/test_growth.py::test_steps"


def test_a_sample_is_drawn_again_from_its_seed(run, capsys):
    def listed(seed):
        run("--list", "--count", "3", "--seed", str(seed))
        return capsys.readouterr().out

    assert listed(1) == listed(1)
    assert len({listed(seed) for seed in range(5)}) > 1


def test_a_suite_that_fails_by_itself_says_so(run, toy):
    file = toy / "tests/test_growth.py"
    file.write_text(TESTS.replace("== 10", "== 11"))
    with pytest.raises(SystemExit, match="do not pass without any mutation"):
        run()


def test_what_killed_a_mutant(mutants):
    killer = importlib.import_module("mutants.running")._killer
    assert killer(0, "3 passed", 9.0) == ""
    assert killer(1, "FAILED tests/test_a.py::test_b[x y] - assert 0\n1 failed", 9.0) == (
        "tests/test_a.py::test_b[x y]"
    )
    assert killer(4, "ImportError: no\n", 9.0) == "ImportError: no"
    for status, text in ((-1, ""), (1, ".Timeout (0:02:00)!\nThread")):
        assert killer(status, text, 9.0).startswith("hangs")
