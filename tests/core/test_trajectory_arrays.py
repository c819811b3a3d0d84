"""A write into an array of a trajectory, or of the caller, changes no value that is read later."""

import copy

import numpy as np
import pytest
from systems.laws_of_networks import network, network_of

import linsolve as ls
from linsolve.core.map import Map

TIMES = np.array([0.0, 0.3, 1.0])
ORTHONORMAL = np.linalg.qr(np.random.default_rng(1).normal(size=(12, 3)))[0]
WHITE = np.sqrt(12) * ORTHONORMAL  # inputs of 12 samples


def write(*given):
    """Overwrite every array that can be written into, inside of tuples and lists, too."""
    for value in given:
        if isinstance(value, np.ndarray) and value.flags.writeable:
            value[...] = 7.0
        elif isinstance(value, tuple | list):
            write(*value)


def check(call, *arguments, **options):
    """Read all values in three orders, write into each and into the arguments, and compare with an untouched one."""
    untouched = {name: np.array(value) for name, value in dict(call(*arguments, **options)).items()}
    for seed in range(3):
        own, named = copy.deepcopy((arguments, options))
        traj, order = call(*own, **named), np.random.default_rng(seed).permutation(list(untouched)).tolist()
        write(*own, *named.values(), traj.t, *(getattr(traj, public, None) for public in ("state", "start")))
        for name in order:
            np.testing.assert_array_equal(traj[name], untouched[name], err_msg=f"{name}, read in the order {order}")
            write(traj[name])


@pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda c: c.__name__)
def test_closed_forms(cls):
    flow, z0 = cls.example(np.random.default_rng(0))
    check(flow, TIMES, z0)


@pytest.mark.parametrize("cls", [cls for cls in ls.flows.ALL if issubclass(cls, Map)], ids=lambda c: c.__name__)
def test_exact_descent(cls):
    flow, z0 = cls.example(np.random.default_rng(0))
    check(flow.discrete, np.array([0, 1, 2]), z0, step=1e-3)


def test_simulations_and_sequences():
    flow, z0 = ls.TwoLayer.example(np.random.default_rng(0))
    check(ls.integrate, flow, TIMES, z0)
    check(ls.descend, flow, TIMES, z0, step=0.01)
    check(ls.sequence([(flow, 0.5), (flow, 1.0)], z0), TIMES)


def networks():
    """Return arguments of `solve` by the method and the kind of the network."""
    rng = np.random.default_rng(0)
    X, Y, shapes = rng.normal(size=(12, 3)), rng.normal(size=(12, 2)), ((4, 3), (4, 4), (2, 4))
    deep = [rng.normal(size=shape) for shape in shapes]
    balanced = [np.eye(4, 3) / 2, np.eye(2, 4) / 2]
    general, centered = [deep[0], deep[2]], X - X.mean(axis=0)
    mirrored = [np.concatenate([deep[0], -deep[0]]), np.concatenate([deep[2], -deep[2]], axis=1)]
    doubled = [np.concatenate([X, -X]), np.concatenate([Y, -Y])]
    return {
        "one layer": ([np.ones((2, 3))], (X, Y)),
        "layers": (deep, (X, Y), {"test": (2 * X, Y)}),
        "layers of a closed form, integrated": (balanced, (WHITE, Y)),
        "second moments": (general, (X.T @ X / 12, Y.T @ X / 12), {"covariances": True}),
        "first bias": (general, (X, Y), {"bias": [np.ones(4), None]}),
        "last bias": (balanced, (centered, Y), {"bias": [None, np.ones(2)]}),
        "all biases": (general, (X, Y), {"bias": [np.ones(4), np.ones(2)]}),
        "leaky ReLU": (mirrored, doubled, {"activation": "relu"}),
        "LoRA": ([0.3 * np.eye(2, 3), np.zeros((2, 2))], (WHITE, Y), {"base": np.ones((2, 3)), "scale": 2.0}),
        "merged heads": ((np.ones(2) / 9, np.ones((2, 2, 2)) / 9), np.diag([1.0, 2.0]), {"context": 31}),
        "rank-one heads": ((np.ones(1), np.ones((1, 2)), np.ones((1, 2))), np.diag([1.0, 2.0]), {"context": 31}),
    }


@pytest.mark.parametrize("name", networks())
def test_networks(name):
    weights, data, options = (*networks()[name], {})[:3]
    rates = np.ones(3 if name == "rank-one heads" else len(weights))
    check(ls.solve, weights, data, TIMES, rates, **options)


def of_network(law, *arguments, **options):
    """Return a law of a network at early times; a law has the arrays of the caller, too."""
    return law.of(*arguments, **options)(*[1e-3 * TIMES] * law.timed)


@pytest.mark.parametrize("law", [law for law in ls.laws.ALL if not law.without_network()], ids=lambda law: law.__name__)
def test_laws_of_networks(law):
    own = {"task": np.array([1.0, 0.0, 0.0]), "samples": 20} if law is ls.laws.TransferError else {}
    check(of_network, law, **network_of(law, **own))


def test_laws_of_networks_with_biases():
    (first, last), _, rates = network(0, 0.01, widths=(3, 7, 2), samples=12)
    X = np.concatenate([WHITE, -WHITE])
    data = X, X @ np.random.default_rng(2).normal(size=(3, 2))
    check(of_network, ls.laws.MatchedOutputs, [first, last], data, rates, bias=[None, np.ones(2)])


def test_averages_of_sgd():
    X = np.random.default_rng(0).normal(size=(9, 2))
    check(ls.sgd, [np.array([[0.1, 0.2]])], (X, X[:, :1]), np.array([0, 1, 5]), batch=3, step=0.1)


def test_a_copy_may_be_written_into():
    traj = ls.BalancedMode(s=1.0)(TIMES, 0.1)
    with pytest.raises(ValueError, match="read-only"):
        traj["a"][0] = 7.0
    loss, own = traj["loss"].tolist(), traj["a"].copy()
    own[...] = 7.0
    assert traj["loss"].tolist() == loss
