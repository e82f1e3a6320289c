"""What a run folder holds, and how it is read.

    run.json             recipe, seed, versions, device, status
    metrics.jsonl        a line per evaluation, values per replica
    .lock                held by the process that makes the folder or trains into it
    checkpoints/         update-XXXXXXXX.safetensors: the history of the parameters
                         latest.safetensors: the newest, with the trainer's state
                         previous.safetensors: the one before it
                         best.safetensors: the best by a validation part, where one was watched; run.json
                         has `best_from` where it is not of this training (and best/update is −1)
    figures/             pictures
    tensorboard/         what TensorBoard shows, where that was asked for

A folder may come from a stranger: what it says is checked against `RUN` and `line_shape`, nothing outside
it is written, and a file of data outside it is read only if the user has named it (`trust`).
"""

from __future__ import annotations

import hashlib
import math
import platform
import warnings
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .. import __version__
from ..data.catalogue import is_file
from ..data.splits import Dataset
from ..data.weights import is_weights_file
from ..disk import inside, is_free, make_folder, parse_json, read_json, reading, write_json
from ..display import words
from ..errors import DataWarning, InputError, LossWarning
from ..machines.files import check_sizes, load_machine, load_tensors
from ..machines.machine import Machine
from ..schema import Anything, Flag, Maybe, Names, Real, Several, Text, Whole
from ..training.negative import NegativePhase
from .recipe import IN_A_FILE, Recipe
from .trained import Checkpoint, Trained
from .trust import is_trusted, trust

FORMAT = 1
PRETRAINED = "pretrained:"  # before the name of a machine that comes with the package
METRICS_BYTES = 2**29
Record = dict[str, Any]
ASIDE = ("epoch", "update", "seconds", "diverged")  # of an evaluation: what is no metric
_COUNT = Whole(0)
RUN = Names(
    {
        "format": Whole(),
        "status": Text(),
        "recipe": IN_A_FILE,
        "data": Names(
            {
                "name": Text(),
                "train": _COUNT,
                "test": _COUNT,
                "shape": Several(Whole(1, 2**31), count=2),
                "sha256": Text(64),
            },
            {
                "valid": _COUNT,
                "columns": Several(Text()),
                "on_disk": Flag(),
                "schema": Anything(),  # of a table, checked where it is read
                "alphabet": Text(64),  # of sequences, the same
                "weighted": Text(),
                "classes": Several(
                    Whole(-(2**63), 2**63), most=100
                ),  # what states of the label stand for
            },
        ),
    },
    {
        "rapidbm": Text(),
        "preset": Maybe(Text()),
        "update": _COUNT,
        "updates": _COUNT,
        "seconds": Real(0),
        "diverged": Several(_COUNT),
        "divergences": Several(
            Names({"replica": _COUNT, "update": _COUNT, "epoch": _COUNT, "why": Text()})
        ),
        "restored": Names({"update": _COUNT, "because": Text()}),
        "prolonged": Several(Names({"update": _COUNT}, others=Anything())),
        "plan": Names(
            {"wall": Real(0), "update": _COUNT, "most": _COUNT},
            {"made": Several(Names({"update": _COUNT, "wall": Real(0), "epochs": _COUNT}))},
        ),
        "best_from": Names({"what": Text(), "value": Real(), "error": Real()}),
        "looks": Names({"asked": _COUNT, "made": _COUNT, "unknown": _COUNT}, {"compared": _COUNT}),
        "auto": Names({"budget": Maybe(Text()), "found": Several(Text())}),
    },
    others=Anything(),
)


def line_shape(replicas: int) -> Names:
    """An evaluation: when it was, and for each metric a value per replica."""
    return Names(
        {"epoch": _COUNT, "update": _COUNT},
        {"seconds": Real(0), "diverged": Several(Flag(), count=replicas)},
        others=Several(Maybe(Real()), count=replicas),
    )


