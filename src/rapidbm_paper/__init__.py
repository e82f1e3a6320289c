"""The reproduction of arXiv:1910.01592: studies measure records, items draw them, claims judge them.

    lab, observables     where a study measures, its trainings (through `runs.run`), what it sees of them
    records, claims      numbers as files; sentences of the paper and what the records say of them
    drawing, page        figures, and the page with all of it
    registry             which module has which study and item
    reproduction         the folder: measured, drawn and judged piece by piece
    command              `rapidbm reproduce`
    linear_probe         logistic regression on features, on their own device
    untrained/ bars/ digits/    the studies, items and claims themselves

A package of its own beside `rapidbm`, which never imports it. `rapidbm reproduce` runs it.
"""

from .registry import ITEMS, STUDIES, claims, item, parts, settings

__all__ = ["ITEMS", "STUDIES", "claims", "item", "parts", "settings"]
