"""Data as spins: sets by name, from files and from arrays, their splits and masks.

    catalogue   sets by name, and files
    splits      a data set and its parts, in memory
    bars, digits    sets that are made on the spot, come with scikit-learn or are downloaded
    mixed       tables of words, numbers and gaps: `from_table`
    files       from arrays and files; what stays on disk
    tables      tables of text
    arrow       tables of any kind: text, Parquet, Feather, frames; as Arrow has them
    table_schema    what the columns of such a table are, its rows as numbers for a machine and back;
                rules in `recognition`, kinds in `columns`, values in `cells`, maps in `monotone`
    alignments  sequences as codes; `identity` weighs and divides them by what is near
    weights     how much each row counts, from a file or a column
    sequences   data sets of them, a categorical unit for each site
    text_files  content of text files within bounds
    sources     arrays of files, whole or some rows at a time; `reading/` those that C libraries read
    packed      eight spins to a byte, in a file
    converted   files as packed ones, and the cache of them
    stored      parts whose rows stay on disk
    shuffle     the order in which a training takes those

Knows kinds of units, layers and the disk; no machine. Other rooms use `load`, `DATASETS` and `is_file` of
the catalogue, `Dataset` and `Split`, `from_arrays`. A new set is a function that answers with a
`Dataset`, and a line in `catalogue.DATASETS`; a new kind of file is a `Source` in `sources`, or what the
child does with it, a module in `reading/` and a line in `sources.LIBRARIES`.

Others take besides

    alignments: ALPHABETS, FASTA, codes_of, first_sequence, read_alignment
    arrow: read_table
    catalogue: FILE_ENDINGS, entry_of, settings_for
    cells: numbers_of, shown
    labelled: with_labels
    columns: Binned, Column, Constant, Empty, Normal, Numbers, Skipped, Words
    converted: pack
    digits: data_folder, mnist_is_here
    files: check_unpacked
    mixed: from_table, layers_of, overrides_of, table_of
    packed: ENDING, Packed, bytes_of
    recognition: OVERRIDES, Reals, recognise_column
    sequences: as_rows, check_alphabet, is_alignment, write_sequences
    shuffle: Groups, Key
    sources: hdf5_arrays, numpy_arrays
    splits: check_share, held_out, top_half
    stored: Stored
    table_schema: TableSchema, state_names
    tables: ENDINGS, has_names, no_formula, write_table
    text_files: as_utf8, content_of
    weights: is_weights_file
"""
