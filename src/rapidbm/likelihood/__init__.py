"""log Z and log p: by enumeration, counting, quadrature, annealing, bridging, hidden sums."""
