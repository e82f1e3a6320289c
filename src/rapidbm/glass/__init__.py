"""Is it a spin glass? What a physicist measures of a trained machine, and how good its samples are.

May know machines, sampling, ground states and negative phases; knows nothing of run folders or commands.

    overlaps       between chains and in time: `overlap_distribution`, `freezing`, `ultrametricity`
    minima, growth how many minima there are, and how their number grows: `minima`, `stability`, `growth`
    basins, maps   how far a pattern reaches, and states as points: `basins`, `overlap_plane`
    spectra        couplings against random ones: `spectrum`, `pattern_overlaps`
    phases         load and temperature beside the phases of random machines: `phase_point`, `boundaries`
    verdict        paramagnet, ordered or glass, in words: `glassiness`
    accessibility  how near the ground state chains come: `gibbs_accessibility`, `method_accessibility`
    neighbours     are samples and data each other's equals? `adversarial_accuracy`, `nearest`
    sample_moments moments and projections of samples beside data's: `moments`, `projections`
    relaxation     how many sweeps that takes: `relaxation`
    pictures       all of it drawn, one panel each

Others take besides

    minima: RETRIEVED
    overlaps: energies_per_unit
    phases: Boundaries, capacity
    pictures: landscape_figure, show_moments, show_nearest, show_phases, show_projections,
        show_relaxation
    verdict: BROKEN, FROZEN, Glassiness, MEET, and the module, whose words `studio` puts into sentences
"""
