"""What torch is asked to do in work that comes again and again on a CPU, as calls that can be repeated.

The same calls in the same order give the same bits and skip all that led to them: for a small machine
that is most of the time. Every call writes to the same memory each time, so that views need no call, nor
does what never changes. Memory that nothing reads any more serves what is made later, in this recording
and in others of the same work: as much of it as possible stays in the caches. What the host does between
two calls is not repeated: work that looks at a value is refused, and a recording is trusted when it has
once done exactly what the work did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

Step = Callable[[], object]
AFTER = 32  # times that work runs as it is: a recording takes as long as about twenty of them
MOST = 2**25  # bytes of all that is made on the way; at 80 MB nothing is gained any more
EMPTY = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
COPIES = {"clone", "_to_copy"}
DRAWS = {"rand": "uniform_", "randn": "normal_"}
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
MOVES = {"set_", "resize_", "resize_as_"}  # a tensor to other memory
FAILURES = (RuntimeError, TypeError, ValueError, IndexError)  # of a call in a form that torch lacks


class Refused(Exception):
    """This work cannot be recorded."""


@dataclass(frozen=True)
class Call:
    """A call of torch, and what it made."""

    function: Any  # torch._ops.OpOverload
    args: tuple[Any, ...]
    options: dict[str, Any]
    made: Any

    @property
    def name(self) -> str:
        return str(self.function._schema.name.partition("::")[2])

    @property
    def changes(self) -> bool:
        return bool(_changed_by(self.function))

    @property
    def random(self) -> bool:
        return torch.Tag.nondeterministic_seeded in self.function.tags

    def read(self) -> list[Tensor]:
        return list(_tensors([*self.args, *self.options.values()]))

    def tensors(self) -> list[Tensor]:
        return [*self.read(), *_tensors(self.made)]

    def written(self) -> list[Tensor]:
        given = dict(zip((a.name for a in self.function._schema.arguments), self.args, strict=False))
        given |= self.options
        return list(_tensors([given.get(name) for name in _changed_by(self.function)]))


@cache
def _changed_by(function: Any) -> list[str]:
    """Arguments that it writes into."""
    given = ((a.name, a.alias_info) for a in function._schema.arguments)
    return [name for name, alias in given if alias is not None and alias.is_write]


@dataclass(frozen=True)
class Unseen:
    """A call that torch knows nothing of, and the tensors that it writes into."""

    function: Callable[..., None]
    into: Tensor | list[Tensor]
    args: tuple[Any, ...]

    def tensors(self) -> list[Tensor]:
        return list(_tensors([self.into, *self.args]))

    def written(self) -> list[Tensor]:
        return list(_tensors(self.into))


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every call in its block, as long as what they make takes at most `MOST` bytes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call | Unseen] = []
        self.room = MOST
        self.listens = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # to skip it torch would load its compiler, for two seconds

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        call = Call(function, args, kwargs or {}, function(*args, **(kwargs or {})))
        if self.listens:
            self.note(call)
        return call.made

    def note(self, call: Call | Unseen) -> None:
        if isinstance(call, Call) and not call.changes and not call.function.is_view:
            there = {_place(x) for x in call.read()}  # as of a view that torch does not call one
            self.room -= sum(x.nbytes for x in _tensors(call.made) if _place(x) not in there)
        if self.room < 0:
            self.calls.clear()
        else:
            self.calls.append(call)


def unseen(function: Callable[..., None], into: Tensor | list[Tensor], *args: Any) -> None:
    """Calls function(into, *args), which may look at values and changes none but those of `into`: a
    recording does the same."""
    recorder = _get_current_dispatch_mode()
    if not isinstance(recorder, Recorder):
        function(into, *args)
        return
    recorder.listens = False
    try:
        function(into, *args)
    finally:
        recorder.listens = True
    recorder.note(Unseen(function, into, args))


class Recording:
    """Calls that can be made again; they may draw from these generators alone. What they make on the way
    lies in `lent` memory, to which they add what they lack."""

    def __init__(
        self,
        calls: list[Call | Unseen],
        rngs: Sequence[torch.Generator],
        lent: list[torch.UntypedStorage],
    ) -> None:
        if not calls:
            raise Refused("it takes too much memory")
        self.rngs = rngs
        self.made: set[int] = set()  # places
        self.constant: set[int] = set()
        written = [x for call in calls for x in call.written()]
        self.changed = {_place(x) for x in written}
        self.steps = [step for call in calls for step in self._steps(call)]
        self.lasting = {_place(x): x.untyped_storage() for x in written if _place(x) not in self.made}
        _lend(calls, self.made - self.constant, lent)
        self.calls = calls  # whose tensors stay where they are

    def run(self) -> None:
        for step in self.steps:
            step()

    def same_as(self, work: Callable[[], None]) -> bool:
        """Runs the work, and says whether the recording would have left the same bits."""
        before = self._state()
        work()
        after = self._state()
        self._restore(before)
        try:
            self.run()
            return all(torch.equal(a, b) for a, b in zip(self._state(), after, strict=True))
        except FAILURES:
            return False
        finally:
            self._restore(after)

    def _state(self) -> list[Tensor]:
        """Copies of all that outlives the work, as bytes."""
        drawn = [rng.get_state() for rng in self.rngs]
        return [*drawn, *(_bytes(place).clone() for place in self.lasting.values())]

    def _restore(self, state: list[Tensor]) -> None:
        for rng, drawn in zip(self.rngs, state, strict=False):
            rng.set_state(drawn)
        for place, values in zip(self.lasting.values(), state[len(self.rngs) :], strict=True):
            _bytes(place).copy_(values)

    def _steps(self, call: Call | Unseen) -> Iterator[Step]:
        if isinstance(call, Unseen):
            yield partial(call.function, call.into, *call.args)
            return
        if call.random and not any(_same(call.options.get("generator"), rng) for rng in self.rngs):
            raise Refused(f"{call.name} draws from another generator")
        read = {_place(x) for x in call.read()}
        made = list(_tensors(call.made))
        fresh = {_place(x) for x in made} - read
        self.made |= fresh
        if call.changes:
            if fresh or call.name in MOVES:
                raise Refused(f"{call.name} changes some tensors and makes others")
            yield _again(call)
        elif not made:
            raise Refused(f"{call.name} answers to the host")
        elif not fresh or call.name in EMPTY:  # a view, or memory that is still there
            return
        elif len(fresh) < len(made):
            raise Refused(f"{call.name} makes some tensors and passes on others")
        elif read <= self.constant and not call.random and not fresh & self.changed:
            self.constant |= fresh
        else:
            yield _into(call)


class Recordings:
    """Recordings of work that is the same for equal keys; it draws its random numbers from `rngs`.

    The first times it runs as it is, then once more while it is recorded and once beside the recording.
    From then on the recording runs, in blocks where nobody else listens to what torch is asked.
    """

    def __init__(self, *rngs: torch.Generator) -> None:
        self.rngs = rngs
        self.times: Counter[Hashable] = Counter()
        self.recordings: dict[Hashable, Recording] = {}
        self.trusted: dict[Hashable, Recording] = {}
        self.lent: list[torch.UntypedStorage] = []  # memory that all recordings use
        self.refused = ""  # why

    def run(self, key: Hashable, work: Callable[[], None]) -> None:
        if self.refused or _overheard():
            work()
            return
        recording = self.trusted.get(key)
        if recording is not None:
            recording.run()
            return
        if self.times[key] < AFTER:
            work()
        elif key not in self.recordings:
            self._record(key, work)
        elif self.recordings[key].same_as(work):
            self.trusted[key] = self.recordings[key]
        else:
            self._refuse("the recording does something else")
        self.times[key] += 1

    def _record(self, key: Hashable, work: Callable[[], None]) -> None:
        with Recorder() as recorder:
            work()
        try:
            self.recordings[key] = Recording(recorder.calls, self.rngs, self.lent)
        except Refused as why:
            self._refuse(str(why))

    def _refuse(self, why: str) -> None:
        self.refused = why
        self.recordings.clear()
        self.trusted.clear()
        self.lent.clear()


def _overheard() -> bool:
    return bool(
        torch._C._len_torch_dispatch_stack()
        or torch._C._is_torch_function_mode_enabled()
        or torch.is_inference_mode_enabled()
        or torch.is_autocast_enabled("cpu")
    )


# -- memory --------------------------------------------------------------------------------------------


def _lend(calls: Sequence[Call | Unseen], places: set[int], lent: list[torch.UntypedStorage]) -> None:
    """Moves what lies in these places to lent memory: two of them to the same if the last call that has
    one comes before the first that has the other."""
    tensors: dict[int, list[Tensor]] = {}
    calls_of: dict[int, list[int]] = {}
    for i, call in enumerate(calls):
        for x in call.tensors():
            if (place := _place(x)) in places:
                tensors.setdefault(place, []).append(x)
                calls_of.setdefault(place, []).append(i)
    free = list(lent)
    used: list[tuple[int, torch.UntypedStorage]] = []  # until which call
    for place, known in calls_of.items():  # in the order of their first calls
        free += [memory for last, memory in used if last < known[0]]
        used = [(last, memory) for last, memory in used if last >= known[0]]
        size = tensors[place][0].untyped_storage().nbytes()
        fitting = [memory for memory in free if size <= memory.nbytes() <= 2 * size]
        if fitting:
            memory = min(fitting, key=torch.UntypedStorage.nbytes)
            free = [each for each in free if each is not memory]
        else:
            memory = torch.empty(size, dtype=torch.uint8).untyped_storage()
            lent.append(memory)
        used.append((known[-1], memory))
        for x in tensors[place]:
            x.set_(memory, x.storage_offset(), x.size(), x.stride())


# -- the shortest way to the same bits ----------------------------------------------------------------


def _again(call: Call) -> Step:
    """The same change."""
    args, name = _with_tensors(call), call.name
    if any(
        isinstance(x, list) and any(y is None for y in x) for x in args
    ):  # of an index: only torch's core takes it
        return partial(call.function, *args, **call.options)
    if name.endswith("_") and hasattr(Tensor, name):
        return partial(getattr(args[0], name), *args[1:], **call.options)
    return partial(getattr(torch, name, call.function), *args, **call.options)


def _into(call: Call) -> Step:
    """The call, writing into what it made."""
    made, name, args = call.made, call.name, _with_tensors(call)
    if name in COPIES:
        return partial(made.copy_, args[0])
    if name in DRAWS:
        return partial(getattr(made, DRAWS[name]), generator=call.options["generator"])
    if name == "rsub" and len(args) == 2 and not call.options:
        return partial(torch.sub, torch.as_tensor(args[1], dtype=made.dtype), args[0], out=made)
    for function in () if call.random else _with_out(call):
        step = partial(function, *args, **call.options, out=made)
        try:
            step()
        except FAILURES:
            continue
        return step
    return partial(_copy, call)


def _with_tensors(call: Call) -> tuple[Any, ...]:
    """Its arguments. Where a number stands for a tensor torch would make one, every time."""
    like = call.args[0] if call.args else None
    if not isinstance(like, Tensor) or not like.is_floating_point():
        return call.args
    if any(x.dtype != like.dtype for x in call.read()):
        return call.args
    kinds = {"Tensor", "number"} if call.name in COMPARISONS else {"Tensor"}
    return tuple(
        torch.tensor(x, dtype=like.dtype) if str(a.type) in kinds and isinstance(x, int | float) else x
        for x, a in zip(call.args, call.function._schema.arguments, strict=False)
    )


def _with_out(call: Call) -> Iterator[Any]:
    """What may write into given tensors, the quickest first."""
    for names, name in ((torch, call.name), (torch.linalg, call.name.removeprefix("linalg_"))):
        if hasattr(names, name):
            yield getattr(names, name)
    packet = call.function.overloadpacket
    for name in ("out", f"{call.function._overloadname}_out"):
        if name in packet.overloads():
            yield getattr(packet, name)


def _copy(call: Call) -> None:
    """For a call that has no other way."""
    values = _tensors(call.function(*call.args, **call.options))
    for place, value in zip(_tensors(call.made), values, strict=True):
        place.copy_(value)


def _same(given: Any, rng: Any) -> bool:
    """torch hands a generator on as another object."""
    return given is not None and bool(given._cdata == rng._cdata)


def _place(tensor: Tensor) -> int:
    """The memory that a tensor, and all its views, lie in."""
    return int(tensor.untyped_storage()._cdata)


def _bytes(place: torch.UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(place)


def _tensors(values: Any) -> Iterator[Tensor]:
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)
