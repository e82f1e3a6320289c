"""The command `rapidbm`. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import os
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from .console import EXIT_BAD_INPUT, Screen, Stopper, follow, meaning, spread

app = typer.Typer(
    name="rapidbm",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[
    bool, typer.Option("--json", help="Write JSON, one object per line, for machines.")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]
Update = Annotated[
    int | None,
    typer.Option(help="Take the checkpoint after this update (default: the newest).", min=0),
]
Replica = Annotated[int, typer.Option(help="Which replica to show.", min=0)]
DataFile = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="The file that the run was trained on, if it has moved, or if the run is not your own: "
        "nothing outside a folder is read that you have not named.",
        show_default=False,
    ),
]
Device = Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu, cuda, …")]
Limit = Annotated[
    float | None,
    typer.Option(help="Stop after so many seconds, and say how far it was.", show_default=False),
]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.", min=0)]
DATA, MACHINE, PHASES, UPDATES, LOOKING, WHERE = (
    "Data",
    "Machine",
    "Phases of the gradient",
    "Updates",
    "What is measured and kept",
    "Run",
)


def option(panel: str, text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=False, **more)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False,
) -> None:
    """Train Boltzmann machines without getting lost in a spin glass.

    Start with [bold]rapidbm demo[/]; then [bold]rapidbm train bars4[/], which uses the paper's settings.
    """
    if version:
        from .. import __version__

        typer.echo(f"rapidbm {__version__}")
        raise typer.Exit


@app.command()
def train(
    dataset: Annotated[
        str | None,
        typer.Argument(
            help="A name from [bold]rapidbm datasets[/] (bars4, bas12, digits, mnist, …) or a file "
            ".npy, .npz, .csv, .h5 of {0,1}, booleans or ±1. Not needed with --resume.",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        option(
            WHERE,
            "Start from named settings: paper-bars, paper-bars-exact, paper-bars-cd, paper-bars-pcd (the "
            "last three also with -update), paper-bas12, paper-mnist, mnist, small; every other option "
            "changes one of them (default: the one for the data set).",
        ),
    ] = None,
    threshold: Annotated[
        float | None, option(DATA, "Pixels brighter than this share are up (digits, mnist).")
    ] = None,
    binarize: Annotated[
        str | None, option(DATA, "mnist: threshold, or stochastic (each pixel drawn once).")
    ] = None,
    split: Annotated[
        str | None, option(DATA, "mnist: usual (60,000/10,000) or paper (57,000/3,000).")
    ] = None,
    data_seed: Annotated[
        int | None,
        option(
            DATA,
            "Seed of the split into training and test set, or of mnist's stochastic pixels.",
            min=0,
        ),
    ] = None,
    model: Annotated[
        str | None, option(MACHINE, "rbm (restricted), dbm (deep) or bm (fully connected).")
    ] = None,
    hidden: Annotated[
        list[int] | None,
        option(
            MACHINE, "Hidden units; repeat it for the layers of a dbm; 0 for a bm without.", min=0
        ),
    ] = None,
    patterns: Annotated[
        int | None, option(MACHINE, "Regularized Axons: K patterns build the couplings.")
    ] = None,
    dense: Annotated[
        bool, option(MACHINE, "Ordinary couplings, every one a parameter.", "--dense")
    ] = False,
    scale: Annotated[
        float | None,
        option(MACHINE, "Start of the patterns, ±scale (1), or sd of dense couplings (0.01)."),
    ] = None,
    continuous: Annotated[
        bool | None,
        option(
            MACHINE,
            "Patterns start spread over [−scale, scale] instead of at ±scale.",
            "--continuous/--binary",
        ),
    ] = None,
    biases: Annotated[
        bool | None,
        option(
            MACHINE,
            "Biases, the visible ones started at the data's marginals.",
            "--biases/--no-biases",
        ),
    ] = None,
    bias_start: Annotated[
        str | None, option(MACHINE, "Where visible biases start: marginals or zero.")
    ] = None,
    replicas: Annotated[int | None, option(MACHINE, "Independent trainings, side by side.")] = None,
    dtype: Annotated[str | None, option(MACHINE, "float32 or float64.")] = None,
    negative: Annotated[
        str | None,
        option(
            PHASES,
            "Model average: pid (patterns), cd, pcd, pt (parallel tempering) or exact. pid with "
            "--sweeps 0 needs no Monte Carlo.",
        ),
    ] = None,
    sweeps: Annotated[
        int | None,
        option(PHASES, "Gibbs sweeps per update: from the patterns, the data, the chains."),
    ] = None,
    particles: Annotated[int | None, option(PHASES, "Chains of pcd; of pt, on every rung.")] = None,
    rungs: Annotated[int | None, option(PHASES, "Temperatures of pt.")] = None,
    pattern_units: Annotated[
        str | None,
        option(PHASES, "What pid takes of a pattern: visible (rest inferred) or all units."),
    ] = None,
    positive: Annotated[
        str | None,
        option(PHASES, "Data average: auto, mean (rbm), meanfield, clamped or enumerated."),
    ] = None,
    positive_steps: Annotated[
        int | None, option(PHASES, "Iterations of meanfield, sweeps of clamped.")
    ] = None,
    projection: Annotated[
        str | None, option(UPDATES, "What keeps the patterns in place: sign, clip, gibbs or none.")
    ] = None,
    bound: Annotated[float | None, option(UPDATES, "x of clip: patterns stay in [−x, x].")] = None,
    project_every: Annotated[
        str | None, option(UPDATES, "Project after every update or epoch.")
    ] = None,
    optimizer: Annotated[
        str | None, option(UPDATES, "sgd, adam, or another of torch's: rmsprop, nadam, …")
    ] = None,
    rate: Annotated[
        list[float] | None,
        option(UPDATES, "Learning rate; repeat it to give each replica its own."),
    ] = None,
    momentum: Annotated[
        float | None, option(UPDATES, "Momentum of sgd, or of torch's optimisers that have one.")
    ] = None,
    adam_clock: Annotated[
        str | None,
        option(
            UPDATES,
            "What adam's correction for its start counts: update, or epoch as the paper's program.",
        ),
    ] = None,
    weight_decay: Annotated[
        float | None,
        option(
            UPDATES,
            "Shrinks the couplings by rate·decay per update (torch's optimisers: their way).",
        ),
    ] = None,
    decay: Annotated[float | None, option(UPDATES, "Factor on the rate after each epoch.")] = None,
    decay_after: Annotated[int | None, option(UPDATES, "Last epoch with the full rate.")] = None,
    rate_floor: Annotated[float | None, option(UPDATES, "The decay ends at this rate.")] = None,
    fall: Annotated[
        str | None,
        option(UPDATES, "Fall of the rate to zero over the training: linear, cosine, none."),
    ] = None,
    batch_size: Annotated[int | None, option(UPDATES, "Images per update.")] = None,
    batch_mean: Annotated[
        str | None,
        option(
            UPDATES,
            "Divide the data's moments of a smaller last batch by its true or by the nominal size.",
        ),
    ] = None,
    epochs: Annotated[int | None, option(UPDATES, "Passes over the data.")] = None,
    average: Annotated[
        int | None,
        option(
            UPDATES, "Keep and evaluate an average of the parameters over about this many updates."
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        option(LOOKING, "hamming, log_likelihood, free_energy, gibbs_accessibility; repeatable."),
    ] = None,
    evaluate_at: Annotated[
        str | None,
        option(LOOKING, "When to evaluate: log (spaced), epoch, end, or every so many updates."),
    ] = None,
    checkpoints: Annotated[
        str | None,
        option(
            LOOKING,
            "When to keep the parameters: log (spaced), epoch, end, or a number of updates.",
        ),
    ] = None,
    seed: Annotated[int | None, option(WHERE, "Seed of the training (default: 0).", min=0)] = None,
    device: Annotated[str | None, option(WHERE, "auto, cpu, cuda, …")] = None,
    precision: Annotated[
        str | None,
        option(
            WHERE, "Products of matrices on a GPU: float32 (default), tf32 or bf16, the fastest."
        ),
    ] = None,
    out: Annotated[
        Path | None, option(WHERE, "The run folder (default: a new one under runs/).")
    ] = None,
    resume: Annotated[
        bool,
        option(
            WHERE,
            "Go on with the run in --out where it stopped; a larger --epochs prolongs it.",
            "--resume",
        ),
    ] = False,
    prolong: Annotated[
        str | None,
        option(
            WHERE,
            "With --resume and a larger --epochs, a rate that falls to zero falls as planned and then "
            "again, from the full rate over the added epochs (default), or is a stretch: from there on "
            "that of a fall over all epochs.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a machine into a run folder.

    The paper's 4×4 bars, 100 trainings at once:
    [bold]rapidbm train bars4 --replicas 100[/]

    The recipe for a good likelihood (a GPU helps):
    [bold]rapidbm train mnist --preset mnist[/]

    An ordinary RBM on data of your own:
    [bold]rapidbm train my.npy --dense --hidden 200 --negative pcd[/]

    Go on after an interruption, to the same bits:
    [bold]rapidbm train --resume --out R[/]

    Train a finished run for longer:
    [bold]rapidbm train --resume --out R --epochs 100[/]
    """
    given = dict(locals())
    renamed = {"metric": "metrics", "evaluate_at": "evaluate"}
    aside = ("dataset", "preset", "dense", "out", "resume", "prolong", "as_json")
    chosen = {renamed.get(k, k): v for k, v in given.items() if k not in aside and v is not None}
    for key in ("hidden", "rate", "metrics"):
        if key in chosen:
            chosen[key] = tuple(chosen[key])
    if chosen.get("hidden") == (0,):
        chosen["hidden"] = ()
    _train(Screen(as_json), dataset, preset, chosen, dense, out, resume, prolong)


