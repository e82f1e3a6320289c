"""The benchmark beside adabmDCA, with something else in its place."""

import gzip

import numpy as np
import pytest
import torch

import rapidbm as rb
from rapidbm.errors import InputError
from rapidbm_bench import alignments


@pytest.fixture
def family(tmp_path):
    letters, rng = np.array([*alignments_alphabet()]), np.random.default_rng(0)
    codes = rng.integers(0, 21, (300, 8))
    codes[:, 6] = (codes[:, 0] + 3) % 21
    with gzip.open(tmp_path / "F.fasta.gz", "wt") as file:
        file.writelines(f">{i}\n{''.join(row)}\n" for i, row in enumerate(letters[codes]))
    near = {(1, 7), (2, 8)}
    with gzip.open(tmp_path / "F.distances.gz", "wt") as file:
        for i in range(1, 9):
            for j in range(i + 1, 9):
                file.write(f"{i:e} {j:e} 1.0 {3.0 if (i, j) in near else 12.0}\n")
    return tmp_path / "F.fasta.gz"


def alignments_alphabet():
    return "-ACDEFGHIKLMNPQRSTVWY"


def test_distances_and_precision(family):
    apart = alignments.distances(family.with_name("F.distances.gz"))
    assert apart[0, 6] == 3.0
    assert apart[0, 5] == 12.0
    assert alignments.distances(family.with_name("none.gz")) == {}
    machine = rb.bm(8, units=rb.Categorical(21), biases=True, scale=0.001, seed=0).requires_grad_(False)
    machine.couplings.weights["0-0"].data[0, :21, 6 * 21 : 7 * 21] += 2 * torch.eye(21)
    # Of the 28 pairs 6 have more than 4 sites between, two of these are contacts.
    assert alignments.precision(machine, apart) == pytest.approx(2 / 6)
    apart = {pair: far for pair, far in apart.items() if pair != (1, 7)} | {(0, 6): 7.9}
    assert alignments.precision(machine, apart) == pytest.approx(1 / 5)


def test_both_sides_are_compared_and_judged(family, monkeypatch, capsys):
    asked = {}

    def of_weights(found):
        weights = np.ones(len(found.codes))
        return weights, {"times as fast": 4.0, "largest difference": 0.0, "M_eff": 1.0}

    def theirs(path, weights, target, limit, settings, folder):
        asked.update(settings, target=target)
        machine = rb.bm(8, units=rb.Categorical(21), biases=True, scale=0.001, seed=0)
        return machine, {"seconds": 1e9, "pearson": 0.1, "updates": 3}

    monkeypatch.setattr(alignments, "of_weights", of_weights)
    monkeypatch.setattr(alignments, "theirs", theirs)
    monkeypatch.setattr(alignments, "find_spec", lambda name: True)
    monkeypatch.setattr(alignments, "CHAINS", 200)
    monkeypatch.setattr("rapidbm.runs.correlations.SAMPLES", 1000)
    words = ["--family", str(family), "--target", "0.3", "--chains", "50", "--limit", "30"]
    rows = alignments.run(words)
    assert asked == {"n_chains": 50, "target": 0.3}
    assert rows["rapidbm"]["pearson"] >= 0.3
    assert rows["rapidbm"]["updates"] >= 16
    assert rows["rapidbm"]["of new samples"] > rows["adabmDCA"]["of new samples"]
    assert not alignments.failed(rows)
    slower = rows | {"adabmDCA": rows["adabmDCA"] | {"seconds": 0.0}}
    assert alignments.failed(slower)
    assert alignments.failed(rows | {"weights": rows["weights"] | {"largest difference": 1e-5}})
    assert alignments.failed(rows | {"rapidbm": rows["rapidbm"] | {"precision": -1.0}})
    alignments.show(rows)
    assert "precision" in capsys.readouterr().out


def test_what_is_missing_is_said(family, monkeypatch):
    with pytest.raises(InputError, match="--target"):
        alignments.run(["--target", "2"])
    with pytest.raises(InputError, match="no family"):
        alignments.run(["--family", "none.fasta"])
    monkeypatch.setattr(alignments, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="adabmDCA"):
        alignments.run(["--family", str(family)])
