"""The estimators: restricted machines as scikit-learn has its models.

    rbm             RapidRBM, a transformer and a density
    start           a machine before its training
    rows            what values mean, in which order rows come and how often
    trials          settings that suit the rows, by `runs.auto_settings`
    tables          RapidImputer and RapidClassifier, for tables of any kind with gaps
    table_training  their training
    containers      arrays and frames as Arrow tables, and back

The only room with scikit-learn's interface. It knows machines, sampling, training, likelihood, inference
and runs; no room but the command may know it.
"""
