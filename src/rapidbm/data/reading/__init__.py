"""Files that C libraries read, in a process of their own.

    parent    starts the process, asks it for arrays, and believes nothing that it says
    child     the program of that process: limits, and the conversation
    hdf5, zarr_store, parquet    what the child does with each kind of file

A damaged file can make such a library crash, hang or ask for all memory; what it breaks is the child.
The child's modules import nothing of rapidbm.
"""
