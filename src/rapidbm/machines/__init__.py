"""What a Boltzmann machine is: units, layers, couplings, energies, exact sums, and machines in files."""
