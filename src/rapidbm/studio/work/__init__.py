"""What the worker processes of the studio do; everything that needs torch.

page_words  what the page reads: errors, names of runs
pipe        the worker's end of its socket
arrays      spins, couplings and curves as bytes
machines    the machines that can be chosen: runs, the package's machines, random specimens
training    a training that the page controls; `steered` is its run
dreaming    the Gibbs chains of each page; `ladder` is parallel tempering
queries     quick answers: which runs and data there are, what a recipe comes to; `file_columns` says what
            the columns of a file are, `recipe_words` a recipe as a command and as a program,
            `labels` what a run is called and what is noted of it
tables      answers about a machine of a table; `table_columns` are its columns as bars
analyses    slow answers, one card of the Look view each; `landscape` is the map of minima,
            `plain` a machine in a sentence
"""
