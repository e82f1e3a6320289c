"""How much memory loading takes, as a multiple of the data."""

import subprocess
import sys

import pytest

# Each measurement in a child of its own: memory that was freed before would hide a peak.
PROGRAM = """
import os, resource, sys
import numpy as np
import torch
import rapidbm as rb

torch.set_num_threads(1)  # forks of a process with more of them may wait for ever
rb.from_arrays(np.ones((2**12, 2**8)))  # what is imported on the way is no part of it

def peak(call):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
        open("/proc/self/clear_refs", "w").write("5")  # the high-water mark starts anew
        call()
        lines = dict(line.split(":") for line in open("/proc/self/status"))
        os.write(write, str(int(lines["VmHWM"].split()[0]) * 1024 - before).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    return int(os.read(read, 100))

bits = np.tile(np.arange(8) % 3 == 0, (2**16, 160))  # 84 MB
for kind in (np.int8, bool, np.int64):
    data = bits[: len(bits) // np.dtype(kind).itemsize].astype(kind)
    path = sys.argv[1] + "/data"
    np.save(path + ".npy", data)
    np.savez(path + ".npz", samples=data)
    for name, given, call in (
        ("from_arrays", 1, lambda: rb.from_arrays(data)),
        ("npy", 0, lambda: rb.load(path + ".npy")),
        ("npz", 0, lambda: rb.load(path + ".npz")),
    ):
        print(name, np.dtype(kind).name, given + peak(call) / data.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_loading_takes_at_most_three_times_the_data(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = [line.split() for line in done.stdout.splitlines()]
    assert len(found) == 9
    for what, kind, times in found:  # of what was given one is the caller's own
        most = 3.1 if what == "from_arrays" else 2.5
        assert 0.5 < float(times) <= most, (what, kind, times)
