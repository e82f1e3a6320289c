"""Quick answers: which runs, data and machines there are, and what a recipe comes to.

A question is a message with an `id`, which the answer has too; what cannot be answered is told in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from ...accel.memory import limit_memory
from ...data.catalogue import load
from ...data.digits import mnist_is_here
from ...data.splits import Dataset
from ...disk import inside
from ...errors import InputError
from ...glass.phases import boundaries, phase_point
from ...likelihood.exact import can_be_exact
from ...runs.evaluation import WORTH
from ...runs.folder import RunFolder
from ...runs.listing import Runs, RunSummary, machine_words
from ...runs.recipe import Recipe
from ..messages import QUERIES
from ..uploads import UPLOADED, UPLOADS
from .arrays import Arrays, spins
from .file_columns import columns_of, left_out
from .labels import delete_run, label_of, set_label
from .machines import embedded, run_folder, subject, without_places
from .page_words import title_of
from .pipe import Pipe
from .recipe_words import command_of, python_of
from .recipes import UNPACKED, check_fits, data_named, recipe_of, refused_by, uploaded

Answer = tuple[dict[str, Any], Arrays]
THUMBS = 12  # images of a data set
POINTS = 80  # of a curve among small multiples
OFFERED = ("bars4", "bas6", "bas12", "digits", "digits-labelled", "mnist")
NO_MEMORY = "can't allocate memory"
TOO_MUCH = "this takes more memory than there is; do it by the command, or take fewer rows or columns"
SEVERAL = 300  # runs that are listed


def work(pipe: Pipe, first: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    desk = Queries(Path(first["folder"]))
    while True:
        asked = pipe.receive()
        answer(pipe, asked, desk.answers, desk.folder)


def read(pipe: Pipe, first: dict[str, Any]) -> None:
    """The same for one file that was dropped: no more memory than files of the allowed size take, as the
    columns of their units."""
    limit_memory(16 * UNPACKED)
    work(pipe, first)


def answer(
    pipe: Pipe, asked: dict[str, Any], answers: Mapping[str, Callable[..., Answer]], folder: Path
) -> None:
    """Answers a question, or says why not."""
    head = {"event": "answer", "page": asked.get("page"), "id": asked.get("id")}
    try:
        known = answers.get(str(asked.get("ask")))
        if known is None:
            raise InputError(f"nobody knows how to answer {asked.get('ask')!r}")
        told, arrays = known(asked)
    except MemoryError:
        pipe.send({**head, "error": TOO_MUCH})
    except (InputError, OSError, RuntimeError, KeyError) as error:
        full = isinstance(error, RuntimeError) and NO_MEMORY in str(error)  # as torch says it
        pipe.send({**head, "error": TOO_MUCH if full else without_places(error, folder)[:1500]})
    else:
        pipe.send({**head, "answer": told}, arrays)


class Queries:
    """What can be asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers: dict[str, Callable[[dict[str, Any]], Answer]] = {
            name: getattr(self, name) for name in (*QUERIES, "upload")
        }

    def machines(self, asked: dict[str, Any]) -> Answer:
        """What can be dreamt of and looked at; with `tables` the runs of tables alone."""
        tables = asked.get("tables") is True
        runs = [
            {"name": run.name, "title": called(run, brief=tables), "text": f"{run.machine}, {run.data}"}
            for run in self._listed()
            if not run.reason and (not tables or is_table(run))
        ]
        return {"embedded": [] if tables else embedded(), "runs": runs}, {}

    def _listed(self) -> list[RunSummary]:
        if not self.folder.is_dir():
            return []
        return [run for run in Runs(self.folder) if run.folder != self.folder][:SEVERAL]

    def runs(self, asked: dict[str, Any]) -> Answer:
        """All runs, each with the curve that it is judged by."""
        found = []
        for run in self._listed():
            told = run.as_dict()
            del told["folder"]
            told["reason"] = without_places(run.reason, self.folder) if run.reason else ""
            told["low"] = run.low
            told["title"] = called(run)
            told["note"] = label_of(run.folder)["note"]
            told["table"] = not run.reason and is_table(run)
            told["curve"] = [] if run.reason or not run.measure else self._curve(run)
            found.append(told)
        return {"runs": found}, {}

    def label(self, asked: dict[str, Any]) -> Answer:
        """Gives a run a title and a note."""
        return set_label(self.folder, asked), {}

    def delete(self, asked: dict[str, Any]) -> Answer:
        """Deletes a run."""
        delete_run(self.folder, str(asked.get("run")))
        return {}, {}

    def _curve(self, run: RunSummary) -> list[list[float | None]]:
        """Epoch, mean over replicas, the lowest and the highest."""
        try:
            records = [r for r in RunFolder(run.folder).metrics() if run.measure in r]
        except (InputError, OSError):
            return []
        step = max(1, -(-len(records) // POINTS))
        curve: list[list[float | None]] = []
        for record in records[::-1][::step][::-1]:
            known = [x for x in record[run.measure] if x is not None]
            mean = sum(known) / len(known) if known else None
            curve.append([record["epoch"], mean, min(known, default=None), max(known, default=None)])
        return curve

    def run(self, asked: dict[str, Any]) -> Answer:
        """One run: its recipe, its evaluations, its checkpoints."""
        run = RunFolder(run_folder(self.folder, str(asked.get("run"))))
        return {
            "status": run.status,
            "recipe": run.recipe.as_dict(),
            "data": run.info["data"],
            "machine": machine_words(run.recipe, run.shape),
            "update": run.info.get("update", 0),
            "updates": run.info.get("updates", 0),
            "records": run.metrics(),
            "checkpoints": sorted(run.checkpoints()),
            "best": run.best.is_file(),
        }, {}

    # -- data -------------------------------------------------------------------------------------

    def datasets(self, asked: dict[str, Any]) -> Answer:
        """The data sets that are offered, and the files that were dropped here."""
        folder = inside(self.folder, UPLOADS)
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        dropped = [f"{UPLOADED}{p.name}" for p in files if p.is_file() and not p.name.startswith(".")]
        return {
            "datasets": OFFERED,
            "uploads": dropped,
            "absent": [] if mnist_is_here() else ["mnist"],
        }, {}

    def data(self, asked: dict[str, Any]) -> Answer:
        """Some rows of a data set, and how many there are; of a table as its columns are named."""
        name = str(asked.get("dataset"))
        kinds = asked.get("columns") or None
        if not (kinds is None or isinstance(kinds, str)):
            raise InputError(f"kinds of columns are a text, not {kinds!r}")
        return _described(name, _loaded(data_named(self.folder, name), kinds))

    def columns(self, asked: dict[str, Any]) -> Answer:
        """What each column of a file is recognised as, and may be named; nothing of what is no table."""
        path = Path(data_named(self.folder, str(asked.get("dataset"))))
        return {"columns": columns_of(path, asked.get("columns"))}, {}

    def upload(self, asked: dict[str, Any]) -> Answer:
        """What a file that was dropped holds; one that cannot be read does not stay."""
        name = str(asked.get("file"))
        try:
            path = uploaded(self.folder, name)
            data = load(path, columns=left_out(path))
        except BaseException:
            inside(self.folder, UPLOADS, name).unlink(missing_ok=True)
            raise
        return _described(f"{UPLOADED}{path.name}", data)

    # -- recipes ----------------------------------------------------------------------------------

    def recipe(self, asked: dict[str, Any]) -> Answer:
        """What the choices of a page come to, and what does not fit."""
        recipe, _ = recipe_of(self.folder, asked)
        own = {f.name: getattr(recipe, f.name) for f in fields(Recipe) if f.name != "options"}
        return {
            "recipe": {**own, "dataset": asked.get("dataset")},
            "rate": _rate(recipe),
            "refused": refused_by(recipe),
        }, {}

    def words(self, asked: dict[str, Any]) -> Answer:
        """The choices of a page as a command, and as a program."""
        recipe, preset = recipe_of(self.folder, asked)
        chosen = set(asked.get("chosen") or {})
        return {
            "command": command_of(recipe, preset, chosen, self.folder),
            "python": python_of(recipe, preset, chosen, self.folder),
        }, {}

    def check(self, asked: dict[str, Any]) -> Answer:
        """Whether a training of these choices can begin; what does not fit is told in words."""
        recipe, preset = recipe_of(self.folder, asked)
        check_fits(recipe, preset)
        return {"fits": True}, {}

    # -- phases -----------------------------------------------------------------------------------

    def place(self, asked: dict[str, Any]) -> Answer:
        """Load and temperature of a machine, and the temperatures of the three lines at that load."""
        found = subject(self.folder, asked)
        size = {
            "units": found.machine.layers.columns,
            "exact": found.trained.has_data and can_be_exact(found.machine, WORTH),
        }
        if not found.machine.layers.spins:  # the theory of phases is one of spins
            return {"load": None, "temperature": None, **size}, {}
        here = phase_point(found.machine)
        load, temperature = float(here.load[0]), float(here.temperature[0])
        lines = _lines(here.theory, round(here.aspect, 6), round(load, 6))
        return {
            "load": load,
            "temperature": temperature,
            **lines,
            **size,
        }, {}


def called(run: RunSummary, *, brief: bool = False) -> str:
    """The title that somebody gave the run, else one that can be read."""
    return label_of(run.folder)["title"] or title_of(run, brief=brief)


def is_table(run: RunSummary) -> bool:
    """Whether it was trained on a table of named columns."""
    return RunFolder(run.folder).info["data"].get("schema") is not None


@lru_cache(64)
def _lines(theory: str, aspect: float, load: float) -> dict[str, float | None]:
    found = boundaries(theory, aspect, torch.tensor([min(max(load, 1e-3), 10.0)]))
    values = {"glass": found.glass, "retrieval": found.retrieval, "stable": found.stable}
    return {name: None if bool(x.isnan()) else float(x) for name, x in values.items()}


@lru_cache(4)
def _loaded(name: str, kinds: str | None) -> Dataset:
    return load(name) if kinds is None else load(name, columns=kinds)


def _described(name: str, data: Dataset) -> Answer:
    some = data.train.spins[:THUMBS]
    labels = data.train.labels
    return {
        "dataset": name,
        "shape": list(data.shape),
        "table": data.shape[0] == 1,
        "named": data.schema is not None,
        "columns": data.shape[1]
        if data.schema is None
        else sum(column.returned for column in data.schema.columns),
        "train": len(data.train),
        "test": len(data.test),
        "labels": 0 if labels is None else len(torch.unique(labels)),
        "up": round(data.train.share_up, 4),
    }, {"images": spins(some)}


def _rate(recipe: Recipe) -> float:
    rate = recipe.optimizer_choice().rate
    return rate[0] if isinstance(rate, tuple) else rate
