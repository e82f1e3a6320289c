"""Ground states: exact, searched for, and bounded from below."""
