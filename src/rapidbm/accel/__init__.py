"""Accelerators: the one place that knows a GPU. Tensors and small frozen descriptions in, tensors out.

    devices      which there are, and what differs between them
    rounding     how operands of products are stored
    memory       what a call would take
    elementwise  what every unit does for itself
    operands     `BipartiteOperands`, what kernels read of two coupled layers, and how their work is cut
    fused        when kernels run instead of the plain path: sweeps, gradient, means, products
    moves        an optimiser's step, the check for divergence and the clipping in two launches
    executors    who runs what comes again and again: the host, a graph, or a recording
    recording    calls of torch on a CPU that are repeated without what led to them
    ranks        processes that work together, and what travels between them
    kernels/     the kernels themselves, in Triton

It knows `errors` and nothing else of this library. Other rooms use

    devices.by_device, copy_in, device_named, usable, prepare, wait, words, peak_bytes, lone_thread
    rounding.precision, current, PRECISIONS
    memory.check_room, limit_memory, memory_of, keep_freed_memory
    elementwise.sigmoid, tanh, signs, signs_ahead, skip_signs, uniform, bits_of, sum_of_sizes,
    product, moment, one_hot_columns, sums_of_rows
    operands.BipartiteOperands
    fused.runs, serves, sweeps, gradient, mean_field, products, joins, joined, long, ready
    moves.serves, step, Rule, Guard;  executors.executor_for, Executor, Plan, repeated;  recording.unseen
    ranks.Ranks, ThreadRanks, current_ranks, in_ranks, portion, portions;  ranks.restarted, restarts,
    restarts_left

All of them answer on a CPU, too.

Others take besides

    rounding: Precision
"""
