"""The command `rapidbm`: one file per command, named like it.

`main` is the app, `terminal` what commands share: what a person sees, and options. A command's module is
imported when it is used, so that `rapidbm --help` does not wait for torch. Knows every room; no room
knows it.
"""

from .main import main as main