def _train(
    screen: Screen,
    dataset: str | None,
    preset: str | None,
    chosen: dict[str, Any],
    dense: bool,
    out: Path | None,
    resume: bool,
    prolong: str | None,
) -> None:
    from ..data.catalogue import FILE_ENDINGS
    from ..errors import InputError
    from ..runs.recipe import Recipe, preset_for
    from ..runs.run import Run

    if dense:
        if "patterns" in chosen:
            raise InputError(
                "couplings are dense or built from patterns: give --dense or --patterns"
            )
        chosen["patterns"] = None
    if resume and out is None:
        raise InputError("--resume needs the run folder to go on with; give --out")
    if dataset is None and not resume:
        raise InputError("train needs a data set; `rapidbm datasets` lists them")
    with screen.gentle_warnings():
        if resume and out is not None and (dataset is None or (out / "run.json").is_file()):
            named = dataset if dataset and Path(dataset).suffix in FILE_ENDINGS else None
            run = Run(out, named)
            epochs = _resumed(run, None if named else dataset, preset, chosen)
            if epochs is not None and epochs != run.recipe.epochs:
                screen.say(run.prolong(epochs, prolong))
            elif prolong is not None:
                raise InputError(
                    f"--prolong goes with an --epochs above the {run.recipe.epochs} of {out}; give "
                    "one, or leave it out"
                )
        else:
            if prolong is not None:
                raise InputError("--prolong goes with --resume and --epochs; leave it out")
            assert dataset is not None
            name = preset or preset_for(dataset)
            recipe = Recipe.made(dataset, chosen, name)
            stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
            stem = Path(dataset).stem
            folder = out or Path("runs") / f"{stem}-{recipe.negative}-{stamp}"
            run = Run.create(folder, recipe, name, renamed=out is None)
            if preset is None:
                screen.say(f"settings: preset {name}, the one for {dataset} (see --preset)")
        screen.say(describe(run))
        stopper = Stopper()
        with stopper.listening():
            follow(run, screen, stopper)
        _finish(run, screen, stopper)


