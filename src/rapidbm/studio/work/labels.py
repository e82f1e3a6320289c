"""What a person calls a run and notes about it, in a file of the run's folder; runs that are deleted.

The folder keeps its name, so that commands, and a training that goes on, find it.
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path
from typing import Any

from ...disk import inside, locked, read_json, write_json
from ...errors import InputError
from ...schema import Names, Text
from .machines import run_folder

FILE = "label.json"
TITLE, NOTE = Text(200), Text(5000)
LABEL = Names({}, {"title": TITLE, "note": NOTE})


def label_of(folder: Path) -> dict[str, str]:
    """Title and note of a run, empty where there are none."""
    empty = {"title": "", "note": ""}
    try:
        path = inside(folder, FILE)
        if not path.is_file():
            return empty
        return {**empty, **read_json(path, LABEL, "a label", "remove it")}
    except (InputError, OSError):
        return empty  # somebody else's file of that name


def set_label(folder: Path, asked: dict[str, Any]) -> dict[str, str]:
    """Writes title and note of a run; both empty take the file away."""
    given = {name: asked.get(name) or "" for name in ("title", "note")}
    label: dict[str, str] = LABEL.checked(given, "the label of a run:", "shorten it")
    label = {name: text.strip() for name, text in label.items()}
    path = inside(run_folder(folder, str(asked.get("run"))), FILE)
    if any(label.values()):
        write_json(path, label)
    else:
        path.unlink(missing_ok=True)
    return label


def delete_run(folder: Path, name: str) -> None:
    """Deletes the folder of a run. One that is in training or holds other runs is refused."""
    run = run_folder(folder, name)
    if run.is_symlink() or run.resolve() == folder.resolve():
        raise InputError(f"{name} is a link, or the folder of the studio; remove it by hand")
    below = [path.parent for path in run.rglob("run.json") if path.parent != run]
    if below:
        raise InputError(f"{name} has {len(below)} other runs below it; delete those first")
    with locked(run, "deleting"):
        gone = inside(run.parent, f".{secrets.token_hex(8)}.deleted")
        os.rename(run, gone)  # from now on nobody sees half of it
    shutil.rmtree(gone)
