"""What the paper shows on MNIST."""
