"""Training: the data's moments against the model's.

    train        the generator that people call
    trainer      the state between two updates, and the walk of one update
    stepper      from a gradient to new parameters
    replicas     which replicas live, why the others diverged, the running average
    loop         the loop around updates, and what its caller is told
    sharded/     the same in parts, which several processes share
    coordinates/ centred units, patterns in the strengths of their layers, the pace of hidden ones
    batches      which rows an update takes
    gaps         missing cells of a batch, drawn at every update
    labels       p(label | rest), exact: a term of the objective, and labels that are missing
    positive     the average over the data
    negative     the average over the model: one class per estimator
    annealer     the same from samplers of dimod: `Annealer`
    projections  what keeps the patterns in place
    optimisers   rates that may differ from replica to replica
    schedules    how they change along a training
    check_inputs what a training refuses
    constants    columns that never change are biases and nothing else
    load         how many patterns are too many for PID

It knows machines, sampling, likelihood (for the proof of a bad fit) and accel's executors; no folder, no
recipe, no command.

Others take besides

    batches: InMemory
    coordinates.pace: check_pace
    negative: ContrastiveDivergence, HasConfigurations, NEGATIVE, NegativePhase, PatternInduced,
        Persistent, SplitPhases, Splits, Tempered, nearest_states
    optimisers: Adam, CLOCKS, Optimizer, Rates, SGD, TorchOptimizer, Updater, adam, sgd, torch_optimizers
    positive: Enumerated, MeanField, POSITIVE, PositivePhase, positive_for
    projections: Clip, NoProjection, PROJECTIONS, Projection, Sign
    schedules: FALLS, Schedule
    sharded.abreast: SHARDED, check_units, divided
    sharded.shards: apart
    loop: Progress, Training
    replicas: Divergence
    trainer: BATCH_MEANS, Trainer
"""
