"""Spin glass or not: overlaps, minima, growth, spectra, phases, sample quality, the verdict."""
