"""Fused kernels in Triton; `accel.fused` decides when they run."""
