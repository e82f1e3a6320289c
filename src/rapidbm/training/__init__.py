"""Training: positive and negative phases, projections, optimisers, the trainer."""
