"""A training in parts: `shards` of every update, and trainers `abreast` that each have a part of the
machine. What travels between processes is in `accel/ranks.py`."""
