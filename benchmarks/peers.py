"""One update of persistent chains on a CPU, beside what else trains restricted machines."""

import torch

from rapidbm.bench.jobs import Size
from rapidbm.bench.peers import axons, peers


def run() -> dict[str, float]:
    device = torch.device("cpu")
    rows = peers(Size(784, 500), 10, 7, device, 0)
    rows += axons((Size(784, 500, 40), Size(784, 3000, 190)), 10, 7, device, 0)
    there = [row for row in rows if "seconds" in row]
    found = {f"ms per update, {r['name']}, {r['method']}": 1e3 * r["seconds"] for r in there}
    ratios = {f"{r['name']} over {r['over']}": r["ratio"] for r in there if r["name"] != r["over"]}
    return found | ratios
