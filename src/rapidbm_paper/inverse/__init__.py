"""Couplings behind data: machines whose couplings are known give rows, and what is learned from these is
compared with them.

truths      the machines that give the rows
others      pseudo-likelihood, interaction screening and mean field, which sample no machine
couplings   errors against the number of rows, β and K, of Regularized Axons, PID and dense machines
intervals   whether errors of couplings are right, and how many of the pairs that are called coupled are
"""
