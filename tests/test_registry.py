"""Things of other packages, found and refused: the registry by itself, with entry points made here."""

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Annotated

import pytest
import torch

from rapidbm import registry
from rapidbm.data.catalogue import DATASETS, source
from rapidbm.data.splits import Dataset
from rapidbm.errors import InputError, PluginWarning
from rapidbm.registry import Registry, Setting, a_class_with, build, check_takes, options_of, setting
from rapidbm.runs.metrics import METRICS, Metric


@dataclass(frozen=True)
class Walk:
    steps: int = setting(3, "steps of the walk", flag="walk_steps")
    hidden: int = 5  # no setting, so no option

    def step(self):
        return self.steps


@dataclass(frozen=True)
class Still:
    pause: float = setting(0.5, "seconds between two looks")


def noise(seed: Annotated[int, Setting("seed of the noise")] = 0, size: int = 4) -> Dataset:
    """Noise of any size. Nothing to learn."""


def odd(pairs: Annotated[dict[int, int] | None, Setting("pairs")] = None) -> Dataset:
    """A type that no option can have."""


def point(name, value, package=None, version="0.3"):
    made = EntryPoint(name, value, "rapidbm.walks")
    return made if package is None else made._for(SimpleNamespace(name=package, version=version))


def with_points(monkeypatch, *points, own=None):
    asked = []

    def found(*, group):
        asked.append(group)
        return list(points)

    monkeypatch.setattr(registry, "entry_points", found)
    made = Registry("walk", {"walk": Walk} if own is None else own, "rapidbm.walks", a_class_with("step"))
    return made, asked


HERE = f"{__name__}:"


def test_a_thing_of_another_package_is_found_and_loaded_once(monkeypatch):
    walks, asked = with_points(
        monkeypatch, point("far", f"{HERE}Walk", "wander"), point("bare", f"{HERE}Walk")
    )
    assert walks["walk"] is Walk
    assert not asked  # the library's own needs no other package
    assert "far" in walks
    assert "walk" in walks
    assert "near" not in walks
    assert sorted(walks) == ["bare", "far", "walk"]
    assert len(walks) == 3
    assert walks["far"] is Walk
    monkeypatch.setattr(EntryPoint, "load", lambda self: None)
    assert walks["far"] is Walk  # as it was loaded
    assert [walks.package(name) for name in ("walk", "far", "bare")] == [
        "", "wander 0.3", f"{HERE}Walk"
    ]  # fmt: skip
    assert asked == ["rapidbm.walks"]
    with pytest.raises(KeyError):
        walks["near"]


def test_what_cannot_be_used_is_a_warning_and_the_rest_serves(monkeypatch):
    walks, _ = with_points(
        monkeypatch,
        point("far", f"{HERE}Walk", "b"),
        point("still", f"{HERE}Still", "b"),
        point("gone", "no_such_module:Walk", "b"),
        point("call", f"{HERE}noise", "b"),
    )
    with pytest.warns(PluginWarning) as told:
        sound = walks.sound()
    assert sound == {"walk": Walk, "far": Walk}
    words = sorted(str(one.message) for one in told)
    assert len(words) == 3
    assert "'call' of the package b 0.3 cannot be used: TypeError: a dataclass is needed" in words[0]
    assert "ModuleNotFoundError" in words[1]
    assert "Still must have step, but has no step" in words[2]
    with pytest.raises(InputError, match=r"the walk 'still' of the package b 0.3"):
        walks["still"]


def test_of_two_with_one_name_the_first_package_counts(monkeypatch):
    points = (
        point("far", "no_such_module:Walk", "b"),
        point("far", f"{HERE}Walk", "a"),
        point("walk", "no_such_module:Walk", "a"),
    )
    walks, _ = with_points(monkeypatch, *points)
    assert (walks["far"], walks["walk"], len(walks)) == (Walk, Walk, 2)
    with pytest.warns(PluginWarning, match="its name is taken") as told:
        assert set(walks.sound()) == {"walk", "far"}
    assert len(told) == 2


def test_flags_and_the_options_behind_them(monkeypatch):
    walks, _ = with_points(monkeypatch, point("far", f"{HERE}Walk"))
    options = walks.options()
    assert set(options) == {"walk_steps"}
    assert set(options["walk_steps"]) == {"walk", "far"}
    option = options["walk_steps"]["walk"]
    assert (option.name, option.dashed, option.hint) == ("steps", "--walk-steps", int)
    assert build(walks, "far", {"walk_steps": 7}) == Walk(7)
    assert build(walks, "walk", {}, hidden=9) == Walk(3, 9)
    with pytest.raises(InputError, match=r"'walk' has no option --pause; it takes --walk-steps$"):
        build(walks, "walk", {"pause": 1.0})
    with pytest.raises(InputError, match=r"it takes none$"):
        check_takes("walk", "walk", {}, "pause")


def test_a_class_is_asked_for_all_that_it_needs():
    assert a_class_with("step")(Walk) is Walk
    with pytest.raises(TypeError, match="must have step, init, but has no init"):
        a_class_with("step", "init")(Walk)
    for thing in (Walk(), int, "walk"):
        with pytest.raises(TypeError, match="a dataclass is needed"):
            a_class_with("step")(thing)

    @dataclass
    class Odd:
        pairs: dict = setting(None, "pairs")

    with pytest.raises(TypeError, match="no shape for"):
        a_class_with()(Odd)


def test_sources_of_data():
    made = source(noise)
    assert (made.make, made.options) == (noise, ("seed", "size"))
    assert made.text == "Noise of any size. Nothing to learn"
    assert source(noise, "words").text == "words"
    assert set(options_of(made)) == set(options_of(noise)) == {"seed"}
    with pytest.raises(TypeError, match="a function that makes a Dataset is needed, not 3"):
        source(3)
    with pytest.raises(TypeError, match="no shape for"):
        source(odd)
    assert DATASETS._adapted is source


def test_metrics_of_another_package():
    adapted = METRICS._adapted

    def norm(machine, split, rng):
        return torch.zeros(1)

    assert adapted(norm) == Metric(norm)
    assert adapted(METRICS["hamming"]) is METRICS["hamming"]
    with pytest.raises(TypeError, match="a function of machine, split and rng, or a Metric, is needed"):
        adapted("hamming")
