"""`rapidbm datasets`."""

from __future__ import annotations

from ..data.catalogue import DATASETS, FILE_ENDINGS
from ..data.digits import data_folder
from .terminal.console import Screen
from .terminal.options import Json


def datasets(as_json: Json = False) -> None:
    """What can be trained on, and where it comes from."""
    screen = Screen(as_json)
    with screen.gentle_warnings():
        known = DATASETS.sound()
    for name, (_, options, text) in known.items():
        package = DATASETS.package(name)
        told = f"{text}; from {package}" if package else text
        screen.say(f"{name:<13} {told}" + (f" (options: {', '.join(options)})" if options else ""))
        screen.result({"name": name, "description": told, "options": list(options)})
    screen.say(
        f"{'a file':<13} {', '.join(FILE_ENDINGS)} of {{0,1}}, booleans or ±1, a row per sample; .npz "
        "and .h5 may hold train, test and valid"
    )
    screen.say(f"RAPIDBM_DATA is {data_folder() or 'not set: MNIST is downloaded once and cached'}")
