"""Models of scikit-learn and `rbms` come and go with equal free energies, by the real packages."""

import pickle
import warnings

import h5py
import numpy as np
import pytest
import torch
from sklearn.neural_network import BernoulliRBM

import rapidbm as rb

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own future
    from rbms.bernoulli_bernoulli.classes import BBRBM
    from rbms.io import load_model, load_params, save_model
    from rbms.utils import get_saved_updates

CPU = torch.device("cpu")


def images(visible=12, count=50, seed=0):
    """Blocks of three pixels that agree most of the time."""
    rng = np.random.default_rng(seed)
    blocks = rng.random((count, visible // 3)) < 0.4
    return np.repeat(blocks, 3, 1) ^ (rng.random((count, visible)) < 0.05)


@pytest.fixture(scope="module")
def bernoulli():
    return BernoulliRBM(6, learning_rate=0.1, n_iter=60, random_state=0).fit(images())


@pytest.fixture(autouse=True)
def their_random_numbers():
    """`rbms` draws from torch's global stream."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.fixture
def theirs():
    def normal(*shape):
        return torch.randn(shape, generator=rb.stream(3, *shape))

    return BBRBM(0.5 * normal(12, 6), normal(12), normal(6))


@pytest.fixture
def archive(theirs, tmp_path):
    """A trajectory of `rbms`: the same model, ever larger."""
    path = tmp_path / "trajectory.h5"
    chains = theirs.init_chains(4)
    for update in (1, 20, 100):
        save_model(str(path), theirs * (update / 100), chains, update, 1.5)
    return path


def free_energy(machine, v):
    return (machine.free_energy(v) + machine.to_weights().constant[:, None])[0].detach().numpy()


def exact_likelihood(energies_of, data):
    """The mean log-likelihood by enumeration of the visible states, in the other package's own words."""
    n = data.shape[1]
    every = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(np.float64)
    log_z = np.logaddexp.reduce(-energies_of(every))
    return -energies_of(data.astype(np.float64)).mean() - log_z


def test_a_bernoulli_rbm_comes_and_goes_with_equal_free_energies(bernoulli):
    v = images()
    machine = rb.from_sklearn(bernoulli)
    assert np.allclose(free_energy(machine, v), bernoulli._free_energy(v), atol=1e-10, rtol=0)
    hidden = (machine.hidden_mean(v)[0].detach().numpy() + 1) / 2
    assert np.allclose(hidden, bernoulli.transform(v), atol=1e-12)
    again = rb.to_sklearn(machine)
    assert np.allclose(again._free_energy(v), bernoulli._free_energy(v), atol=1e-10, rtol=0)
    assert np.allclose(again.transform(v), bernoulli.transform(v))
    assert again.gibbs(v).shape == v.shape
    again.partial_fit(v[:10])
    assert list(again.get_feature_names_out())[:1] == ["bernoullirbm0"]


def test_a_machine_of_patterns_goes_to_sklearn():
    machine = rb.rbm(12, 5, patterns=3, scale=0.5, biases=True, seed=0, dtype=torch.float64)
    assert np.allclose(rb.to_sklearn(machine)._free_energy(images()), free_energy(machine, images()))


@pytest.mark.parametrize("method", ["exact", "ais"])
def test_the_likelihood_of_others_models_is_bounded(bernoulli, theirs, method, tmp_path):
    v = images()
    rb.save_rbms(rb.from_sklearn(bernoulli), tmp_path / "x.h5")  # one file through both packages
    for machine, energies in (
        (rb.from_sklearn(bernoulli), bernoulli._free_energy),
        (rb.load_rbms(tmp_path / "x.h5"), bernoulli._free_energy),
        (
            rb.Machine.from_weights(theirs.weight_matrix, theirs.vbias, theirs.hbias),
            lambda x: theirs.compute_energy_visibles(torch.tensor(x).float()).double().numpy(),
        ),
    ):
        truth = exact_likelihood(energies, v)
        bounds = rb.log_likelihood(machine, v, method=method, seed=0)
        slack = 1e-5
        assert float(bounds.lower[0]) - slack <= truth <= float(bounds.upper[0]) + slack
        assert float(bounds.upper[0] - bounds.lower[0]) < 0.5


def test_an_rbms_model_comes_with_equal_free_energies(archive, theirs):
    v = images()
    machine = rb.load_rbms(archive)
    want = theirs.compute_energy_visibles(torch.tensor(v).float()).numpy()
    assert machine.dtype == torch.float32
    assert np.allclose(free_energy(machine, v), want, atol=1e-5, rtol=0)


def test_a_trajectory_is_read_as_it_was_saved(archive, theirs):
    v = torch.tensor(images()).float()
    assert rb.rbms_updates(archive) == list(get_saved_updates(str(archive))) == [1, 20, 100]
    machines = rb.rbms_trajectory(archive)
    assert list(machines) == [1, 20, 100]
    for update, machine in machines.items():
        params = load_params(str(archive), update, CPU, torch.float32)
        want = params.compute_energy_visibles(v).numpy()
        assert np.allclose(free_energy(machine, v), want, atol=1e-5, rtol=0)
    one = rb.load_rbms(archive, 20)
    assert all(map(torch.equal, one.parameters(), machines[20].parameters()))


def test_rbms_loads_what_we_save(theirs, tmp_path):
    v = images()
    first = rb.rbm(12, 6, patterns=2, scale=0.4, seed=1)
    last = rb.Machine.from_weights(theirs.weight_matrix, theirs.vbias, theirs.hbias)
    rb.save_rbms({3: first, 7: last}, tmp_path / "x.h5", chains=v)
    assert list(get_saved_updates(str(tmp_path / "x.h5"))) == [3, 7]
    for update, machine in ((3, first), (7, last)):
        params, chains, _, settings = load_model(str(tmp_path / "x.h5"), update, CPU, torch.float32)
        found = params.compute_energy_visibles(torch.tensor(v).float()).numpy()
        assert np.allclose(found, free_energy(machine, v), atol=1e-5, rtol=0)
        assert np.array_equal(chains["visible"].numpy(), v)
        assert settings["batch_size"] == len(v)
    assert torch.allclose(params.weight_matrix, theirs.weight_matrix)
    again = rb.load_rbms(tmp_path / "x.h5", 7)
    assert np.allclose(free_energy(again, v), free_energy(last, v), atol=1e-5, rtol=0)


def test_half_precision_is_saved_as_single(tmp_path):
    rb.save_rbms(rb.rbm(3, 2, seed=0).to(torch.bfloat16), tmp_path / "x.h5")
    assert rb.load_rbms(tmp_path / "x.h5").dtype == torch.float32


def test_an_older_file_has_its_parameters_in_the_checkpoint_itself(archive, theirs):
    with h5py.File(archive, "a") as file:
        del file["model_type"]
        for update in (1, 20, 100):
            del file[f"update_{update}/params"]
    v = images()
    want = theirs.compute_energy_visibles(torch.tensor(v).float()).numpy()
    assert np.allclose(free_energy(rb.load_rbms(archive), v), want, atol=1e-5, rtol=0)


def test_an_imported_machine_is_a_machine_like_others(archive, tmp_path):
    machine = rb.load_rbms(archive)
    spins = rb.sample(machine, 8, seed=0)
    assert spins.shape[-1] == 18
    found = rb.diagnose(machine, rb.from_arrays(images()), chains=8, sweeps=20, starts=20, seed=0)
    assert {"verdict", "minima"} <= {row.section for row in found.rows}
    rb.save_machine(machine, tmp_path / "x.safetensors")
    again = rb.load_machine(tmp_path / "x.safetensors")
    assert torch.equal(again.free_energy(images()), machine.free_energy(images()))
    next(rb.train(machine, images(), rb.Persistent(10), rb.adam(0.01), epochs=1, batch_size=10, seed=0))


def altered(path, change):
    with h5py.File(path, "a") as file:
        change(file)
    return path


def linked(file):
    file["update_100/params"].move("vbias", "elsewhere")
    file["update_100/params/vbias"] = h5py.SoftLink("/update_100/params/elsewhere")


def outside(file):
    del file["update_100"]
    file["update_100"] = h5py.ExternalLink("other.h5", "/update_100")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f["model_type"].__setitem__((), "PBRBM"), "'PBRBM'.*not Ising, Potts or Gaussian"),
        (lambda f: (f.__delitem__("model_type"), f.__setitem__("model_type", 3)), "no word"),
        (
            lambda f: (f.__delitem__("model_type"), f.__setitem__("model_type", np.bytes_(b"\xff\x1b"))),
            "type '\ufffd\ufffd'",
        ),
        (lambda f: [f.__delitem__(name) for name in list(f) if "update" in name], "no group update_N"),
        (lambda f: f["update_100"].__delitem__("params"), None),
        (
            lambda f: [f["update_100"].__delitem__(x) for x in ("params", "vbias")],
            "no vbias of update 100",
        ),
        (linked, "is a link"),
        (
            lambda f: (
                f["update_100/params"].__delitem__("weight_matrix"),
                f["update_100/params"].create_dataset(
                    "weight_matrix", (10**6, 10**6), "f4", chunks=(9, 9)
                ),
            ),
            "more than there is room|not in the file",
        ),
        (
            lambda f: (
                f["update_100/params"].__delitem__("weight_matrix"),
                f["update_100/params"].__setitem__("weight_matrix", np.ones((12, 2, 6))),
            ),
            "Potts",
        ),
        (lambda f: f["update_100/params/hbias"].__setitem__(0, np.nan), "update 100: c, .* finite"),
    ],
)
def test_what_is_no_model_of_rbms_is_refused(archive, change, words):
    altered(archive, change)
    if words is None:
        assert rb.load_rbms(archive).visible == 12
    else:
        with pytest.raises(rb.InputError, match=words):
            rb.load_rbms(archive)


