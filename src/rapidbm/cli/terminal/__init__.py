"""What commands share: `console`, what a person sees, and `options`, those of several commands and those
that follow from the fields of settings."""
