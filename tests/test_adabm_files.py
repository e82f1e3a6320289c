"""Parameter files of adabmDCA: there and back, lines by hand, and commands that take them."""

import itertools

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import rapidbm as rb
from kinds import randomised
from rapidbm.cli.main import app
from rapidbm.errors import InputError

RNA = "-ACGU"


def potts(sites=4, q=5):
    """A full machine in no gauge."""
    return randomised(
        rb.bm(sites, units=rb.Categorical(q), biases=True, seed=0, dtype=torch.float64)
    ).requires_grad_(False)


def all_rows(sites=4, q=5):
    return torch.tensor(list(itertools.product(range(q), repeat=sites)))


def test_there_and_back_energies_differ_by_a_constant(tmp_path):
    machine = potts()
    rb.save_adabm(machine, tmp_path / "params.dat", "rna")
    again = rb.load_adabm(tmp_path / "params.dat", dtype=torch.float64).requires_grad_(False)
    apart = machine.energy(machine.layers.encode(all_rows()).double()) - again.energy(
        again.layers.encode(all_rows()).double()
    )
    assert float(apart.std()) < 1e-12
    assert float(machine.energy(machine.layers.encode(all_rows()).double()).std()) > 0.1
    rb.save_adabm(again, tmp_path / "again.dat", RNA)  # in that gauge already
    third = rb.load_adabm(tmp_path / "again.dat", dtype=torch.float64)
    for a, b in zip(again.parameters(), third.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-12)


def test_what_is_written_is_in_the_zero_sum_gauge(tmp_path):
    rb.save_adabm(potts(), tmp_path / "params.dat", "rna")
    h, j = np.zeros((4, 5)), np.zeros((4, 4, 5, 5))
    for line in (tmp_path / "params.dat").read_text().splitlines():
        kind, *words = line.split(" ")
        if kind == "h":
            h[int(words[0]), RNA.index(words[1])] = float(words[2])
        else:
            a, b = RNA.index(words[2]), RNA.index(words[3])
            j[int(words[0]), int(words[1]), a, b] = float(words[4])
    assert np.abs(h).min() > 0
    assert (np.abs(j).sum((2, 3)) > 0).tolist() == np.triu(np.ones((4, 4), bool), 1).tolist()
    for sums in (h.sum(1), j.sum(2), j.sum(3)):
        assert np.abs(sums).max() < 1e-12


def test_lines_mean_what_they_say(tmp_path):
    lines = ["J 0 2 A U 0.5", "J 1 2 - G -0.25", "h 0 A 1.5", "h 1 - -2e0", "h 2 C 0.125"]
    (tmp_path / "p.dat").write_text("\n".join(lines) + "\n")
    machine = rb.load_adabm(tmp_path / "p.dat", "rna").requires_grad_(False)
    energies = {(1, 0, 4): -(0.5 + 1.5 - 2.0), (0, 0, 3): -(-0.25 - 2.0), (0, 1, 2): -0.125}
    for codes, energy in energies.items():
        assert float(machine.energy(machine.layers.encode([codes]))[0, 0]) == pytest.approx(energy)
    assert machine.layers.encode([[0, 0, 0]]).shape == (1, 15)
    # Without an alphabet: the smallest that has these letters.
    assert rb.load_adabm(tmp_path / "p.dat").layers.kinds[0].q == 5
    (tmp_path / "q.dat").write_text("J 0 1 x y 1.0\nh 0 x 0.5\n")
    assert rb.load_adabm(tmp_path / "q.dat").layers.kinds[0].q == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "letter"),
        ("J 0 1 A C\nh 0 A 1\n", "parameters of adabmDCA"),
        ("J 1 0 A C 1\nh 0 A 1\n", "i < j"),
        ("J -1 0 A C 1\nh 0 A 1\n", "from 0"),
        ("J 0 1 A C nan\nh 0 A 1\n", "finite"),
        ("J 0 1 AB C 1\nh 0 A 1\n", "one letter"),
        ("x 0 1 A C 1\nh 0 A 1\n", "line"),
        ("J 0 99999999 A C 1\nh 0 A 1\n", "sites"),
    ],
)
def test_other_files_are_refused(tmp_path, text, told):
    (tmp_path / "p.dat").write_text(text)
    with pytest.raises(InputError, match=told):
        rb.load_adabm(tmp_path / "p.dat")


def test_other_machines_are_refused(tmp_path):
    for machine, alphabet in (
        (rb.rbm(3, 2, units=rb.Categorical(5), seed=0), "rna"),
        (rb.bm(3, units=rb.Categorical(4), seed=0), "rna"),
        (rb.bm(3, seed=0), "rna"),
        (rb.bm(3, units=rb.Categorical(5), replicas=2, seed=0), "rna"),
    ):
        with pytest.raises(InputError, match="a parameter file is of"):
            rb.save_adabm(machine, tmp_path / "p.dat", alphabet)
    assert not (tmp_path / "p.dat").exists()
    rb.save_adabm(potts(), tmp_path / "p.dat", "rna")
    with pytest.raises(InputError, match="alphabet"):
        rb.load_adabm(tmp_path / "p.dat", "ACGT")


def test_commands_take_such_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    machine = potts()
    rb.save_adabm(machine, "params.dat", "rna")
    for words in (
        ("couplings", "params.dat", "--out", "c.csv"),
        ("couplings", "params.dat", "--out", "again.dat", "--picture", "c.png"),
        ("scan", "params.dat", "AC-G", "--out", "s.csv"),
        ("sample", "params.dat", "--count", "4", "--sweeps", "3", "--out", "new.fasta"),
    ):
        found = CliRunner().invoke(app, [*words])
        assert found.exit_code == 0, (found.output, found.exception)
    one, other = (rb.load_adabm(name, dtype=torch.float64) for name in ("params.dat", "again.dat"))
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-5)
    first = (tmp_path / "new.fasta").read_text().splitlines()[1]
    assert len(first) == 4
    assert set(first) <= set(RNA)