def describe(run: Any) -> str:
    """One line on what is being trained."""
    recipe, data = run.recipe, run.info["data"]
    shape = "×".join(map(str, (data["shape"][0] * data["shape"][1], *recipe.hidden)))
    kind = f"K={recipe.patterns} patterns" if recipe.patterns else "dense couplings"
    sweeps = "" if recipe.sweeps is None else f"-{recipe.sweeps}"
    third = f", {data['valid']:,} to validate (measured, not trained on)" if "valid" in data else ""
    return (
        f"{data['name']}: {data['train']:,} images to train, {data['test']:,} to test{third}; "
        f"{recipe.model} {shape}, {kind}, {recipe.negative}{sweeps}, "
        f"{recipe.replicas} replica{'s' if recipe.replicas > 1 else ''}, "
        f"{recipe.epochs} epochs → {run.folder}"
    )


def _resumed(
    run: Any, dataset: str | None, preset: str | None, chosen: dict[str, Any]
) -> int | None:
    """Checks that a resumed command asks for what the run is; answers a new number of epochs."""
    from ..errors import InputError
    from ..runs.recipe import Recipe

    saved = run.recipe.as_dict()
    wanted = dict(chosen)
    if preset is not None or dataset is not None:
        made = Recipe.made(dataset or run.recipe.dataset, chosen, preset or run.info.get("preset"))
        wanted = made.as_dict() if preset is not None else {**chosen, "dataset": made.dataset}
    epochs = wanted.pop("epochs", None)
    wanted.pop("falls", None)  # they tell of --epochs given before
    different = [k for k, v in wanted.items() if saved[k] != v]
    if different:
        told = "; ".join(f"{k} is {saved[k]!r} there, {wanted[k]!r} here" for k in different)
        raise InputError(
            f"a resumed run keeps its settings, but {told}; leave the options out, or train into "
            "another folder"
        )
    return epochs if "epochs" in chosen else None


