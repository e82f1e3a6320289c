"""Measurements of rapidbm: its speed beside other packages, and whether its numbers and readers hold.

    rapidbm bench                     how fast this machine and this library are (`speed`)
    python -m rapidbm_bench           every benchmark, by name; in a checkout also `python -m benchmarks`

In Python `rapidbm_bench.benchmark()` measures what `rapidbm bench` does. Nothing in `rapidbm` imports it.
"""

from .speed.run import Benchmark, benchmark

__all__ = ["Benchmark", "benchmark"]
