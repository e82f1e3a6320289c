"""Fused kernels in Triton; `rapidbm.fast` decides when they run."""
