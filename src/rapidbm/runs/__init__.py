"""Trainings that last: what was chosen, the folder that keeps it, and what can be said of it afterwards.

A `Recipe` holds every choice, `presets` names some, `auto_settings` finds some by trials, a `Run` is the
only engine that trains with evaluations, checkpoints and resume, and goes back if it is lost (`guard`);
`evaluation`, `samples` and `diagnosis` look at what came out, `metrics` measure it,
`report` puts it on a page. `pretrained` has trained machines that come with the package; `tensorboard`
and `listing` show runs to others.

Knows everything below it, from machines to glass; neither the paper's figures nor the command.
Other rooms use `Recipe`, `PRESETS`, `Run`, the metrics, `diagnose` and `evaluation`.

Others take besides

    auto_settings: find_settings, usual_decay, usual_hidden
    baseline: Baseline, independent_columns
    diagnosis: gibbs_series
    folder: ASIDE, PRETRAINED, Record, RunFolder, check_free
    filling: filled_by
    evaluation: LIKELIHOODS, WORTH, assist, curve_figure, likelihood_curve, measured_parts, middle
    listing: KEYS, LOW, RunSummary, Runs, machine_words, with_spread
    metrics: METRICS, WATCHED, corrupt, hamming_distance, mean_free_energy, measured, reconstruct
    monitor: left_out
    presets: DEEP, DEEP_START, preset_for, two_layers
    pretrained.packed: Pretrained, known, open_trained
    choices: one_or_each
    recipe: IN_A_FILE, ONE_OR_EACH, PARTS, PER_REPLICA, SECTIONS
    report.html: SVG, duration, embedded, render
    report.page: LIMIT, is_run, write_report
    report.words: commands, recipe_in_words
    run: Step, suited
    samples: ARRAYS, PICTURES, STARTS, TABLES, check_new, numbered, reconstructions, sampler_named,
        target, write_array, write_rows
    single: SingleMachine
    tables: Asked, HOW, LOG_P, imputed, predicted, predicted_labels, sampled_given, scored
    tensorboard: TensorBoard, check_installed
    timing: OPEN, PROLONG, on_log_grid, seconds_of
    trained: Trained
"""
