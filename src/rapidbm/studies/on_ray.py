"""The batches of a sweep on Ray: each is a trial of Ray Tune, and a run folder as ever.

Tune asks a `Suggested` for what to train next and hears after every look how it goes,

    {"measure": mean over the replicas, "update": …}

so that its schedulers can stop what does poorly. Everything that lasts is in the sweep's folder: what is
finished is not asked for again, a batch whose worker died goes on from its newest checkpoint, and what
Tune keeps for itself is of no use afterwards. On several computers the folder must be one that all of
them see.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..accel.devices import device_named
from ..disk import inside, is_locked, write_json
from ..errors import InputError, require
from ..runs.folder import Record, RunFolder
from ..runs.listing import LOW
from ..runs.recipe import Recipe
from .batches import begun, train
from .planning import Batch
from .search import NONE, RANDOM, SCHEDULERS, Range, Search

if TYPE_CHECKING:
    from .sweep import Sweep

RETRIES = 3  # of a batch whose worker died
STORE = 10**8  # bytes that Ray keeps for objects on this computer: batches lie in files
LEAVING = 60.0  # seconds that a worker may take to leave
WORST = -1e30  # of a measure that nobody could take
QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Tune saves its own state once: a save that overtakes another logs a traceback.
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",
}


def check_installed() -> None:
    require("ray", "--on ray")


def sweep_on_ray(
    sweep: Sweep,
    tell: Callable[[str], None] = lambda line: None,
    stop: Callable[[], bool] | None = None,
) -> list[str]:
    """Trains what is left of a sweep, as many batches at once as the cluster has room for, until `stop`
    says so; answers why some of them failed, if any did. Without a `stop` Ctrl-C is Tune's."""
    check_installed()
    os.environ.update({**QUIET, **os.environ})
    ray: Any = import_module("ray")
    tune: Any = import_module("ray.tune")
    study = sweep.study
    low = str(study.measure).startswith(LOW)
    asked = _asked(sweep, tell)
    with _own_handlers(ray, stop) as put_back, _cluster(ray, put_back):
        own = study.ray
        needs = {"cpu": own.get("cpus", 1), "gpu": own.get("gpus", int(_takes_gpu(sweep)))}
        trainable = tune.with_resources(trained, needs)
        tuner = tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                metric="measure",
                mode="min" if low else "max",
                num_samples=-1,
                search_alg=_suggested(asked),
                scheduler=_scheduler(sweep, low),
                max_concurrent_trials=own.get("at_once") or _room(ray.cluster_resources(), needs),
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                name="tune",
                storage_path=str(inside(sweep.folder.resolve(), "ray")),
                failure_config=tune.FailureConfig(max_failures=own.get("retries", RETRIES)),
                verbose=0,
                stop=None if stop is None else _stopper(stop),
            ),
        )
        try:
            errors = tuner.fit().errors
        finally:
            shutil.rmtree(inside(sweep.folder, "ray"), ignore_errors=True)
    asked.settle()
    return [(str(error).strip().splitlines() or [type(error).__name__])[-1] for error in errors]


def trained(config: Mapping[str, Any]) -> None:
    """The training of one batch, in a worker."""
    from ray import tune

    told = json.loads(config["batch"])
    batch = Batch(told["name"], Recipe.from_dict(told["recipe"]), told["preset"], told["seed"])
    folder, measure = Path(config["folder"]), config["measure"]
    for step in train(folder, batch):
        if step.record is not None:
            tune.report(report(step.record, measure))
    run = begun(folder, batch)
    assert run is not None
    tune.report(report((run.metrics() or [{"update": 0}])[-1], measure))


def report(record: Record, measure: str) -> dict[str, float]:
    """What Tune hears of a look."""
    values = [x for x in record.get(measure, ()) if x is not None]
    worst = -WORST if measure.startswith(LOW) else WORST
    return {"measure": math.fsum(values) / len(values) if values else worst, "update": record["update"]}


