"""A sweep: the study of a grid in a folder, trained batch by batch, and gone on with after any cut.

plan.json               the batches (`planning`)
batches/001, 002, …     their run folders
table.csv, table.json   the rows, means with errors; every training
figure.png              the measure over the grid
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..data.splits import Dataset
from ..disk import inside, locked, make_folder, write_bytes, write_json
from ..errors import InputError
from ..pictures import save
from ..progress import watch
from ..runs.run import Step
from .batches import check, finished, train
from .planning import Batch, Plan, plan
from .results import Table, table
from .study import Study, in_words


class Sweep:
    """A study and the folder that it is trained into; nothing is written before `go`."""

    def __init__(self, study: Study | str | Path, folder: str | Path | None = None) -> None:
        self.study = study if isinstance(study, Study) else Study.read(study)
        self.folder = Path(folder) if folder is not None else Path("runs") / self.study.name
        if (self.folder / "run.json").exists():
            raise InputError(f"{self.folder} is a run, not a sweep; choose another --out")
        self.plan: Plan = plan(self.study, self.folder)

    def left(self) -> list[Batch]:
        """Batches that are not finished."""
        return [batch for batch in self.plan.batches if finished(self.folder, batch) is None]

    def check(self) -> None:
        """Says what does not fit, before anything is trained."""
        loaded: dict[str, Dataset] = {}
        for batch in self.left():
            try:
                check(batch, str(self.study.measure), loaded)
            except InputError as error:
                where = "; ".join(dict.fromkeys(map(in_words, self.plan.points_of(batch))))
                raise InputError(f"in {where}: {error}" if where else str(error)) from error

    def go(self, stop: Callable[[], bool] = lambda: False) -> Iterator[tuple[Batch, Step]]:
        """Trains what is left; tells of every few updates. When `stop` says so, all is saved and the
        sweep ends; called again, it goes on to the same bits."""
        make_folder(self.folder)
        with locked(self.folder, "sweeping"):
            self.plan = plan(self.study, self.folder)  # another process may have been here
            self.check()
            make_folder(inside(self.folder, "batches"))
            self.plan.save(self.folder)
            for batch in self.left():
                for step in train(self.folder, batch, stop):
                    yield batch, step
                self.write()
                if stop():
                    return
            self.write()

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

    def write(self) -> None:
        """The table and the figure, from the records of the runs."""
        found = self.table()
        write_bytes(inside(self.folder, "table.csv"), found.as_csv())
        told: dict[str, Any] = {"study": self.study.as_dict(), "rows": found.as_dicts()}
        write_json(inside(self.folder, "table.json"), told)
        if found.best is not None:
            save(found.figure(), inside(self.folder, "figure.png"))
