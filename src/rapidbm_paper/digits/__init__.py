"""MNIST: figs. 6 and 7, and the probe of the hidden spins.

`mnist` trains; `likelihood` (fig. 6), `patterns` (fig. 7) and `probe` draw and judge. Knows what `bars`
knows. Others use `paper.registry`.
"""
