"""The check that a test leaves the process as it was sees each thing that one can leave behind."""

import os
import signal
import sys
import threading
from contextlib import contextmanager

import pytest
import torch

from conftest import changes, process_state


@contextmanager
def changed(how, back):
    how()
    try:
        yield
    finally:
        back()


def thread():
    go_on = threading.Event()
    one = threading.Thread(target=go_on.wait, name="forgotten")
    return changed(one.start, lambda: (go_on.set(), one.join()))


def handler():
    old = signal.getsignal(signal.SIGTERM)
    return changed(
        lambda: signal.signal(signal.SIGTERM, lambda *_: None), lambda: signal.signal(signal.SIGTERM, old)
    )


def setting(name, get, put, value):
    old = get()
    return name, lambda: changed(lambda: put(value), lambda: put(old))


LEFT = dict(
    [
        ("thread forgotten", thread),
        ("handler of SIGTERM", handler),
        (
            "variable FORGOTTEN",
            lambda: changed(
                lambda: os.environ.update(FORGOTTEN="1"), lambda: os.environ.pop("FORGOTTEN")
            ),
        ),
        ("sys.path", lambda: changed(lambda: sys.path.append("forgotten"), sys.path.pop)),
        setting("working directory", os.getcwd, os.chdir, "/"),
        setting("torch threads", torch.get_num_threads, torch.set_num_threads, 2),
        setting("torch default type", torch.get_default_dtype, torch.set_default_dtype, torch.float64),
        setting("torch gradients", torch.is_grad_enabled, torch._C._set_grad_enabled, False),
        setting(
            "torch determinism",
            torch.are_deterministic_algorithms_enabled,
            torch._C._set_deterministic_algorithms,
            True,
        ),
        setting(
            "torch matmul precision",
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
            "high",
        ),
        (
            "torch global random state",
            lambda: changed(lambda: torch.rand(1), lambda: None),  # set back below
        ),
    ]
)


@pytest.mark.parametrize("name", LEFT)
def test_what_a_test_leaves_behind_is_named(name):
    state = torch.get_rng_state()
    before = process_state()
    with LEFT[name]():
        assert changes(before, process_state()) == [name]
    torch.set_rng_state(state)
    assert not changes(before, process_state())
