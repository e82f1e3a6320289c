"""Records: the numbers that parts of studies leave; figures are drawn and claims judged from them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rapidbm.disk import read_json, write_bytes
from rapidbm.machines import spins
from rapidbm.schema import Anything, Names, Text, Whole

DIGITS = 7  # of a number in a record: as many as float32 has
Values = dict[str, Any]
Array = NDArray[np.float64]
RECORD = Names(
    {
        "name": Text(),
        "scale": Text(),
        "seed": Whole(),
        "settings": Names({}, others=Anything()),
        "values": Names({}, others=Anything()),
    },
    others=Anything(),
)


@dataclass(frozen=True)
class Record:
    """The numbers that a part left, with the settings that gave them."""

    name: str  # "study.part"
    scale: str
    seed: int
    settings: Values
    values: Values

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def array(self, key: str) -> Array:
        """Numbers, with NaN for what was not finite."""
        return np.array(self.values[key], dtype=float)


Records = Mapping[str, Record]


def any_tiny(records: Records) -> bool:
    """Whether some are of the scale whose numbers mean little."""
    return any(record.scale == "tiny" for record in records.values())


def settings_of(scale: Any) -> Values:
    """The settings of a study as they stand in a file."""
    values: Values = json.loads(json.dumps(asdict(scale)))
    return values


def sizes_of(records: Records) -> str:
    """The settings and seeds of some records in a sentence, for a caption."""
    told = []
    for study in dict.fromkeys(name.partition(".")[0] for name in records):
        record = next(r for name, r in records.items() if name.partition(".")[0] == study)
        words = settings_in_words(record, "{:,}")
        told.append(f"{study} ({record.scale} scale, seed {record.seed}): {words}")
    return "; ".join(told) + "."


def settings_in_words(record: Record, whole: str) -> str:
    """The settings of a record; `whole` is the form of whole numbers."""
    return ", ".join(f"{name} {value}" for name, value in settings_by_name(record, whole))


def settings_by_name(record: Record, whole: str = "{:,}") -> list[tuple[str, str]]:
    """The same one by one; those that are left open are left out."""

    def short(value: Any) -> str:
        if isinstance(value, list):
            return "/".join(map(short, value))
        counts = isinstance(value, int) and not isinstance(value, bool)
        return whole.format(value) if counts else str(value)

    given = ((name, value) for name, value in record.settings.items() if value is not None)
    return [(name.replace("_", " "), short(value)) for name, value in given]


# -- as files -----------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Tensors and arrays as lists of rounded numbers; what is not finite becomes null."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value


def write_record(folder: Path, record: Record) -> None:
    """One line per value, so that files stay small and differences readable."""
    head = {k: v for k, v in asdict(record).items() if k != "values"}
    lines = [f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in head.items()]
    inner = [
        f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False, separators=(',', ':'))}"
        for k, v in plain(record.values).items()
    ]
    lines.append('"values": {\n' + ",\n".join(inner) + "\n}")
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / f"{record.name}.json", ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def read_record(path: Path) -> Record:
    found = read_json(path, RECORD, "a record", "remove it, and it is measured again")
    return Record(**{name: found[name] for name in RECORD.must})


# -- images -------------------------------------------------------------------------------------------


pack = spins.pack  # images of ±1 (samples, v) as lines of text


def unpack(packed: Sequence[str], visible: int) -> Array:
    """What `pack` has written, (samples, v) of ±1."""
    found: Array = spins.unpack(packed, visible).numpy().astype(float)
    return found
