"""Moving spins: everything that draws configurations of a machine, at any temperature.

May know machines and accel's kernels; knows nothing of training, likelihoods or files.

    gibbs          one sweep over all layers: `sweep`, `sweeps`, `run_sweeps`, `resample` of a layer
    mean_field     means in place of draws, and the bound that they prove: `mean_field`, `relax`
    quench         zero temperature: `descend` to a local minimum, `quench`
    bases, paths   where annealing starts, and its way from there: `path_to`, `Cooling`, `Crossing`
    annealing      weights along a path, there and back: `pilot`, `forward`, `backward`, `bennett`
    tempering      walkers that trade places along a path: `start_walkers`, `tempering_step`, `Walkers`
    samplers       all of these behind one protocol: `SAMPLERS`, `sample`, `record`
    chain_shards   chains in shards, which several processes share: `ChainShards`
    convergence    have the chains mixed? `mixing`
    temperature    β that spins look drawn at: `effective_beta`

Others take besides

    bases: PARTIAL_MODES, STARTS, UNIT_STATES, free_spins, mirrored, own_biases, paths_to
    mean_field: variational_bound
    paths: check_one_shape, free_at_0, repeat_chains
    samplers: Gibbs, ParallelTempering, Sampler
    tempering: eased_rungs, exchange_all, new_walkers, respaced
"""
