"""Are sampled rows of a table like real ones, and are they copies of training rows?

May know tables and their schemas; knows nothing of machines, runs or commands.

    fidelity       columns, pairs of columns and a classifier: `fidelity`, `Fidelity`
    detection      the classifier that tells real from sampled rows
    utility        models that are trained on sampled rows and tested on real ones: `utility`, `Utility`
    privacy        distances to the closest record, and a test for copies: `privacy`, `Privacy`
    comparable     tables side by side as arrays

Others take besides

    comparable: Comparable, comparable, with_gaps_of
    detection: detection_auc
    fidelity: column_similarities, pair_similarities
    utility: of_column
"""
