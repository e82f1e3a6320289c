"""This machine, this library, and what else is installed, timed in one run.

`jobs` builds what is timed, `clock` and `peak` measure it, `peers`, `groups`, `sizes` and `roofline`
compare, `run` makes all of it and answers with plain numbers, which `report` tells and draws. Knows
trainings and the pens of `pictures`; not the command, which uses `run` and `report`.
"""
