"""`rapidbm datasets`."""

from __future__ import annotations

from ..data import catalogue
from ..data.digits import data_folder
from .terminal.console import Screen
from .terminal.options import Json


def datasets(as_json: Json = False) -> None:
    """What can be trained on, and where it comes from."""
    screen = Screen(as_json)
    with screen.gentle_warnings():
        known = catalogue.datasets()
    for name, text, options in known.rows:
        screen.say(f"{name:<13} {text}" + (f" (options: {options})" if options else ""))
        listed = options.split(", ") if options else []
        screen.result({"name": name, "description": text, "options": listed})
    for note in known.notes:
        screen.say(note)
    screen.say(f"RAPIDBM_DATA is {data_folder() or 'not set: MNIST is downloaded once and cached'}")
