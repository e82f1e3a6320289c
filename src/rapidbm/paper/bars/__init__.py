"""What the paper shows on bars and stripes."""
