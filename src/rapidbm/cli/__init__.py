"""The command `rapidbm`."""

from .main import main as main
