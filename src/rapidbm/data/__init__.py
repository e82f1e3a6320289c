"""Data sets: by name, from files and arrays, their splits and masks."""
