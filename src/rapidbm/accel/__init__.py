"""Accelerators: fused kernels, CUDA graphs, precision, memory. Tensors in, tensors out."""
