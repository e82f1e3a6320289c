"""This machine, this library, and what else is installed, timed in one run.

`jobs` builds what is timed, `clock` and `peak` measure it, `peers`, `sizes` and `roofline` are the three
comparisons, `run` makes all of them and answers with plain numbers, which `report` tells and draws. Knows
trainings and the paper's pens; not the command, which uses `run` and `report`.
"""
