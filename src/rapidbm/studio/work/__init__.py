"""What the worker processes of the studio do; everything that needs torch.

pipe        what a worker is told and tells
arrays      spins, couplings and curves as bytes
machines    what can be dreamt of and looked at: runs, the package's machines, specimens
training    a run that is steered from a page; `steered` is the run
dreaming    grids of Gibbs chains; `ladder` has the walkers of tempering
desk        quick answers: which runs and data there are, what a recipe comes to
looking     slow answers, one picture of a machine each; `landscape` has the map of its minima
"""
