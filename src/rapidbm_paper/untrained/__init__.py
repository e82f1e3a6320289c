"""Machines that nobody has trained: fig. 1, costs, Hopfield couplings, energy landscapes.

Knows what `bars` knows. Others use `paper.registry`, and `bench` the fit of exponents in `costs`.
"""
