"""Trainings that last: what was chosen, the folder that keeps it, and what can be said of it afterwards.

A `Recipe` holds every choice, `presets` names some, `choosing` finds some by trials, a `Run` is the only
engine that trains with looks, checkpoints and resume, and goes back if it is lost (`guarding`);
`evaluation`, `samples` and `diagnosis` look at what came out, `metrics` and `probes` measure it, `report`
puts it on a page. `pretrained` has trained machines that come with the package, `views` shows runs to
others: TensorBoard, a list of them.

Knows everything below it, from machines to glass; neither the paper's figures nor the command.
Other rooms use `Recipe`, `PRESETS`, `Run`, the metrics, `diagnose`, `evaluation` and `probes`.

Others take besides

    choosing: chosen, usual_decay, usual_hidden
    diagnosis: gibbs_series
    folder: PRETRAINED, Record, RunFolder, check_free
    looking.single: Single
    looking.trained: Trained
    evaluation: LIKELIHOODS, WORTH, assist, curve_figure, likelihood_curve, measured_parts, middle
    metrics: METRICS, WATCHED, corrupt, hamming_distance, mean_free_energy, measured, reconstruct
    presets: DEEP, DEEP_START, preset_for, two_layers
    pretrained.packed: Pretrained, known, trained
    probes: fit, hidden_samples
    choices: one_or_each
    recipe: ONE_OR_EACH, PARTS, PER_REPLICA, SECTIONS
    report.html: SVG, duration, embedded, render
    report.page: LIMIT, is_run, write_report
    report.words: commands, recipe_in_words
    run: Step
    spacing: OPEN, PROLONG, on_log_grid, seconds_of
    start: Start
    samples: STARTS, reconstructions, sampler_named, target, write_array
    views.listing: KEYS, LOW, Listed, Runs, machine_words, with_spread
    views.tensorboard: TensorBoard, check_installed
    watching: left_out
"""
