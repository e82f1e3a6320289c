"""Runs as others see them: `tensorboard`, the events that TensorBoard shows; `listing`, the runs below a
folder."""
