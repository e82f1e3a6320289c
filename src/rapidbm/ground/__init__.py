"""The lowest energy: exact where that can be had, else the best of a search above a proven bound.

May know machines, sampling and the samplers of other packages; knows nothing of training or files.

    ground_state   what others call: `ground_state`, `GroundState`
    zonotope       the exact search for patterns, polynomial in the number of units
    lower_bound    below which no configuration lies

Also imported by other packages:

    lower_bound: whole_matrix
"""