class Asked:
    """What is to be trained next, and what became of it."""

    def __init__(self, sweep: Sweep, tell: Callable[[str], None]) -> None:
        self.sweep, self.tell = sweep, tell
        self.queue = sweep.left()
        self.of: dict[str, Batch] = {}  # by trial
        self.ended: list[Batch] = []  # by a scheduler, and not yet marked

    def next(self, trial: str) -> Batch | None:
        return self.queue.pop(0) if self.queue else None

    def heard(self, trial: str, result: Mapping[str, Any] | None) -> None:
        """A trial is over."""
        batch = self.of.pop(trial, None)
        if batch is not None and result is not None:
            self.ended.append(batch)
        self.mark()
        self.sweep.write(drawn=False)  # trainings wait for it

    def settle(self) -> None:
        """Waits for workers that were told to leave."""
        deadline = time.monotonic() + LEAVING
        while (self.mark() or self.at_work()) and time.monotonic() < deadline:
            time.sleep(0.1)

    def at_work(self) -> bool:
        """Whether a worker still has a run that was interrupted."""
        return any(is_locked(batch.folder(self.sweep.folder)) for batch in self.of.values())

    def mark(self) -> bool:
        """Marks runs that a scheduler has ended, once their workers have left; whether some have not."""
        search = self.sweep.study.searched
        by = NONE if search is None else search.scheduler
        for batch in list(self.ended) if by != NONE else ():
            run = begun(self.sweep.folder, batch)
            if run is None or run.status == "finished":
                self.ended.remove(batch)
            elif not is_locked(run.folder):
                stopped(run, by)
                self.ended.remove(batch)
        return by != NONE and bool(self.ended)


class Searched(Asked):
    """The same where an algorithm of Tune's suggests the settings of each row."""

    def __init__(self, sweep: Sweep, tell: Callable[[str], None], algorithm: Any, samples: int) -> None:
        super().__init__(sweep, tell)
        self.algorithm, self.samples = algorithm, samples
        known = zip(sweep.study.points(), sweep.table().rows, strict=True)
        for point, row in known:  # of a sweep that was cut
            value = row.mean(str(sweep.study.measure))[0]
            if math.isfinite(value):
                with suppress(NotImplementedError):  # not every algorithm of Tune's takes it
                    algorithm.add_evaluated_point(dict(point), value)

    def next(self, trial: str) -> Batch | None:
        if self.queue:
            return super().next(trial)
        study = self.sweep.study
        if len(study.known or ()) >= self.samples:
            return None
        given = self.algorithm.suggest(trial)
        if not isinstance(given, Mapping):
            return None
        self.sweep.extend(study.point(given))
        self.queue = [b for b in self.sweep.left() if b not in self.of.values()]
        return super().next(trial)

    def heard(self, trial: str, result: Mapping[str, Any] | None) -> None:
        super().heard(trial, result)
        self.algorithm.on_trial_complete(trial, result=result, error=result is None)


def _asked(sweep: Sweep, tell: Callable[[str], None]) -> Asked:
    search = sweep.study.searched
    if search is None or search.algorithm == RANDOM:
        return Asked(sweep, tell)
    from ray import tune

    low = str(sweep.study.measure).startswith(LOW)
    try:
        algorithm = tune.create_searcher(search.algorithm)
        algorithm.set_search_properties("measure", "min" if low else "max", _space(tune, search))
    except (ValueError, ImportError, AssertionError, ModuleNotFoundError) as error:
        words = " ".join(str(error).split())
        raise InputError(
            f"the search {search.algorithm!r} cannot be used: {words}; install what it needs, or take "
            f"{RANDOM}"
        ) from error
    return Searched(sweep, tell, algorithm, search.samples)


def _space(tune: Any, search: Search) -> dict[str, Any]:
    """Ranges as Tune has them."""
    found = {}
    for name, part in search.over.items():
        if not isinstance(part, Range):
            found[name] = tune.choice(list(part))
        elif part.whole:
            found[name] = (tune.lograndint if part.log else tune.randint)(part.low, part.high + 1)
        else:
            found[name] = (tune.loguniform if part.log else tune.uniform)(part.low, part.high)
    return found


def _suggested(asked: Asked) -> Any:
    """`asked` as a searcher of Tune's, which it makes the trials of."""
    from ray.tune.search import Searcher

    class Suggested(Searcher):  # type: ignore[misc, unused-ignore]
        def suggest(self, trial_id: str) -> Any:
            batch = asked.next(trial_id)
            if batch is None:
                return None if asked.of else self.FINISHED
            asked.of[trial_id] = batch
            many = batch.recipe.replicas
            asked.tell(f"batch {batch.name}: {many} training{'s' if many > 1 else ''}")
            return {
                "batch": json.dumps(batch.as_dict()),
                "folder": str(asked.sweep.folder.resolve()),
                "measure": str(asked.sweep.study.measure),
            }

        def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
            batch = asked.of.get(trial_id)
            asked.heard(trial_id, None if error else result)
            if batch is not None:
                how = "failed" if error else f"{asked.sweep.study.measure} {result['measure']:.6g}"
                asked.tell(f"batch {batch.name}: {how}")

        def save(self, checkpoint_path: str) -> None:
            """Nothing: the sweep's folder has it all."""

        def restore(self, checkpoint_path: str) -> None:
            """Nothing."""

        def __reduce__(self) -> Any:  # Tune keeps a copy of what it was given, which nobody reads
            return Searcher, ()

    return Suggested()


