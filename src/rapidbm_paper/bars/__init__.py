"""4×4 bars, and bars and stripes: figs. 2 to 5 and C.1, and what the paper leaves open about them.

`bars4` trains for figs. 2 to 4 (`accessibility`, `reconstruction`, `singular_values`); `variants` trains
RAPID on both data sets for `projections` and `algorithm`. Knows `..lab`, `..observables`, `..records`,
`..claims`, `..drawing`; `digits` and `untrained` may not be known. Others use `paper.registry`.
"""
