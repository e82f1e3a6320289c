"""Sampling: Gibbs sweeps, mean field, quenches, annealing, tempering, and whether chains have mixed."""
