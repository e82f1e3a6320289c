"""A run folder as one self-contained page: what was trained, how it went, what came out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import __version__
from ...data.splits import Dataset
from ...disk import inside, make_folder, read_json, write_bytes
from ...errors import InputError, printable
from ...schema import Names, Several, Text
from ..diagnosis import diagnose, opened
from ..folder import RunFolder
from ..trained import Checkpoint
from . import learning, results, words
from .html import PNG, embedded, render
from .measured import Choice, Measured, measure
from .row_pictures import rows_of
from .rows import check_column

TEMPLATE = Path(__file__).with_name("run.html")
LIMIT = 120.0  # seconds that everything together may take
STATUS = {"finished": "holds", "running": "undecided", "created": "open", "interrupted": "missed"}
DIAGNOSIS = Names(
    {
        "of": Text(),
        "verdict": Text(),
        "rows": Several(Several(Text(), count=3)),
        "figures": Names({}, others=Text(200)),
    }
)


def is_run(folder: Path) -> bool:
    """Whether it is a run folder, and not a reproduction's."""
    return (folder / "run.json").is_file()


def write_report(
    folder: str | Path,
    out: Path | None = None,
    *,
    update: Checkpoint = None,
    file: Path | None = None,
    replica: int = 0,
    diagnosed: bool = False,
    quick: bool = False,
    limit: float = LIMIT,
    seed: int = 0,
    device: str = "cpu",
    tell: Callable[[str], object] = lambda text: None,
    column: str | None = None,
) -> tuple[Path, list[str]]:
    """Writes `report.html` into the run folder, or into `out`; answers its path, and what is not in it.

    `quick` takes what the folder holds: nothing is sampled or evaluated, and no data are read. `column`
    of a table is what models of sampled and of real rows predict, instead of each column in turn.
    """
    run = RunFolder(folder, file)
    check_column(run.schema, column)
    if not 0 <= replica < run.recipe.replicas:
        raise InputError(f"{run} has {run.recipe.replicas} replicas, from 0 on; there is none {replica}")
    target = out or run.folder
    make_folder(target)
    data, missing = (None, []) if quick else _data(run)
    chosen = Choice(run, update, replica, seed, device, column)
    if run.checkpoints() or run.latest.is_file():
        found = measure(chosen, data, target, limit=limit, quick=quick, tell=tell)
        if diagnosed:
            tell("the diagnosis")
            missing += _diagnose(chosen, target, limit)
    else:
        found = Measured(left_out=["There is no checkpoint yet, so that no machine can be looked at."])
    missing += found.left_out
    path = target / "report.html"
    write_bytes(path, _page(chosen, target, data, found.found, missing).encode())
    return path, missing


def _data(run: RunFolder) -> tuple[Dataset | None, list[str]]:
    try:
        return run.data().in_memory(), []
    except InputError as error:
        return None, [f"Without the data: {error}."]


def _diagnose(chosen: Choice, target: Path, limit: float) -> list[str]:
    run, update, title = chosen.run, chosen.update, words.headline(chosen.run)
    try:
        machine, data, past = opened(run, update, chosen.replica, chosen.device)
        found = diagnose(machine, data, past=past, seed=chosen.seed, title=title, limit=limit)
    except InputError as error:
        return [f"Without a diagnosis: {error}."]
    folder = inside(target, "figures")
    folder.mkdir(exist_ok=True)
    found.save(folder, run.where(update)[1])
    return []


def _page(
    chosen: Choice, target: Path, data: Dataset | None, found: results.Found, missing: list[str]
) -> str:
    run, replica = chosen.run, chosen.replica
    machine, which = None, ""
    if run.checkpoints() or run.latest.is_file():
        machine, which = run.machine(chosen.update, replica), run.where(chosen.update)[1]
    name = printable(run.folder.resolve().name)
    records = run.metrics()
    return render(
        TEMPLATE,
        name=name,
        headline=words.headline(run),
        status=run.status,
        tone=STATUS.get(run.status, "fails"),
        version=__version__,
        which=which,
        replica=replica,
        replicas=run.recipe.replicas,
        remarks=words.remarks(run),
        missing=missing,
        numbers=results.numbers(run, records, found),
        recipe=words.recipe_in_words(run),
        findings=words.findings(run),
        settings=words.settings(run.recipe),
        columns=[] if run.schema is None else [(c.name, c.told()) for c in run.schema.columns],
        charts=learning.charts(run, records),
        looks=learning.looks(records),
        likelihood=results.likelihood(run, records, found),
        samples=results.samples_of(run, data, found),
        filled=results.filled_of(run, data, found),
        rows=rows_of(found),
        fields=results.fields_of(run, machine),
        sizes=results.sizes_of(found, run),
        diagnosis=_diagnosis(run, target),
        commands=words.commands(run),
        folder=repr(str(run.folder)),
    )


def _diagnosis(run: RunFolder, target: Path) -> dict[str, Any] | None:
    """The diagnosis that was saved, here or by `rapidbm diagnose`."""
    for base in dict.fromkeys((target, run.folder)):
        try:
            folder = inside(base, "figures")
            path = inside(folder, "diagnosis.json")
            if not path.is_file():
                continue
            found: dict[str, Any] = read_json(path, DIAGNOSIS, "a diagnosis", "remove it")
            sections: dict[str, list[list[str]]] = {}
            for section, *row in found["rows"]:
                sections.setdefault(section, []).append(row)
            images = [
                (key, embedded(content, PNG))
                for key, file in found["figures"].items()
                if (content := _png(folder, file)) is not None
            ]
        except InputError:
            continue
        return {"of": found["of"], "verdict": found["verdict"], "sections": sections, "images": images}
    return None


def _png(folder: Path, name: str) -> bytes | None:
    path = inside(folder, name)
    if Path(name).name != name or not path.is_file():
        return None
    content = path.read_bytes()
    return content if content.startswith(b"\x89PNG") else None