def test_a_checkpoint_in_another_file_is_not_followed(archive, tmp_path):
    (tmp_path / "other.h5").write_bytes(archive.read_bytes())
    altered(archive, outside)
    assert rb.rbms_updates(archive) == [1, 20]
    with pytest.raises(rb.InputError, match="the updates 1, 20, not 100"):
        rb.load_rbms(archive, 100)


def test_nothing_is_unpickled(bernoulli, tmp_path):
    path = tmp_path / "rbm.pkl"
    path.write_bytes(pickle.dumps(bernoulli))
    with pytest.raises(rb.InputError, match="never read"):
        rb.from_sklearn(path)
    with pytest.raises(rb.InputError, match="cannot be read as HDF5"):
        rb.load_rbms(path)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: rb.from_sklearn(BernoulliRBM()), "no components_; fit it first"),
        (lambda p: rb.to_sklearn(rb.rbm(3, 2, replicas=2, seed=0)), r"machine.replica\(0\)"),
        (lambda p: rb.to_sklearn(rb.bm(3, 2, seed=0)), "restricted machine"),
        (lambda p: rb.save_rbms(rb.rbm(3, 2, replicas=2, seed=0), p / "x.h5"), r"machine.replica\(0\)"),
        (lambda p: rb.save_rbms({}, p / "x.h5"), "at least one"),
        (lambda p: rb.save_rbms([rb.rbm(3, 2, seed=0)], p / "x.h5"), "{1: machine}, not list"),
        (lambda p: rb.save_rbms({1: rb.rbm(3, 2), 2: rb.rbm(4, 2)}, p / "x.h5"), "one shape"),
        (lambda p: rb.save_rbms(rb.rbm(3, 2, seed=0), p / "x.h5", chains=np.ones((2, 4))), r"\(c, 3\)"),
        (lambda p: rb.save_rbms({-1: rb.rbm(3, 2, seed=0)}, p / "x.h5"), "an update"),
        (lambda p: rb.save_rbms(rb.rbm(3, 2, seed=0), p / "no" / "x.h5"), "no folder"),
        (lambda p: rb.load_rbms(p / "x.h5"), "no file"),
    ],
)
def test_bad_input_says_what_to_do(call, words, tmp_path):
    with pytest.raises(rb.InputError, match=words):
        call(tmp_path)
    assert not list(tmp_path.iterdir())
