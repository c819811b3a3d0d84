"""Laws of networks with biases against `solve` of the same network."""

import numpy as np
import pytest

import linsolve as ls

RATES = np.array([0.7, 1.9])
TIMES = np.linspace(0.0, 8.0, 30)


def samples(rng, n_in=3, n_out=2, count=12):
    """Return centered inputs that are white together with the constant 1, and targets with a mean."""
    q = np.linalg.qr(np.concatenate([np.ones((count, 1)), rng.normal(size=(count, n_in))], axis=1))[0]
    X = np.sqrt(count) * q[:, 1:]
    return X, X @ rng.normal(size=(n_in, n_out)) + 0.1 * rng.normal(size=(count, n_out)) + rng.normal(size=n_out)


def first(rng, sigma, Y):
    return [sigma * rng.normal(size=4), None]


def last(rng, sigma, Y):
    return [None, rng.normal(size=2)]


def hidden(rng, sigma, Y):
    return [np.zeros(4), Y.mean(axis=0)]


@pytest.mark.parametrize("bias", [first, last, hidden])
@pytest.mark.quick(1)
def test_the_law_of_a_network_with_biases_has_its_order(bias):
    sizes, errors, estimates = (0.04, 0.02, 0.01), {}, {}
    for sigma in sizes:
        rng = np.random.default_rng(3)
        X, Y = samples(rng)
        weights = [sigma * rng.normal(size=(4, 3)), sigma * rng.normal(size=(2, 4))]
        given = {"rates": RATES, "bias": bias(rng, sigma, Y)}
        law, right = (
            ls.laws.MatchedOutputs.of(weights, (X, Y), **given)(TIMES),
            ls.solve(weights, (X, Y), TIMES, **given),
        )
        assert {"map", "offset", "loss"} <= set(law.keys())
        assert ("ntk" in law) == (bias is not hidden)  # which needs the layers
        for name in law.values:
            off = np.abs(law[name] - right[name]).max() / max(np.abs(right[name]).max(), 1e-6)
            errors.setdefault(name, []).append(off)
            estimates.setdefault(name, []).append(law.error[name])
    for name, found in errors.items():
        if max(found) < 1e-9:  # exact: the bias of the last layer
            assert (name, bias) in {("offset", last), ("offset", hidden), ("b2", last), ("b2", hidden), ("b1", hidden)}
            continue
        slopes = np.diff(np.log(found)) / np.diff(np.log(sizes))
        assert np.abs(slopes - law.orders[name]).max() <= 0.2, (name, slopes)
        ratio = np.array(found) / estimates[name]
        assert ratio.max() <= 30, (name, ratio)
        assert ratio.min() >= 1 / 30, (name, ratio)


def test_biases_that_do_not_reduce_are_refused():
    rng = np.random.default_rng(0)
    X, Y = samples(rng)
    weights = [0.01 * rng.normal(size=(4, 3)), 0.01 * rng.normal(size=(2, 4))]
    with pytest.raises(ls.NotExact, match=r"MatchedOutputs.of: centered inputs = 0\.\d+ must vanish .*use solve"):
        ls.laws.MatchedOutputs.of(weights, (X + 1.0, Y), bias=[None, [0.0, 1.0]])
    with pytest.raises(ls.NotExact, match=r"MatchedOutputs.of: zero hidden biases = 1 must vanish"):
        ls.laws.MatchedOutputs.of(weights, (X, Y), bias=[np.ones(4), Y.mean(axis=0)])
    with pytest.raises(ls.NotExact, match=r"NTKMoments.of: bias = given must be left out"):
        ls.laws.NTKMoments.of([weights[0], weights[1][:1]], (X, Y[:, 0]), bias=[None, [0.0]])
    with pytest.raises(ls.NotExact, match=r"FinalKernelOutputs.of: bias = given must be left out .*center the targets"):
        ls.laws.FinalKernelOutputs.of(weights, (X, Y), bias=hidden(rng, 0.0, Y))
    with pytest.raises(ValueError, match=r"MatchedOutputs.of: bias needs the means of the data"):
        ls.laws.MatchedOutputs.of(weights, (X.T @ X / 12, Y.T @ X / 12), bias=[None, [0.0, 0.0]], covariances=True)


def test_the_error_of_transfer_names_a_bias_that_it_refuses():
    weights, X = [0.01 * np.ones((3, 4)), 0.01 * np.ones(3)], np.random.default_rng(0).normal(size=(9, 4))
    given = {"task": np.eye(4)[0], "samples": 2}
    with pytest.raises(ls.NotExact, match=r"TransferError.of: bias = given must be left out \(a bias adds"):
        ls.laws.TransferError.of(weights, (X, X[:, 0]), bias=0.1, **given)
    assert 0 < float(ls.laws.TransferError.of(weights, (X, X[:, 0]), **given)()["error"]) < 1
