"""Trainings that last: what was chosen, the folder that keeps it, and what can be said of it afterwards.

A `Recipe` holds every choice, `presets` names some, `choosing` finds some by trials, a `Run` is the only
engine that trains with looks, checkpoints and resume; `evaluation`, `samples` and `diagnosis` look at
what came out, `metrics` and `probes` measure it. `pretrained` has trained machines that come with the
package.

Knows everything below it, from machines to glass; neither the paper's figures nor the command.
Other rooms use `Recipe`, `PRESETS`, `Run`, the metrics, `diagnose`, `evaluation` and `probes`.

Others take besides

    choosing: chosen, usual_decay, usual_hidden
    folder: Trained, check_free
    evaluation: curve_figure, likelihood_curve, middle
    metrics: METRICS, corrupt, hamming_distance, mean_free_energy, reconstruct
    presets: preset_for
    pretrained.packed: trained
    probes: fit, hidden_samples
    recipe: PARTS, SECTIONS
    run: Step
    spacing: OPEN, on_log_grid, seconds_of
    samples: STARTS, reconstructions, sampler_named, target, write_array
"""
