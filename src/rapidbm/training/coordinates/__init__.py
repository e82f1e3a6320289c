"""Coordinates of the same machine that a training moves in: units less their means (`centring`), patterns
measured in the strengths of their layers (`strengths`), hidden ones that move more slowly (`pace`)."""
