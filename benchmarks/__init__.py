"""Speed as ratios within one run, and whether numbers and readers hold: `python -m benchmarks`."""
