"""The reproduction of arXiv:1910.01592: studies measure records, items draw them, claims judge them.

    lab, observables     where a study measures, its trainings (through `runs.run`), what it sees of them
    records, claims      numbers as files; sentences of the paper and what the records say of them
    drawing, page        figures, and the page with all of it
    registry             which module has which study and item
    reproduction         the folder: measured, drawn and judged piece by piece
    untrained/ bars/ digits/    the studies, items and claims themselves

May know every room but `bench` and `cli`. Others use the names below, `reproduction.Reproduction`, the
verdicts of `claims`, and the pens of `drawing`.

Others take besides

    the room: ITEMS
    claims: FAILS, HOLDS, MISSED, OPEN, UNDECIDED, Verdict
    drawing: PAGE, PENS, label, panels, print_style
    lab: SCALE_NAMES
    reproduction: Event, Interrupted, item_names
    untrained.costs: exponent
"""

from .registry import ITEMS, STUDIES, claims, item, parts, settings

__all__ = ["ITEMS", "STUDIES", "claims", "item", "parts", "settings"]