def _stopper(stop: Callable[[], bool]) -> Any:
    """`stop` as Tune asks for it, several times a second."""
    from ray.tune import Stopper

    class Stop(Stopper):  # type: ignore[misc, unused-ignore]
        def __call__(self, trial_id: str, result: Any) -> bool:
            return False

        def stop_all(self) -> bool:
            return stop()

        def __reduce__(self) -> Any:  # as that of `Suggested`
            return Stopper, ()

    return Stop()


def _scheduler(sweep: Sweep, low: bool) -> Any:
    search = sweep.study.searched
    if search is None or search.scheduler == NONE:
        return None
    from ray import tune

    longest = max((longest_of(sweep, batch) for batch in sweep.plan.batches), default=1)
    grace = search.grace or max(1, longest // 10)
    options: dict[str, Any] = {"time_attr": "update"}
    if search.scheduler == "median":
        options["grace_period"] = grace
    else:
        options |= {"max_t": longest + 1, "reduction_factor": search.reduction}  # ends come by themselves
        options |= {"grace_period": min(grace, longest)} if search.scheduler == "asha" else {}
    return tune.create_scheduler(SCHEDULERS[search.scheduler], **options)


def longest_of(sweep: Sweep, batch: Batch) -> int:
    """Updates of a batch."""
    rows = sweep.rows_of(batch)
    return batch.recipe.epochs * math.ceil(rows / batch.recipe.batch_size)


def stopped(run: RunFolder, scheduler: str) -> None:
    """Marks a run that a scheduler has ended: it counts as it is."""
    records = run.metrics()
    update = records[-1]["update"] if records else 0
    run.info |= {"status": "finished", "update": update}
    run.info["stopped"] = f"after update {update}: the scheduler {scheduler} let others go on"
    run.info["scheduler"] = scheduler
    write_json(inside(run.folder, "run.json"), run.info)


def _takes_gpu(sweep: Sweep) -> bool:
    """Whether batches would train on a GPU here."""
    names = {batch.recipe.device for batch in sweep.plan.batches}
    return any(device_named(name).type == "cuda" for name in names)


def _room(there: Mapping[str, float], needs: Mapping[str, float]) -> int:
    """Batches that fit into a cluster at once. Tune would begin with one."""
    parts = [there.get(name.upper(), 0.0) / need for name, need in needs.items() if need]
    return max(1, int(min(parts, default=1.0)))


@contextmanager
def _own_handlers(ray: Any, stop: Callable[[], bool] | None) -> Iterator[Callable[[], None]]:
    """Handlers of signals stay those of this process: yields what puts them back.

    `ray.init` has two of its own for SIGTERM, one of Python's and one of C's, which aborts the process
    after three seconds; `ray.shutdown` leaves the one and sets the other to the system's default. Tune
    has one for SIGUSR1 and, where no `stop` is given, for SIGINT.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield lambda: None
        return
    numbers = [signal.SIGINT, signal.SIGTERM, *([signal.SIGUSR1] if hasattr(signal, "SIGUSR1") else [])]
    before = {number: signal.getsignal(number) for number in numbers}
    utils, switch = ray._private.utils, "TUNE_DISABLE_SIGINT_HANDLER"
    install, disabled = utils.set_sigterm_handler, os.environ.get(switch)

    def put_back() -> None:
        for number, handler in before.items():
            if handler is not None:  # one that is not Python's
                signal.signal(number, handler)
        if stop is not None and stop() and hasattr(signal, "alarm"):
            signal.alarm(0)  # the three seconds of a signal during `ray.init`

    utils.set_sigterm_handler = lambda handler: None
    if stop is not None:
        os.environ[switch] = "1"
    try:
        yield put_back
    finally:
        utils.set_sigterm_handler = install
        if disabled is None:
            os.environ.pop(switch, None)
        else:
            os.environ[switch] = disabled
        put_back()


@contextmanager
def _cluster(ray: Any, put_back: Callable[[], None]) -> Iterator[None]:
    """The cluster that RAY_ADDRESS names, one that is already joined, or this computer for a while."""
    if ray.is_initialized():
        yield
        return
    alone = {} if os.environ.get("RAY_ADDRESS") else {"object_store_memory": STORE}
    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="error", **alone)
    except ConnectionError as error:
        raise InputError(f"no Ray answers at RAY_ADDRESS: {error}; start one, or unset it") from error
    try:
        put_back()
        yield
    finally:
        _before(ray._private.worker._global_node, "kill_all_processes", put_back)
        ray.shutdown()


def _before(owner: Any, name: str, call: Callable[[], None]) -> None:
    """Lets a method of an object begin with this call."""
    whole: Any = getattr(owner, name, None)

    def both(*words: Any, **more: Any) -> Any:
        call()
        return whole(*words, **more)

    if whole is not None:
        setattr(owner, name, both)
