"""`python -m benchmarks` in a checkout: the same as `python -m rapidbm_bench`."""

from rapidbm_bench.__main__ import main

if __name__ == "__main__":  # workers of `coverage` import this file
    main()
