"""Questions to a machine about rows of which some cells are known.

    log p(x_O) = log Σ_{x_M, h} exp(−E(x_O, x_M, h)) − log Z          O observed, M missing

May know machines, sampling and likelihood; knows nothing of training, files or tables.

    few_terms      sums over missing cells and hidden units that are exact: `HiddenStates`,
                   `MissingStates`
    annealed_rows  the same sums between the ends of an interval, a value for each row
    rows           log p of incomplete rows: `log_p`
    chains         clamped chains, every row its own, and whether they have mixed: `split_rhat`, `AGREED`
    missing        draws and means of what is missing: `draw_missing`, `in_turn`, `probabilities`
    labels         the probabilities of one unit given the others: `predict`
    restricted     units that may have some of their states only: `Chosen`, `Within`
    conditions     rows that meet conditions, and how probable these are: `sample_given`, `Condition`
    couplings      fields and pair couplings of the visible units alone: `effective_couplings`,
                   `EffectiveCouplings`
    bootstrap      their errors by resampled rows: `bootstrap_errors`, `bootstrap_weights`,
                   `BootstrapErrors`
    scan           what every change of one unit does to log p: `scan`
    coupling_errors   how well rows determine couplings: `coupling_errors`, `CouplingErrors`
    scores         log p of a row and its part by unit: `scores`
"""