class RunFolder(Trained):
    """A run folder as it lies there."""

    recipe: Recipe
    _loaded: Dataset | None = None  # its data, where `finds` has read them
    _sound = True  # whether the latest state is worth keeping when there is a newer one

    def __init__(
        self,
        folder: str | Path,
        data: str | Path | Dataset | None = None,
        recipe: Recipe | None = None,
    ) -> None:
        """The run in `folder`; `data` is its file of data, if that is not where the recipe says or was
        never named by the user, or the data themselves; `recipe` is one that a file cannot describe."""
        self.folder = Path(folder)
        self._given = data if isinstance(data, Dataset) else None
        self._file = None if data is None or isinstance(data, Dataset) else Path(data).resolve()
        self._special = recipe
        self.read()

    def __str__(self) -> str:
        return str(self.folder)

    def _facts(self) -> list[tuple[str, str]]:
        info, recipe = self.info, self.recipe
        data, units = info["data"], (math.prod(self.shape), *recipe.hidden)
        kind = "dense" if recipe.patterns is None else f"K={recipe.patterns}"
        done = f"{info.get('update', 0):,} of {info.get('updates', 0):,} updates"
        facts = [
            ("folder", str(self.folder)),
            ("status", f"{self.status}, {done}, {info.get('seconds', 0.0):.1f} s of training"),
            ("data", f"{data['name']}: {data['train']:,} rows to train, {data['test']:,} to test"),
            ("machine", f"{'×'.join(map(str, units))}, {kind}, {words(recipe.replicas)} replica(s)"),
            ("trained by", f"{recipe.negative}, {recipe.optimizer}"),
        ]
        if records := self.metrics():
            last = {k: v for k, v in records[-1].items() if isinstance(v, list) and k != "diverged"}
            facts += [(key, words(value)) for key, value in last.items() if "_error_" not in key]
        return facts

    @property
    def replicas(self) -> int:
        return self.recipe.replicas

    @property
    def shards(self) -> int:  # type: ignore[override]
        return self.recipe.shards if self.recipe.shard_by == "chains" else 1

    @property
    def negative(self) -> NegativePhase:
        return self.recipe.negative_phase()

    def note(self, name: str, value: Any) -> None:
        """Writes down one more thing about the run."""
        self.info[name] = value
        self._write()

    def _write(self) -> None:
        """Writes down what it says of itself."""
        write_json(self.folder / "run.json", self.info)

    def read(self) -> None:
        """Reads what it says of itself."""
        self.info, self._loaded = self._said(), None
        self.recipe = self._special or Recipe.from_dict(self.info["recipe"])

    def _said(self) -> dict[str, Any]:
        path = inside(self.folder, "run.json")
        if str(self.folder).startswith(PRETRAINED):
            raise InputError(
                f"{self.folder} is a machine without the run that trained it, which is needed here; name "
                "a run folder, or take the machine alone: rapidbm.pretrained(name)"
            )
        if not path.is_file():
            raise InputError(f"{self.folder} is no run folder: it has no run.json; check the path")
        what, remedy = "the description of a run", "restore it"
        info = read_json(path, Names({"format": Whole()}, others=Anything()), what, remedy)
        if info["format"] != FORMAT:
            raise InputError(
                f"{self.folder} has the format {info['format']!r}, this version of rapidbm reads "
                f"{FORMAT}; use the version that wrote it ({info.get('rapidbm')})"
            )
        said: dict[str, Any] = RUN.checked(info, f"{path} cannot be read as {what}:", remedy)
        return said

    @property
    def status(self) -> str:
        return str(self.info["status"])

    def own_data(self) -> Dataset:
        """The data of the run; a file that has changed since is refused, and so is one that lies outside
        the folder and was never named by the user."""
        if self._loaded is not None:
            return self._loaded
        data = self._named_data() if self._given is None else self.recipe.data(self._given)
        if not self.is_own(data):
            raise InputError(
                f"{self._file or self.recipe.dataset} is not the data that {self.folder} was trained on: "
                "its checksum differs; restore it or train anew, or measure on it as on other data: "
                "--data FILE"
            )
        if self._file is not None:
            trust(self._file)
        return data

    def is_own(self, data: Dataset) -> bool:
        """Whether the run was trained on these data, by their checksum."""
        return checksum(data) == str(self.info["data"]["sha256"])

    def finds(self, file: Path) -> bool:
        """Whether a file, read as the recipe says, holds what the run was trained on: then that is where
        its data lie now."""
        recipe = replace(self.recipe, dataset=str(file.resolve()))
        with warnings.catch_warnings(), suppress(InputError):
            warnings.simplefilter("ignore", DataWarning)
            if is_file(self.recipe.dataset) and self.is_own(data := recipe.data()):
                self._file, self._loaded = file.resolve(), data
                trust(self._file)
        return self._file is not None

    def _named_data(self) -> Dataset:
        recipe = self.recipe
        if self._file is not None:
            if not is_file(recipe.dataset):
                raise InputError(
                    f"{self.folder} was trained on {recipe.dataset}, which is no file; leave --data out"
                )
            recipe = replace(recipe, dataset=str(self._file))
        elif is_file(recipe.dataset) and not self._owns(Path(recipe.dataset)):
            raise InputError(
                f"{self.folder} was trained on the file {recipe.dataset}, which lies outside it and was "
                "never trained on by you here; to say that it may be read, name it: --data FILE"
            )
        elif is_file(recipe.dataset) and not Path(recipe.dataset).exists():
            raise InputError(
                f"{self.folder} was trained on the file {recipe.dataset}, which is not there; restore "
                "it, or if it lies elsewhere now, name it: --data FILE"
            )
        if is_weights_file(recipe.weights) and not self._owns(Path(recipe.weights or "")):
            raise InputError(
                f"{self.folder} was trained by the weights of {recipe.weights}, a file outside it that "
                "was never used by you here; train anew with --weights"
            )
        with warnings.catch_warnings():  # what a file holds besides was told when the run was made
            warnings.simplefilter("ignore", DataWarning)
            return recipe.data()

    def _owns(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.folder.resolve()) or is_trusted(path)

    @property
    def latest(self) -> Path:
        return inside(self.folder, "checkpoints", "latest.safetensors")

    @property
    def previous(self) -> Path:
        return inside(self.folder, "checkpoints", "previous.safetensors")

    def newest(self, sizes: tuple[int, ...]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The state to go on from, of a machine of these sizes, and its header: the latest, or the one
        before it where that is gone or damaged. None where nothing was trained yet."""
        wrong = {}
        for path in (self.latest, self.previous):
            try:
                tensors, header = load_tensors(path)
            except InputError as error:
                wrong[path] = str(error)
                continue
            check_sizes(path, header["sizes"], header.get("visible_layers", 1), sizes)
            self._sound = not wrong
            if wrong:
                told = {"update": header.get("update", 0), "because": wrong[self.latest]}
                self.info["restored"] = told
                warnings.warn(
                    f"the training goes on from the state before the latest, of update {told['update']}: "
                    f"{told['because']}",
                    LossWarning,
                    stacklevel=2,
                )
            return tensors, header
        if not self.info.get("update") and not any(path.is_file() for path in wrong):
            return None
        kept = ", ".join(map(str, list(self.checkpoints())[-3:])) or "none"
        raise InputError(
            f"{self.folder} was trained for {self.info.get('update', 0)} updates, and no state to go on "
            f"from is left: {'; '.join(wrong.values())}. Parameters alone are kept of updates {kept} "
            "(--update); restore a file, or train anew into another folder"
        )

    @property
    def best(self) -> Path:
        return inside(self.folder, "checkpoints", "best.safetensors")

    def checkpoint(self, update: int) -> Path:
        """Where the parameters after an update are kept."""
        return inside(self.folder, "checkpoints", f"update-{update:08d}.safetensors")

    def checkpoints(self) -> dict[int, Path]:
        """The saved history: update number → file."""
        folder = inside(self.folder, "checkpoints")
        files = sorted(folder.glob(f"update-{'[0-9]' * 8}*.safetensors"))
        numbers = [file.stem.removeprefix("update-") for file in files]
        known = zip(numbers, files, strict=True)
        return {int(n): file for n, file in known if n.isdecimal() and n.isascii() and len(n) < 19}

    def chosen(self, which: Checkpoint = None) -> int | Literal["best", "last"]:
        """The checkpoint that is meant: by default the best, where a validation part was watched, else
        the last."""
        if isinstance(which, int):
            return which
        if which == "best" or (which is None and self.best.is_file()):
            return "best"
        if which in (None, "last"):
            return "last"
        if which.isdecimal() and which.isascii():
            return int(which)
        raise InputError(f"a checkpoint is that of an update, best or last, not {which!r}; name one")

    def where(self, which: Checkpoint = None) -> tuple[int, str]:
        """The update of a checkpoint, of several replicas' best ones the latest, and words about it."""
        chosen = self.chosen(which)
        if isinstance(chosen, int):
            return chosen, f"update {chosen}"
        tensors, header = load_tensors(self._file_of(chosen))
        update = int(header.get("update", 0))
        if chosen == "last":
            return update, f"the last machine, update {update}"
        if int(tensors.get("best/update", torch.zeros(1)).max()) < 0:
            what = self.info.get("best_from", {}).get("what", "a trial")
            return 0, f"the best machine by validation, that of {what}"
        several = " or earlier" if self.recipe.replicas > 1 else ""
        return update, f"the best machine by validation, update {update}{several}"

    def file(self, which: Checkpoint = None) -> Path:
        """Where the parameters of a checkpoint are."""
        return self._file_of(self.chosen(which))

    def _file_of(self, chosen: int | Literal["best", "last"]) -> Path:
        if chosen == "best":
            path, told = self.best, "no best machine: no validation part was watched; take the last"
        elif chosen == "last":
            path, told = self.latest, "no checkpoint yet; train it first (--resume)"
        else:
            known = ", ".join(map(str, self.checkpoints())) or "none"
            path, told = self.checkpoint(chosen), f"no checkpoint of update {chosen}; it has {known}"
        if not path.is_file():
            raise InputError(f"{self.folder} has {told}")
        return path

    def machine(self, update: Checkpoint = None, replica: int | None = None) -> Machine:
        """The trained machine.

        Parameters
        ----------
        update : int or {"best", "last"}, optional
            Which checkpoint; by default the best by validation where there is one, else the last.
        replica : int, optional
            One replica alone.

        Returns
        -------
        Machine
            With averaged parameters where the recipe asks for an average.

        Raises
        ------
        InputError
            If there is no such checkpoint.
        """
        chosen = self.chosen(update)
        path = self._file_of(chosen)
        averaged = self.recipe.average is not None and chosen != "best"
        machine = load_machine(path, averaged=averaged, replica=replica)
        shape = self.info["data"]["shape"]
        layers, wanted = machine.layers, (shape[0] * shape[1], *self.recipe.hidden)
        check_sizes(path, layers.sizes, layers.seen, wanted)
        return machine

    def metrics(self) -> list[Record]:
        """The evaluations so far.

        Returns
        -------
        list of dict
            `epoch`, `update` and values per replica, in order.
        """
        path = inside(self.folder, "metrics.jsonl")
        if not path.is_file():
            return []
        with reading(path, "evaluations", "restore it, or remove it"):
            if path.stat().st_size > METRICS_BYTES:
                raise ValueError(f"it has more than {METRICS_BYTES:,} bytes")
            lines = path.read_bytes().splitlines(keepends=True)
        shape = line_shape(self.recipe.replicas)
        records: list[Record] = []
        for number, line in enumerate(lines, 1):
            try:
                record = parse_json(line)
            except (ValueError, RecursionError) as error:
                if number == len(lines) and not line.endswith(b"\n"):
                    break
                raise InputError(
                    f"line {number} of {path} is no evaluation ({error}); mend or remove it"
                ) from error
            what = f"line {number} of {path} is no evaluation:"
            records.append(shape.checked(record, what, "mend or remove it"))
        return records

    @property
    def figures(self) -> Path:
        return inside(self.folder, "figures")


def describe_new(folder: Path, recipe: Recipe, preset: str | None, data: Dataset) -> None:
    """Writes the description of a run that has not begun."""
    write_json(
        folder / "run.json",
        {
            "format": FORMAT,
            "rapidbm": __version__,
            "status": "created",
            "preset": preset,
            "recipe": recipe.as_dict(),
            "data": {
                "name": data.name,
                **{part: len(split) for part, split in data.parts.items()},
                "shape": data.shape,
                "sha256": checksum(data),
                **({"columns": data.columns} if data.columns else {}),
                **({} if data.schema is None else {"schema": data.schema.to_json()}),
                **({"alphabet": data.alphabet} if data.alphabet else {}),
                **({"weighted": data.weighted} if data.weighted else {}),
                **({"classes": data.classes} if data.classes else {}),
                **({"on_disk": True} if data.train.on_disk else {}),
            },
            "versions": {
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    )


def check_free(folder: Path) -> None:
    if not is_free(folder):
        raise InputError(
            f"{folder} exists and is not empty; choose another --out, or go on with a run that "
            "lies there by --resume"
        )


def fresh_folder(folder: Path) -> Path:
    """A folder of that name that nobody had before, with a number after it if need be."""
    make_folder(folder.parent)
    for number in count(1):
        path = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        try:
            path.mkdir()
            break
        except FileExistsError:
            continue
        except OSError as error:
            raise InputError(f"{path} cannot be made: {error}; choose another --out") from error
    return path


def as_list(values: Tensor) -> list[float | None]:
    """One number per replica; JSON has no NaN."""
    return [float(f"{x:.9g}") if math.isfinite(x) else None for x in values.double().tolist()]


def exact_list(values: Tensor) -> list[float | None]:
    """The same to all digits."""
    return [x if math.isfinite(x) else None for x in values.double().tolist()]


def checksum(data: Dataset) -> str:
    """The SHA-256 of all spins; of those on disk that of what names them (`data.stored`)."""
    digest = hashlib.sha256()
    for split in data.parts.values():
        digest.update(split.digest())
    return digest.hexdigest()