def _finish(run: Any, screen: Screen, stopper: Stopper) -> None:
    from .. import pictures

    records = run.metrics()
    done = {
        "event": run.status,
        "out": str(run.folder),
        "update": run.info["update"],
        "updates": run.info["updates"],
        "seconds": run.info["seconds"],
    }
    screen.result(done)
    if run.status == "interrupted":
        screen.say(
            f"interrupted at update {run.info['update']} of {run.info['updates']}; everything is "
            f"saved. Go on with: rapidbm train --resume --out {shlex.quote(str(run.folder))}"
        )
        raise typer.Exit(128 + (stopper.signal or 2))
    told = f"{run.status}: {run.info['seconds']:.1f} s of training"
    if records:
        fig = pictures.curve_figure(records, run.info["data"]["name"])
        told += f"; curves in {pictures.save(fig, run.figures / 'curves.png')}"
    screen.say(told)


@app.command()
def demo(
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to (default: a new one, runs/demo-1, …).")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """The first thing to run: RAPID on bars and stripes, in under two minutes on two cores."""
    from .demo import demo as run_demo

    screen, stopper = Screen(as_json), Stopper()
    with screen.gentle_warnings(), stopper.listening():
        run_demo(out, seed, screen, stopper)


@app.command()
def reproduce(
    items: Annotated[
        list[str],
        typer.Argument(
            metavar="ITEM…",
            help="all, a figure or table (fig1, fig2a, …, probe, costs: [bold]list[/] shows them), or "
            "[bold]claims[/]: the verdicts on what --out holds.",
            show_default=False,
        ),
    ],
    scale: Annotated[
        str,
        typer.Option(
            help="tiny (seconds), quick (minutes on two cores) or paper (the paper's sizes, a GPU)."
        ),
    ] = "quick",
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder (default: runs/reproduction-SCALE); what it has is not redone."
        ),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """The paper's figures, tables and claims, measured anew, on one page.

    Everything, in minutes on two cores:
    [bold]rapidbm reproduce all --out R[/]

    One figure at the paper's size:
    [bold]rapidbm reproduce fig5 --scale paper[/]

    The same command goes on where it was interrupted, to the same records.
    """
    from .reproduce import list_items, reproduce_items, show_claims

    screen = Screen(as_json)
    folder = out or Path("runs") / f"reproduction-{scale}"
    if items == ["list"]:
        list_items(screen)
    elif items == ["claims"]:
        show_claims(folder, screen)
    else:
        code = reproduce_items(items, folder, scale, seed, device, screen, Stopper())
        if code:
            raise typer.Exit(code)


@app.command()
def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A folder of rapidbm reproduce.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write there instead of into DIR, which stays as it is.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw the figures, judge the claims and write the page of a reproduction again, from its records."""
    from .reproduce import write_report

    if code := write_report(folder, out, Screen(as_json)):
        raise typer.Exit(code)


@app.command()
def evaluate(
    run: RunFolder,
    update: Update = None,
    file: DataFile = None,
    likelihood: Annotated[
        str,
        typer.Option(
            help="auto (exact, or annealed where that is a matter of minutes), exact, ais or none."
        ),
    ] = "auto",
    curve: Annotated[
        bool,
        typer.Option("--curve", help="The likelihood of every checkpoint instead, and a picture."),
    ] = False,
    limit: Limit = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Likelihood, reconstruction errors and energies of a trained machine.

    Log-likelihoods and ground states are exact where that can be had; else annealing gives a value
    and its 95 % interval, and a search the best energy, beside one that no state can go below.
    """
    from ..runs.evaluation import evaluation
    from ..runs.run import Run

    screen = Screen(as_json)
    opened = Run(run, file)
    if curve:
        with screen.watching("evaluation", limit=limit):
            _curve(opened, screen, update, likelihood, seed, device)
        return
    with screen.watching("evaluation", limit=limit):
        rows, notes = evaluation(opened, update, seed, device, likelihood)
    screen.result(
        {
            "run": str(run),
            "update": opened.info.get("update") if update is None else update,
            **rows,
            "notes": notes,
        }
    )
    width = max(map(len, rows))
    lost = [] if update is not None else opened.info.get("diverged", [])
    screen.say(f"{run}: {meaning(opened.recipe.replicas - len(lost))}")
    for name, values in rows.items():
        kept = [v for i, v in enumerate(values) if i not in lost]
        screen.say(f"  {name:<{width}}  {spread(kept)}")
    if lost:
        screen.say(f"  replica {', '.join(map(str, lost))} diverged and is left out")
    for note in notes:
        screen.say(f"  {note}")


def _curve(
    run: Any, screen: Screen, update: int | None, likelihood: str, seed: int, device: str
) -> None:
    from .. import pictures
    from ..errors import InputError
    from ..runs.evaluation import curve_figure, likelihood_curve, middle

    if update is not None or likelihood != "auto":
        raise InputError("--curve takes all checkpoints; leave --update and --likelihood out")
    records = likelihood_curve(run, seed, device, screen.track)
    screen.say(
        f"log-likelihood per image, middle of the interval ({meaning(run.recipe.replicas)}) and its "
        "width, the widest"
    )
    for record in records:
        screen.result(record)
        told = []
        for part in ("train", "test"):
            ends = zip(
                record[f"log_likelihood_{part}_from"],
                record[f"log_likelihood_{part}_to"],
                strict=True,
            )
            widest = max((b - a for a, b in ends if a is not None and b is not None), default=0.0)
            told.append(f"{part} {spread(middle(record, part))} (width {widest:.2g})")
        screen.say(f"  update {record['update']:>8}  {'; '.join(told)}; {record['method']}")
    figure = curve_figure(records, run.info["data"]["name"])
    screen.say(f"picture: {pictures.save(figure, run.figures / 'likelihood.png')}")


@app.command()
def diagnose(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run folder, or a machine's .safetensors file.",
            show_default=False,
        ),
    ],
    update: Update = None,
    file: DataFile = None,
    replica: Replica = 0,
    chains: Annotated[int, typer.Option(help="Chains of each sampler.", min=4)] = 64,
    sweeps: Annotated[int, typer.Option(help="Sweeps before anything is recorded.", min=1)] = 500,
    starts: Annotated[
        int, typer.Option(help="Random states from which descent looks for minima.", min=2)
    ] = 400,
    limit: Limit = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the pictures (default: RUN/figures, or beside the file)."),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Is it glassy, does it mix, what are its minima, how good are its samples?

    Prints numbers with their errors and a verdict, and draws where the machine stands among the phases,
    its landscape, and the quality of its samples. The start of a training is --update 0.
    """
    from .. import pictures
    from ..disk import inside
    from ..progress import quiet
    from ..runs.diagnosis import diagnose as look
    from ..runs.diagnosis import opened

    screen = Screen(as_json)
    machine, data, past = opened(run, update, replica, device, file)
    folder = out or (run.parent if run.is_file() else inside(run, "figures"))
    folder.mkdir(parents=True, exist_ok=True)  # what cannot be written is known before the work
    name = run.stem if run.is_file() else run.resolve().name
    after = "" if update is None else f", update {update}"
    after += f", replica {replica}" if replica else ""
    with quiet(as_json):
        found = look(
            machine,
            data,
            past=past,
            chains=chains,
            sweeps=sweeps,
            starts=starts,
            seed=seed,
            title=f"{name}{after}: {_words(machine)}",
            limit=limit,
        )
    prefix = f"{run.stem}-" if run.is_file() else ""
    suffix = ("" if update is None else f"-{update}") + (f"-replica-{replica}" if replica else "")
    files = {
        key: str(pictures.save(figure, folder / f"{prefix}{key}{suffix}.png"))
        for key, figure in found.figures.items()
    }
    told = {"run": str(run), "update": update, "replica": replica}
    screen.result({**told, **found.as_dict(), "figures": files})
    section = ""
    for row in found.rows:
        if row.section != section:
            section = row.section
            screen.say(section)
        screen.say(f"  {row.name:<40}  {row.text()}")
    screen.say(f"pictures: {', '.join(files.values())}")


def _words(machine: Any) -> str:
    """The machine in a few words."""
    k = None if machine.patterns is None else machine.patterns.shape[1]
    kind = "dense" if k is None else f"K={k}"
    return f"{machine.layers.describe()}, {kind}"


@app.command()
def sample(
    run: RunFolder,
    count: Annotated[int, typer.Option(help="How many samples.", min=1)] = 64,
    sampler: Annotated[
        str,
        typer.Option(
            help="gibbs, pt (parallel tempering), trajectory (tempering along the run's checkpoints) or "
            "annealing."
        ),
    ] = "gibbs",
    sweeps: Annotated[
        int | None,
        typer.Option(
            help="Sweeps from the start, turns of tempering, annealings after the first (default: "
            "1000, 500, 0).",
            min=0,
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str,
        typer.Option(help="Where Gibbs chains start: random, data (training images) or patterns."),
    ] = "random",
    beta: Annotated[float, typer.Option(help="Inverse temperature.")] = 1.0,
    replica: Replica = 0,
    update: Update = None,
    file: DataFile = None,
    limit: Limit = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="A new .png, or .npy of ±1 (default: RUN/figures/samples.png)."),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Draw samples, as a picture or an array: by Gibbs sampling, tempering or annealing."""
    from .. import pictures
    from ..machines.files import device_named
    from ..runs import samples as sampling
    from ..runs.run import Run

    screen = Screen(as_json)
    opened = Run(run, file)
    target = sampling.target(out, opened, "samples.png")
    shape = opened.info["data"]["shape"]
    machine = opened.machine(update, replica).to(device_named(device))
    machine.requires_grad_(False)
    chosen = sampling.sampler_named(sampler, opened, machine, start, update, replica, seed)
    with screen.watching("sampling", limit=limit):
        spins, steps, told = sampling.samples(
            machine, chosen, count, sweeps, beta, seed, screen.track
        )
    if target.suffix == ".npy":
        sampling.write_array(target, spins)
    else:
        pictures.save(pictures.image_figure(spins, (shape[0], shape[1])), target)
    screen.result(
        {
            "run": str(run),
            "samples": count,
            "sampler": sampler,
            "sweeps": steps,
            "out": str(target),
            **({"tempering": told} if told else {}),
        }
    )
    where = {"random": "random spins", "data": "training images", "patterns": "the patterns"}[start]
    how = f"{steps} sweeps from {where}" if sampler == "gibbs" else f"{sampler}, {steps} steps"
    screen.say(f"{count} samples, {how}{'; ' if told else ''}{told} → {target}")


@app.command()
def reconstruct(
    run: RunFolder,
    count: Annotated[int, typer.Option(help="How many images.", min=1)] = 16,
    part: Annotated[str, typer.Option("--of", help="Which images: test, train or valid.")] = "test",
    mask: Annotated[
        Path | None,
        typer.Option(
            help="A .npy of booleans, true where a pixel is known (default: the data set's)."
        ),
    ] = None,
    passes: Annotated[int, typer.Option(help="Gibbs passes.", min=1)] = 1,
    clamp: Annotated[
        bool,
        typer.Option("--clamp/--free", help="Hold the known pixels, or only start from them."),
    ] = False,
    replica: Replica = 0,
    update: Update = None,
    file: DataFile = None,
    limit: Limit = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="A new .png, or .npy of ±1 (default: RUN/figures/reconstructions.png)."),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Fill in the unknown pixels of images: the paper's task is one pass with nothing held."""
    from ..runs import samples as sampling
    from ..runs.run import Run

    screen = Screen(as_json)
    opened = Run(run, file)
    target = sampling.target(out, opened, "reconstructions.png")
    with screen.watching("reconstruction", limit=limit):
        images, wrong = sampling.reconstructions(
            opened, part, mask, count, passes, clamp, replica, update, seed, device, target
        )
    screen.result({"run": str(run), "images": images, **wrong, "out": str(target)})
    told = f"{wrong['wrong_unknown']:.4f} of the unknown pixels are wrong"
    if clamp:
        told += ", the known ones were held"
    else:
        told += f"; nothing was held, Hamming distance over all pixels {wrong['hamming']:.4f}"
    screen.say(f"{told} → {target}")


@app.command()
def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes and few repeats: seconds.")
    ] = False,
    precision: Annotated[
        str,
        typer.Option(help="How products are rounded: float32, or on a GPU tf32 or bf16."),
    ] = "float32",
    out: Annotated[
        Path | None, typer.Option(help="Folder for bench.json, bench.png and bench.pdf.")
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """How fast this machine and this library are, beside what else is installed.

    Updates against those of other packages, cost against size, and the share of the machine's best rate.
    Other packages come with [bold]pip install 'rapidbm\\[bench]'[/].
    """
    from ..bench.run import bench as run_bench

    run_bench(device, precision, quick, seed, out, Screen(as_json))


@app.command()
def datasets(as_json: Json = False) -> None:
    """What can be trained on, and where it comes from."""
    from ..data.catalogue import DATASETS, FILE_ENDINGS
    from ..data.digits import data_folder

    screen = Screen(as_json)
    for name, (_, options, text) in DATASETS.items():
        screen.say(f"{name:<13} {text}" + (f" (options: {', '.join(options)})" if options else ""))
        screen.result({"name": name, "description": text, "options": list(options)})
    screen.say(
        f"{'a file':<13} {', '.join(FILE_ENDINGS)} of {{0,1}}, booleans or ±1, a row per sample; .npz "
        "and .h5 may hold train, test and valid"
    )
    screen.say(f"RAPIDBM_DATA is {data_folder() or 'not set: MNIST is downloaded once and cached'}")


def main() -> None:
    """Runs the command; bad input ends it with its message and exit code 2."""
    from ..errors import InputError

    if "OMP_WAIT_POLICY" not in os.environ:
        # Read when torch is loaded: how long its threads spin before they sleep
        # (docs/decisions/threads.md).
        os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    try:
        app(prog_name="rapidbm")
    except InputError as error:
        _fail(str(error), EXIT_BAD_INPUT)
    except BrokenPipeError:  # the reader of our output has left
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        _fail("standard output was closed; what was finished is saved", 1)
    except OSError as error:
        _fail(f"{error}; check the path, its permissions and the space on the disk", EXIT_BAD_INPUT)
    except (MemoryError, RuntimeError) as error:
        text = str(error).splitlines()[0] if str(error) else "out of memory"
        if not isinstance(error, MemoryError) and "memory" not in text:
            raise
        _fail(f"{text}; take a smaller machine, fewer replicas or smaller batches", EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        _fail("stopped", 130)


def _fail(text: str, code: int) -> NoReturn:
    Screen().fail(text)
    sys.exit(code)
