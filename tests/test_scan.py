"""Scans of single changes, against sums over all states by hand."""

import itertools

import pytest
import torch

import rapidbm as rb
from kinds import machines, random_rows, randomised, terms_by_hand
from rapidbm.errors import InputError
from rapidbm.inference import scan as module


def log_p_by_hand(machine, rows, replica):
    """log Σ_h e^{−E} of columns (c, v)."""
    logs, _ = terms_by_hand(machine, replica, rows)
    return torch.logsumexp(logs, -1).detach()


LISTED = [x for x in machines() if not x.id.endswith("visible-gaussian")]


@pytest.mark.parametrize("machine", LISTED)
def test_a_change_is_the_log_odds_of_two_rows(machine):
    row = random_rows(machine, 1)[0].double()
    found = rb.scan(machine, row)
    layers, unit, seen = machine.layers, 0, 0
    assert found.shape[:2] == (machine.replicas, layers.visible_units)
    for layer in layers.visible:
        for where, one in layers.kinds[layer].one_by_one(layers.sizes[layer]):
            width = where.stop - where.start
            first = layers.slices[layer].start + where.start
            count = one.count(width) or 0
            assert bool(found[:, unit, count:].isnan().all())
            for state in range(count):
                changed = row.clone()
                changed[first : first + width] = one.states(width, torch.tensor([state]))[0]
                both = torch.stack([row, changed])
                for e in range(machine.replicas):
                    before, after = log_p_by_hand(machine, both, e)
                    assert float(found[e, unit, state]) == pytest.approx(float(after - before), abs=1e-9)
                seen += 1
            unit += 1
    assert seen


def test_a_scan_in_parts_and_at_another_temperature(monkeypatch):
    machine = randomised(rb.rbm(4, 3, units=rb.Categorical((2, 3, 2, 4)), biases=True, seed=0))
    machine.requires_grad_(False)
    row = [1, 2, 0, 3]
    whole = rb.scan(machine, row, beta=0.5)
    monkeypatch.setattr(module, "ROWS", 30)
    in_parts = rb.scan(machine, row, beta=0.5)
    assert torch.allclose(in_parts.nan_to_num(7.0), whole.nan_to_num(7.0), rtol=0, atol=1e-6)
    for unit, state in itertools.product(range(4), range(4)):
        if state < (2, 3, 2, 4)[unit]:
            changed = [state if i == unit else x for i, x in enumerate(row)]
            logs = machine.log_prob_unnormalised([changed, row], 0.5)[0]
            assert float(whole[0, unit, state]) == pytest.approx(float(logs[0] - logs[1]), abs=1e-6)
        else:
            assert bool(whole[0, unit, state].isnan())
    assert not torch.allclose(whole.nan_to_num(), rb.scan(machine, row).nan_to_num())


def test_what_cannot_be_scanned_is_refused():
    machine = rb.rbm(4, 3, units=rb.Categorical(3), seed=0)
    with pytest.raises(InputError, match="one row"):
        rb.scan(machine, [[0, 1, 2, 0]])
    with pytest.raises(InputError, match="codes"):
        rb.scan(machine, [0, 1, 2, 3])
    with pytest.raises(InputError, match="none has"):
        rb.scan(rb.rbm(2, 3, units=rb.Gaussian(), seed=0), [0.5, 1.0])
