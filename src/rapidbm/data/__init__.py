"""Data as spins: sets by name, from files and from arrays, their splits and masks.

Knows spins and the disk; no machine. Other rooms use `load`, `DATASETS` and `is_file` of the catalogue,
`Dataset` and `Split`, `from_arrays`. A new set is a function that answers with a `Dataset`, and a line in
`catalogue.DATASETS`; a new kind of file is a reader, and a line in `files.READERS`.

Others take besides

    catalogue: FILE_ENDINGS, entry_of, settings_for
    digits: data_folder, mnist_is_here
    files: hdf5_arrays, numpy_arrays
    splits: check_share, held_out, top_half
    tables: write_table
"""
