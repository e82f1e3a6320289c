"""What a Boltzmann machine is: units, layers, couplings, energies, sums over states, and files of them.

    units/         what one kind of unit is, with all its formulas, a file for each kind
    spins          what counts as spins: `to_spins`, `as_spins`, `to_bits`; as text: `pack`, `unpack`
    layers         which layers there are and which are coupled: `Layers`
    couplings      what all couplings can do: `Couplings`, `Patterned`
    dense          every coupling is a parameter: `Dense`
    patterns       Regularized Axons: `Patterns`
    trusted        energies, fields and means of tensors that were checked where they came in
    machine        couplings and biases: `Machine`, `stack`, `scaled`
    constructors   from sizes: `rbm`, `dbm`, `bm`
    gauge          parameters that change no probability, kept at 0: `fix_gauge`
    cells          rows and which of their cells are observed: `Cells`, `cells_of`
    enumeration    sums over states that need no sampling
    ensembles      weighted states and the gradient over them: `Ensemble`, `WeightedSpins`
    weights        as others write them: `Weights`, `bqm_layers`
    files          `save_machine`, `load_machine`, and tensors with a header

It knows accel and the modules below the rooms; no data set, no sampler, no training.

Also imported by other rooms:

    ensembles: AllStates, GivenVisible, given_visible
    cells: Cells, Place, cells_of, columns_of, known_and_filled, place_of, places, precise
    constructors: check_deep_start
    enumeration: LARGEST, check_states, clamped_states, enumerate_spins, free_layers,
        given_energy, log_prob_unnormalised, log_weight, most_states, states_of
    files: check_sizes, load_tensors, save_tensors
    gauge: fix_gauge, has_gauge, zero_sum
    machine: weakened
    spins: column_sums, weights_of
    dense: FEWER
    units: Beta, SPIN, Unit, Spin, Binary, Categorical, Gaussian
"""
