"""Machines and samplers of other packages: scikit-learn's, `rbms`' files, dimod's samplers.

May know machines, data (for its reader of HDF5) and what is below; other packages are imported where they
are used. Nothing is unpickled.

    sklearn_models   a fitted `BernoulliRBM`: `from_sklearn`, `to_sklearn`
    rbms_files       HDF5 models and trajectories of `rbms`: `load_rbms`, `save_rbms`
    adabm_files      parameter files of adabmDCA: `load_adabm`, `save_adabm`
    dimod_samplers   spins from whatever has dimod's `sample`: `read_spins`, `sampler_of`

Others take besides

    adabm_files: ENDING, read_params, write_params
    dimod_samplers: check_sampler, takes
"""
