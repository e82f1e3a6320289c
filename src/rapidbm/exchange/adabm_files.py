"""Parameter files of adabmDCA: full Potts machines of aligned sequences, a line for each parameter.

    J i j a b value        coupling of symbol a at site i with symbol b at site j, i < j
    h i a value            field of symbol a at site i

Sites count from 0, and symbols are letters. With E = −Σ J − Σ h these are couplings and biases of a
machine. What is not listed is 0. Written are parameters in the zero-sum gauge: couplings of two sites sum
to zero over the states of either, fields over the states of a site.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..accel.memory import check_room
from ..arrays import Array
from ..data.alignments import ALPHABETS
from ..data.text_files import as_utf8, content_of
from ..disk import reading, write_bytes
from ..errors import InputError
from ..machines.dense import Dense
from ..machines.gauge import zero_sum
from ..machines.layers import Layers
from ..machines.machine import Machine
from ..machines.units.categorical import Categorical

ENDING = ".dat"
REMEDY = "such a file has lines `J i j a b value` and `h i a value`"
MOST_SITES = 20_000


def load_adabm(
    path: str | Path, alphabet: str | None = None, *, dtype: torch.dtype = torch.float32
) -> Machine:
    """The machine of a parameter file of adabmDCA, in the gauge of the file.

    Parameters
    ----------
    path : str or Path
        A file such as `params.dat`, also `.gz`.
    alphabet : str, optional
        "protein", "rna", "dna", or the symbols in the order of the states, the gap first; by default what
        the letters of the file say.
    dtype : torch.dtype, default torch.float32
        Type of the parameters.

    Returns
    -------
    Machine
        A full machine with a categorical unit for each site, without hidden units; its energies are those
        of adabmDCA.

    Raises
    ------
    InputError
        If the file is not such a file.

    Examples
    --------
    >>> import tempfile
    >>> machine = rb.bm(4, units=rb.Categorical(5), biases=True, scale=0.1, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rb.save_adabm(machine, f"{folder}/params.dat", "rna")
    ...     rb.load_adabm(f"{folder}/params.dat").describe()
    '4, dense'
    """
    return read_params(path, alphabet, dtype=dtype)[0]


def save_adabm(machine: Machine, path: str | Path, alphabet: str) -> None:
    """Writes the couplings and biases of a full machine as a parameter file of adabmDCA.

    They are in the zero-sum gauge, which changes energies by a constant alone.

    Parameters
    ----------
    machine : Machine
        One replica with categorical units, as many states each, and no hidden units. Of a machine with
        hidden units `rapidbm couplings RUN --out params.dat` writes effective couplings.
    path : str or Path
        Where to write; an existing file is replaced.
    alphabet : str
        "protein", "rna", "dna", or a symbol for each state.

    Raises
    ------
    InputError
        If the machine is of another kind, or the alphabet has another number of symbols.

    Examples
    --------
    >>> import tempfile
    >>> machine = rb.bm(4, units=rb.Categorical(21), biases=True, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rb.save_adabm(machine, f"{folder}/params.dat", "protein")
    """
    layers = machine.layers
    if layers.hidden or machine.replicas != 1 or len(layers.sizes) != 1:
        raise InputError(
            f"a parameter file is of one machine without hidden units, not of {machine.describe()} with "
            f"{machine.replicas} replicas; take machine.replica(i), or rapidbm couplings RUN --out x.dat"
        )
    shape = (1, layers.columns)
    biases = torch.zeros(shape) if machine.biases is None else machine.biases.detach()
    pairs = machine.couplings.matrix(0, 0).detach().double()
    fields, pairs = zero_sum(layers, biases.to(pairs), pairs)
    write_params(path, fields[0], pairs[0], layers, alphabet)


def write_params(path: str | Path, fields: Tensor, pairs: Tensor, layers: Layers, alphabet: str) -> None:
    """Writes fields (v,) and pair couplings (v, v) of visible columns."""
    symbols, unit = ALPHABETS.get(alphabet.lower(), alphabet), layers.kinds[0]
    each = set(unit.each(layers.sizes[0])) if isinstance(unit, Categorical) and layers.seen == 1 else {0}
    if each != {len(symbols)}:
        raise InputError(
            f"a parameter file is of categorical units with a state for each of the {len(symbols)} "
            f"symbols {symbols}, not of {layers.words}; give the alphabet of the sequences"
        )
    q, sites = len(symbols), layers.counts[0]
    h = fields.double().cpu().numpy().reshape(sites, q)
    j = pairs.double().cpu().numpy().reshape(sites, q, sites, q)
    two = [f"{a} {b}" for a in symbols for b in symbols]
    text = io.StringIO()
    for first in range(sites):
        for second in range(first + 1, sites):
            start, block = f"J {first} {second} ", j[first, :, second].ravel().tolist()
            text.writelines(f"{start}{ab} {x!r}\n" for ab, x in zip(two, block, strict=True))
    for site, row in enumerate(h.tolist()):
        text.writelines(f"h {site} {a} {x!r}\n" for a, x in zip(symbols, row, strict=True))
    write_bytes(Path(path), text.getvalue().encode())


def read_params(
    path: str | Path, alphabet: str | None = None, *, dtype: torch.dtype = torch.float32
) -> tuple[Machine, str]:
    """The machine of a parameter file and its symbols."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}; check the path")
    with reading(path, "parameters of adabmDCA", REMEDY):
        lines = as_utf8(content_of(path)).splitlines()
        fields = _columns([x for x in lines if x.startswith(b"h ")], ("i", "a", "value"))
        pairs = _columns([x for x in lines if x.startswith(b"J ")], ("i", "j", "a", "b", "value"))
        other = next((x for x in lines if x.strip() and x[:2] not in (b"J ", b"h ")), None)
        if other is not None:
            raise ValueError(f"it holds the line {other[:60]!r}")
    symbols = _symbols(path, fields["a"], [*pairs["a"], *pairs["b"]], alphabet)
    sites = 1 + max(int(x.max(initial=-1)) for x in (fields["i"], pairs["i"], pairs["j"]))
    least = min(int(x.min(initial=0)) for x in (fields["i"], pairs["i"], pairs["j"]))
    if not 2 <= sites <= MOST_SITES or least < 0 or not (pairs["i"] < pairs["j"]).all():
        raise InputError(
            f"{path} must have sites from 0, two or more, and couplings with i < j; here are {sites} "
            f"sites; {REMEDY}"
        )
    q = len(symbols)
    check_room(f"couplings of {sites:,} sites with {q} states", (sites * q) ** 2, size=8)
    code = {symbol: k for k, symbol in enumerate(symbols)}
    at = {name: _codes(pairs[name], code) for name in ("a", "b")}
    h, j = (
        np.zeros((sites, q)),
        np.zeros((sites, q, sites, q), np.float32 if dtype == torch.float32 else float),
    )
    h[fields["i"], _codes(fields["a"], code)] = fields["value"]
    j[pairs["i"], at["a"], pairs["j"], at["b"]] = pairs["value"]
    if not (np.isfinite(h).all() and np.isfinite(pairs["value"]).all()):
        raise InputError(f"{path} holds numbers that are not finite; write it again")
    unit = Categorical(q)
    layers = Layers((sites * q,), ((0, 0),), (unit,), 1)
    matrix = torch.from_numpy(j.reshape(1, sites * q, sites * q)).to(dtype)
    return Machine(Dense(layers, {(0, 0): matrix}), torch.from_numpy(h.reshape(1, -1)).to(dtype)), symbols


def _columns(lines: list[bytes], names: tuple[str, ...]) -> dict[str, Array]:
    """The columns of lines after their first letter."""
    import pyarrow
    from pyarrow import csv

    kinds = {"i": pyarrow.int64(), "j": pyarrow.int64(), "value": pyarrow.float64()}
    if not lines:
        return {name: np.empty(0, np.int64 if name in "ij" else object) for name in names}
    table = csv.read_csv(
        io.BytesIO(b"\n".join(lines)),
        read_options=csv.ReadOptions(column_names=["kind", *names]),
        parse_options=csv.ParseOptions(delimiter=" ", quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types={name: kinds.get(name, pyarrow.string()) for name in ("kind", *names)},
            strings_can_be_null=False,
            null_values=[],
        ),
    )
    return {name: table.column(name).to_numpy() for name in names}


def _symbols(path: Path, of_fields: Array, of_pairs: list[Any], asked: str | None) -> str:
    """The symbols in the order of the states."""
    found = dict.fromkeys([*of_fields.tolist(), *dict.fromkeys(of_pairs)])
    if any(len(symbol) != 1 for symbol in found) or not found:
        raise InputError(f"{path}: a symbol is one letter, not {list(found)[:5]}; {REMEDY}")
    known = [ALPHABETS.get(asked.lower(), asked)] if asked else list(ALPHABETS.values())
    for symbols in sorted(known, key=len):
        if set(found) <= set(symbols):
            return symbols
    if asked:
        raise InputError(
            f"{path} has the symbols {''.join(found)}, not all of them in {known[0]}; give its alphabet"
        )
    return "".join(found)


def _codes(symbols: Array, code: dict[str, int]) -> Array:
    each, place = np.unique(symbols.astype("U1"), return_inverse=True)
    return np.array([code[str(symbol)] for symbol in each], np.int64)[place] if len(each) else place
