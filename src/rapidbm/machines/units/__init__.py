"""Units: what one kind of unit is, a file for each kind.

    unit          what every kind answers: `Unit`, `Beta`
    spin          ±1: `Spin`, `SPIN`
    binary        0 and 1: `Binary`
    categorical   one of q states: `Categorical`
    gaussian      a real number with a precision of its own: `Gaussian`
    levels        any few numbers, such as −1, 0, 1: `Levels`, the base of such a kind
    kinds         kinds by their words in files: `KINDS`, `kind_of`, `described`

A machine asks its layers for their units (`machine.unit(layer)`), and these are the only places with the
formulas of a unit. A new kind is a class with the methods of `Unit`; docs/extending.md shows one.
"""
