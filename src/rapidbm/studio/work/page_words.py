"""Words for the page: errors without words of the command line, and names of runs that can be read."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import datetime
from functools import cache

from ...runs.listing import RunSummary
from ...runs.recipe import Recipe

IN_BRACKETS = re.compile(r"\s*\([^()]*(?<![\w-])--[a-z][^()]*\)")  # (--patterns K)
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")
PYTHON = (
    "limit",
    "method",
    "stream",
    "units",
    "born",
    "data",
)  # arguments beside the settings of a recipe
STAMPED = re.compile(r"-(\d{8}-\d{6})(-\d+)?$")  # what the studio and the command put behind a name
NEGATIVES = {"pid": "PID", "cd": "CD", "pcd": "PCD", "exact": "exact", "pt": "tempering"}


def without_options(text: str) -> str:
    """An error that names controls, where the library names options and arguments.

    >>> without_options("give a larger limit=, or anneal it")
    'anneal it'
    >>> without_options("build it with patterns=K (--patterns K), or give --model dbm")
    'build it with patterns K, or give model dbm'
    """
    text = text.replace("give a larger limit=, or ", "")
    text = OPTION.sub(lambda found: found[1].replace("-", " "), IN_BRACKETS.sub("", text))
    return _arguments().sub(lambda found: " ".join(filter(None, found.groups())).replace("_", " "), text)


@cache
def _arguments() -> re.Pattern[str]:
    names = sorted({*(field.name for field in fields(Recipe)), *PYTHON}, key=len, reverse=True)
    return re.compile(rf"(?<![\w/.-])({'|'.join(names)})=([\w.'\"]+)?")


def title_of(run: RunSummary, *, brief: bool = False) -> str:
    """The run's own name, or what it trained and when, if its name was made of a time; `brief` leaves the
    machine out."""
    found = STAMPED.search(run.name)
    if found is None or not run.machine:
        return run.name
    try:
        began = datetime.strptime(found[1], "%Y%m%d-%H%M%S")
    except ValueError:
        return run.name
    negative = NEGATIVES.get(run.name[: found.start()].rpartition("-")[2], "")
    kind, _, sizes = run.machine.partition(" ")
    how = [] if brief else [f"{kind.upper()} {sizes}", negative]
    words = [run.data, *how, f"{began.day} {began:%b %H:%M:%S}"]
    return ", ".join(filter(None, words)) + (f" ({found[2][1:]})" if found[2] else "")
