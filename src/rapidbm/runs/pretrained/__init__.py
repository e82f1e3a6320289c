"""Trained machines that come with the package, under names: `pretrained:mnist`.

`packed` writes and reads them. A file NAME.safetensors in this folder is the machine NAME.
"""
