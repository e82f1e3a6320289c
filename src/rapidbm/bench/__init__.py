"""The command `bench`: this machine, this library, and what else is installed, timed in one run."""
