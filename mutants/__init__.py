"""Mutations of the core, and which of them the tests do not notice: `python -m mutants`."""
