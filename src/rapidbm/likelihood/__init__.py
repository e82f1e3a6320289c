"""How probable data are: log Z and log p, exact or between the ends of an interval.

May know machines, data and sampling; knows nothing of training or files.

    log_z          what others call: `log_z`, `log_likelihood`
    exact          which exact sum takes the fewest terms: `can_be_exact`
    counting, quadrature      two of them beside enumeration
    moments        ⟨s_i⟩ and ⟨s_i s_j⟩ by the same sums: `exact_moments`
    thermodynamics     energy, heat capacity, entropy, … over β: `thermodynamics`
    reweighting    averages at any β from states recorded at several
    annealed       log Z from several bases, both ways: `annealed`
    hidden_sums    the sum over hidden units that are coupled to each other: `bounds_of` it
    bridging       log Z along a training: `log_z_along`
    row_means      means over rows that may count by weights
    following      log Z while a machine is trained: `Follower`, `mean_log_p`
    chow_liu       the best tree of pairs of columns, as a machine: `ChowLiuTree`
    independent    does a machine fit worse than independent columns? `fit`, `warn_of_fit`

Others take besides

    independent: Fit, UNITS, gain, log_columns
    row_means: RowMeans, mean_error
    following: LEAST, combined, work_of_rows
    log_z: HIDDEN, log_bound
    quadrature: MARGIN, SPACING
"""
