"""A sweep: the study of a grid in a folder, trained batch by batch, and gone on with after any cut.

plan.json               the batches (`planning`)
samples.json            the rows of a search whose results decide what comes next
batches/001, 002, …     their run folders
table.csv, table.json   the rows, means with errors; every training
figure.png              the measure over the grid
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..data.splits import Dataset
from ..disk import inside, locked, make_folder, read_json, write_bytes, write_json
from ..errors import InputError
from ..pictures import save
from ..progress import watch
from ..runs.run import Step
from ..schema import Anything, Names, Several
from .batches import check, data_of, finished, train
from .planning import Batch, Plan, plan
from .results import Table, table
from .search import RANDOM, Search
from .study import Study, in_words, written

SAMPLES = Names({"points": Several(Names({}, others=Anything()))})


class Sweep:
    """A study and the folder that it is trained into; nothing is written before `go`."""

    def __init__(self, study: Study | str | Path, folder: str | Path | None = None) -> None:
        self.study = study if isinstance(study, Study) else Study.read(study)
        self.folder = Path(folder) if folder is not None else Path("runs") / self.study.name
        if (self.folder / "run.json").exists():
            raise InputError(f"{self.folder} is a run, not a sweep; choose another --out")
        search = self.study.search
        if isinstance(search, Search) and search.algorithm != RANDOM:
            self.study = replace(self.study, known=self._samples())
        self._loaded: dict[str, Dataset] = {}
        self.plan: Plan = plan(self.study, self.folder)

    def _samples(self) -> tuple[dict[str, Any], ...]:
        """The rows that were searched so far."""
        path = inside(self.folder, "samples.json")
        if not path.is_file():
            return ()
        what, remedy = "the samples of a sweep", "restore it, or sweep into another --out"
        found = read_json(path, SAMPLES, what, remedy)
        return tuple(self.study.point(point) for point in found["points"])

    def extend(self, point: Mapping[str, Any]) -> None:
        """One more row, planned and written down."""
        known = (*(self.study.known or ()), dict(point))
        self.study = replace(self.study, known=known)
        write_json(inside(self.folder, "samples.json"), {"points": [written(p) for p in known]})
        self.plan = plan(self.study, self.folder)
        self.plan.save(self.folder)

    def rows_of(self, batch: Batch) -> int:
        """How many rows of data a batch trains on."""
        return len(data_of(batch.recipe, self._loaded).train)

    def left(self) -> list[Batch]:
        """Batches that are not finished."""
        return [batch for batch in self.plan.batches if finished(self.folder, batch) is None]

    def check(self) -> None:
        """Says what does not fit, before anything is trained."""
        for batch in self.left():
            try:
                check(batch, str(self.study.measure), self._loaded)
            except InputError as error:
                where = "; ".join(dict.fromkeys(map(in_words, self.plan.points_of(batch))))
                raise InputError(f"in {where}: {error}" if where else str(error)) from error

    def go(self, stop: Callable[[], bool] = lambda: False) -> Iterator[tuple[Batch, Step]]:
        """Trains what is left; tells of every few updates. When `stop` says so, all is saved and the
        sweep ends; called again, it goes on to the same bits."""
        if self.study.judges:
            raise InputError(
                "this search has a scheduler or an algorithm of Ray Tune's; sweep it with --on ray, or "
                'take algorithm = "random" and scheduler = "none"'
            )
        with self._alone():
            for batch in self.left():
                for step in train(self.folder, batch, stop):
                    yield batch, step
                self.write()
                if stop():
                    return
            self.write()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process sweeps into the folder; what is left is checked and planned."""
        make_folder(self.folder)
        with locked(self.folder, "sweeping"):
            self.plan = plan(self.study, self.folder)  # another process may have been here
            self.check()
            make_folder(inside(self.folder, "batches"))
            self.plan.save(self.folder)
            yield

    def go_on_ray(
        self,
        tell: Callable[[str], None] = lambda line: None,
        stop: Callable[[], bool] | None = None,
    ) -> Table:
        """Trains what is left on Ray, several batches at once, and answers the table; `tell` hears what
        begins and ends. When `stop` says so, or on Ctrl-C where there is no `stop`, the sweep ends;
        called again, it goes on to the same bits. Handlers of signals are afterwards what they were."""
        from .on_ray import check_installed, sweep_on_ray

        check_installed()
        with self._alone():
            failed = sweep_on_ray(self, tell, stop)
            self.write()
        if failed:
            raise InputError(
                f"{len(failed)} of the batches failed, the first with: {failed[0]}; what is finished is "
                f"kept in {self.folder}, and the same command tries the rest again"
            )
        return self.table()

    def train(self) -> Table:
        """Trains what is left, with a bar of progress, and answers the table."""
        left = {batch.name: i for i, batch in enumerate(self.left())}
        with watch(f"sweep of {self.study.name}", len(left)) as tick:
            for batch, step in self.go():
                tick(left.get(batch.name, 0) + step.update / max(1, step.updates))
        return self.table()

    def table(self) -> Table:
        """What is finished so far."""
        return table(self.plan, self.folder)

    def write(self, *, drawn: bool = True) -> None:
        """The table and the figure, from the records of the runs."""
        found = self.table()
        write_bytes(inside(self.folder, "table.csv"), found.as_csv())
        told: dict[str, Any] = {"study": self.study.as_dict(), "rows": found.as_dicts()}
        write_json(inside(self.folder, "table.json"), told)
        if drawn and found.best is not None:
            save(found.figure(), inside(self.folder, "figure.png"))
