"""What a hundred replicas of the paper's 4×4 bars training cost, against one."""

import torch

from rapidbm.bench.peers import many


def run() -> dict[str, float]:
    one, hundred = many((1, 100), 15, torch.device("cpu"))
    return {
        "ms per update, 1 replica": 1e3 * one["seconds"],
        "ms per update, 100 replicas": 1e3 * hundred["seconds"],
        "100 replicas over 1": hundred["ratio"],
    }
