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
from .search import RANDOM
from .study import Study, in_words, written

SAMPLES = Names({"points": Several(Names({}, others=Anything()))})


class Sweep:
    """A study together with the folder that its trainings go to.

    Points of one shape are trained side by side as replicas. Nothing is written before `go`.

    Parameters
    ----------
    study : Study, str or Path
        The study, or its TOML file.
    folder : str or Path, optional
        Where to write; by default `runs/` and the study's name.

    Raises
    ------
    InputError
        If the folder holds a run, or the study does not fit what was trained there.

    Examples
    --------
    >>> study = rb.Study("bars4", grid={"hidden": [8, 16]}, fixed={"epochs": 2})
    >>> len(rb.Sweep(study, "my-sweep").left())  # batches to train
    2
    """

    def __init__(self, study: Study | str | Path, folder: str | Path | None = None) -> None:
        self.study = study if isinstance(study, Study) else Study.read(study)
        self.folder = Path(folder) if folder is not None else Path("runs") / self.study.name
        if (self.folder / "run.json").exists():
            raise InputError(f"{self.folder} is a run, not a sweep; choose another --out")
        search = self.study.searched
        if search is not None and search.algorithm != RANDOM:
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
        """Adds a point to a search, and writes it down.

        Parameters
        ----------
        point : mapping
            Settings of the point.
        """
        known = (*(self.study.known or ()), dict(point))
        self.study = replace(self.study, known=known)
        write_json(inside(self.folder, "samples.json"), {"points": [written(p) for p in known]})
        self.plan = plan(self.study, self.folder)
        self.plan.save(self.folder)

    def rows_of(self, batch: Batch) -> int:
        """How many rows of data a batch trains on.

        Parameters
        ----------
        batch : Batch
            A batch of the plan.

        Returns
        -------
        int
            Rows of the training part.
        """
        return len(data_of(batch.recipe, self._loaded).train)

    def left(self) -> list[Batch]:
        """The batches that are not finished.

        Returns
        -------
        list of Batch
            In the order of the plan.
        """
        return [batch for batch in self.plan.batches if finished(self.folder, batch) is None]

    def check(self) -> None:
        """Checks that all that is left can be trained.

        Raises
        ------
        InputError
            With the point that cannot.
        """
        for batch in self.left():
            try:
                check(batch, str(self.study.measure), self._loaded)
            except InputError as error:
                where = "; ".join(dict.fromkeys(map(in_words, self.plan.points_of(batch))))
                raise InputError(f"in {where}: {error}" if where else str(error)) from error

    def go(self, stop: Callable[[], bool] = lambda: False) -> Iterator[tuple[Batch, Step]]:
        """Trains what is left and yields every few updates.

        Parameters
        ----------
        stop : callable, optional
            Asked after updates; when it returns True all is saved and the sweep ends. A later call
            continues with the same bits.

        Yields
        ------
        (Batch, Step)
            The batch that is trained and where it stands.
        """
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
        """Trains what is left on a Ray cluster, several batches at once.

        Parameters
        ----------
        tell : callable, optional
            Called with a line when a batch begins or ends.
        stop : callable, optional
            Ends the sweep when it returns True; without it Ctrl-C does. A later call continues with the
            same bits.

        Returns
        -------
        Table
            What is finished.

        Raises
        ------
        InputError
            If Ray is not installed, or batches failed.
        """
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
        """Trains what is left, with a progress bar.

        Returns
        -------
        Table
            A row per point.
        """
        left = {batch.name: i for i, batch in enumerate(self.left())}
        with watch(f"sweep of {self.study.name}", len(left)) as tick:
            for batch, step in self.go():
                tick(left.get(batch.name, 0) + step.update / max(1, step.updates))
        return self.table()

    def table(self) -> Table:
        """What is finished so far.

        Returns
        -------
        Table
            A row per point: settings, measured values with errors.
        """
        return table(self.plan, self.folder)

    def write(self, *, drawn: bool = True) -> None:
        """Writes `table.csv`, `table.json` and `figure.png` into the folder.

        Parameters
        ----------
        drawn : bool, default True
            Whether to draw the figure.
        """
        found = self.table()
        write_bytes(inside(self.folder, "table.csv"), found.as_csv())
        told: dict[str, Any] = {"study": self.study.as_dict(), "rows": found.as_dicts()}
        write_json(inside(self.folder, "table.json"), told)
        if drawn and found.best is not None:
            save(found.figure(), inside(self.folder, "figure.png"))
