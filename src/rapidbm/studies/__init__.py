"""Grids of settings, or settings drawn from ranges, trained, tabled and drawn: `rapidbm sweep`.

    study        what is asked for: a file, or a `Study`; settings fixed and varied, how many of each
    planning     which trainings run side by side, in `Batch`es that one file lists
    batches      the training of one of them, in a run folder of its own
    search       rows drawn from ranges, in place of a grid
    sweep        all of it, in a folder, by one process
    on_ray       the same by several, on Ray
    results      the table, and the figure, from what the run folders say

Knows runs and below, and the pens of `pictures`; neither `bench` nor the command. A plan knows
nothing of how or where its batches are trained.

Others take

    study: Study, written
    planning: Batch
    on_ray: check_installed
    sweep: Sweep
"""
