"""Docstrings of the public names: NumPy sections whose names are those of the signatures."""

import doctest
import inspect
import re
from functools import cached_property

import pytest

import rapidbm
import rapidbm.plot
import rapidbm.testing
from rapidbm.training.negative import HasConfigurations, Splits
from rapidbm.training.optimisers import Optimizer

# A method that a class has of one of these protocols is documented there.
PROTOCOLS = (
    rapidbm.Sampler, rapidbm.NegativePhase, rapidbm.PositivePhase, rapidbm.Projection,
    HasConfigurations, Splits, Optimizer,
)  # fmt: skip
# Modules whose docstrings are still of one line or two; shorten this list, never lengthen it.
EXCEPTIONS = ("rapidbm.machines.", "rapidbm.sampling.gibbs")
SECTION = re.compile(r"^(\w+)\n-{3,}\n((?:.*\n?)*?)(?=^\w+\n-{3,}$|\Z)", re.MULTILINE)


def public():
    """Public names, those of `rapidbm.plot` and of `rapidbm.testing`, and what they are."""
    found = {name: getattr(rapidbm, name) for name in rapidbm.__all__}
    found |= {f"plot.{name}": getattr(rapidbm.plot, name) for name in rapidbm.plot.__all__}
    for name, thing in vars(rapidbm.testing).items():
        if inspect.isfunction(thing) and thing.__module__ == "rapidbm.testing" and name[0] != "_":
            found[f"testing.{name}"] = thing
    return {
        name: thing
        for name, thing in found.items()
        if callable(thing) and not thing.__module__.startswith(EXCEPTIONS)
    }


PUBLIC = public()


def sections(thing):
    """The sections of a docstring by their titles."""
    return dict(SECTION.findall(inspect.getdoc(thing) or ""))


def named(section):
    """The names that a section of parameters or attributes explains."""
    return [name.strip(" *") for name in re.findall(r"^(\S[^:\n]*?)(?: :.*)?$", section, re.MULTILINE)]


def taken(function):
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def faults(name, function):
    """What the docstring of a function or method lacks."""
    found = sections(function)
    given, wanted = named(found.get("Parameters", "")), taken(function)
    if given != wanted:
        yield f"{name} takes {wanted}, and its docstring explains {given}"
    answers = inspect.signature(function).return_annotation
    if answers not in (None, "None", "Iterator[None]", inspect.Signature.empty) and not {
        "Returns",
        "Yields",
    } & set(found):
        yield f"{name} does not say what it returns"


def methods(cls):
    """Public methods that a class has of its own, without those of a protocol, and its properties."""
    for name, value in vars(cls).items():
        function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        of_protocol = any(hasattr(x, name) and cls is not x for x in PROTOCOLS)
        if name[0] != "_" and not of_protocol:
            if inspect.isfunction(function):
                yield name, function, True
            elif isinstance(value, (property, cached_property)):
                yield name, value, False


@pytest.mark.parametrize("name", PUBLIC)
def test_a_docstring_explains_every_parameter_and_what_is_returned(name):
    thing = PUBLIC[name]
    first, *more = inspect.getdoc(thing).splitlines()
    assert first.endswith("."), f"the first line of {name} is no sentence"
    assert not more or not more[0], f"the first sentence of {name} takes more than a line"
    if not inspect.isclass(thing):
        assert not list(faults(name, thing))
        return
    found = sections(thing)
    given = named(found.get("Parameters", ""))
    wanted = [] if issubclass(thing, Exception) or thing in PROTOCOLS else taken(thing)
    if "Attributes" in found and "Parameters" not in found:  # a result, which the library makes
        given = [x for x in named(found["Attributes"]) if x in wanted]
    assert given == wanted, f"{name} takes {wanted}, and its docstring explains {given}"
    wrong = []
    for method, function, is_function in methods(thing):
        if is_function:
            wrong += faults(f"{name}.{method}", function)
        elif not inspect.getdoc(function):
            wrong.append(f"{name}.{method} has no docstring")
    assert not wrong, wrong


def test_a_docstring_that_lacks_something_is_found():
    def good(x: int, *, y: int = 0) -> int:
        """x + y.

        Parameters
        ----------
        x : int
            A number.
        y : int, default 0
            Another one.

        Returns
        -------
        int
            Their sum.
        """
        return x + y

    def bad(x: int, z: int) -> int:
        """x.

        Parameters
        ----------
        x : int
            A number.
        y : int
            Another one.
        """
        return x

    assert not list(faults("good", good))
    assert len(list(faults("bad", bad))) == 2


def test_the_examples_of_docstrings_give_what_they_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    everything = {name: getattr(rapidbm, name) for name in rapidbm.__all__} | PUBLIC
    texts = {name: inspect.getdoc(thing) or "" for name, thing in everything.items()}
    tried = [name for name, text in texts.items() if ">>>" in text and name != "plot"]
    for name in tried:
        runner.run(parser.get_doctest(texts[name], {"rb": rapidbm}, name, None, None))
    assert len(tried) >= 80
    assert runner.summarize(verbose=False).failed == 0
