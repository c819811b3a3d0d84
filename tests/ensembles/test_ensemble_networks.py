"""Random two-layer networks by three numbers each, against explicit weights: in distribution, and on average."""

import pickle

import numpy as np
import pytest
from scipy import stats

import linsolve as ls
from linsolve import TwoLayer, TwoLayerOrder, ensembles

RATES = {"gamma": 0.8, "eta_u": 0.7, "eta_w": 1.6}
X = np.array([0.6, -1.1, 0.4])
RHO = float(np.sqrt(X @ X))
SIGMAS = {"sigma_u": 0.5, "sigma_w": 0.3}
COUNT = 20_000


def explicit(width, count=COUNT, rng=0):
    """Return order parameters and outputs of explicit weights."""
    flow = TwoLayer(y=1.0, x=X, **RATES)
    z0 = TwoLayer.init(width, 3, batch=count, rng=rng, **SIGMAS)
    return flow, z0, TwoLayerOrder.of(flow, z0)[1]


def sampled(width, count=COUNT, rng=1, **options):
    return ensembles.random_networks(width, y=1.0, rho=RHO, **SIGMAS, **RATES, **options)(
        np.random.default_rng(rng), count
    )


def apart(a, b):
    """Return the smallest p-value over P, Q, R, and P - Q, of two samples being of one distribution."""
    pairs = [*zip(a, b, strict=True), (a.P - a.Q, b.P - b.Q), (a.P * a.Q - a.R**2, b.P * b.Q - b.R**2)]
    return min(stats.ks_2samp(x, y).pvalue for x, y in pairs)


@pytest.mark.parametrize("width", [1, 2, 5, 40])
@pytest.mark.quick(1)
def test_in_distribution_as_explicit_weights(width):
    _, _, right = explicit(width)
    _, found = sampled(width)
    if width == 1:  # p and q are then numbers: P Q = R^2, up to rounding
        assert np.allclose(found.P * found.Q, found.R**2, rtol=1e-10, atol=0)
        right, found = (TwoLayerOrder.State(z.P, z.Q, np.sign(z.R)) for z in (right, found))
    assert apart(right, found) > 1e-3
    for a, b in zip(right, found, strict=True):
        error = np.sqrt((a.var() + b.var()) / COUNT)
        assert abs(a.mean() - b.mean()) < 4 * error
        wide = np.sqrt(sum(np.var((v - v.mean()) ** 2) for v in (a, b)) / COUNT)
        assert abs(a.var() - b.var()) < 4 * wide


def test_the_comparison_rejects_wrong_samplers():
    _, _, right = explicit(2)
    flow, _ = sampled(2)
    rng = np.random.default_rng(1)
    a, b = np.sqrt(flow.eta_w) * 0.5 / 2, np.sqrt(flow.eta_u) * 0.3 / 2

    def wrong(freedom, a, b):
        r, along = np.sqrt(rng.chisquare(2, COUNT)), rng.standard_normal(COUNT)
        across = np.sqrt(rng.chisquare(freedom, COUNT))
        p, q, rest = b * along + a * r, b * along - a * r, (b * across) ** 2
        return TwoLayerOrder.State(p * p + rest, q * q + rest, p * q + rest)

    assert apart(right, wrong(1, a, b)) > 1e-3
    assert apart(right, wrong(2, a, b)) < 1e-6  # one degree of freedom too many
    rates_swapped = wrong(1, np.sqrt(flow.eta_u) * 0.5 / 2, np.sqrt(flow.eta_w) * 0.3 / 2)
    assert apart(right, rates_swapped) < 1e-6


@pytest.mark.exhaustive
def test_mean_of_the_ensemble_is_that_of_explicit_networks():
    t = [0.0, 0.5, 1.5, 4.0]
    flow, z0, _ = explicit(5)
    traj = flow(t, z0)
    networks = ensembles.random_networks(5, y=1.0, rho=RHO, **SIGMAS, **RATES)
    found = ls.ensemble(
        networks, 100_000, t, observe=("loss", "ntk", "output", "u_norm", "h_norm"),
        reduce=("mean", "variance", "standard_error"), rng=0,
    )  # fmt: skip
    for name in found.observables:
        mean, spread = traj[name].mean(axis=-1), traj[name].std(axis=-1)
        error = np.hypot(spread / np.sqrt(COUNT), found[name, "standard_error"])
        assert (np.abs(mean - found[name, "mean"]) < 4 * error).all(), name
        square = (traj[name] - mean[:, None]) ** 2
        error = square.std(axis=-1) * np.sqrt(1 / COUNT + 1 / 100_000)
        early = slice(2)  # later the loss has tails that too few networks show
        assert (np.abs(square.mean(axis=-1) - found[name, "variance"])[early] <= 4 * error[early] + 1e-20).all(), name


@pytest.mark.exhaustive
def test_standard_error_is_the_spread_of_means():
    networks = ensembles.random_networks(5, y=1.0, **SIGMAS)
    many = [ls.ensemble(networks, 500, 1.0, reduce=("mean", "standard_error"), rng=seed) for seed in range(200)]
    means = np.array([each["loss", "mean"] for each in many])
    stated = np.mean([each["loss", "standard_error"] for each in many])
    assert means.std(ddof=1) == pytest.approx(stated, rel=0.2)  # four standard errors of the spread


def test_width_of_a_billion_in_the_tangent_kernel_scaling():
    width = 10**9
    flow, z0 = ensembles.random_networks(width, gamma=width**-0.5)(np.random.default_rng(0), COUNT)
    traj = flow([0.0, 1.0, np.inf], z0)
    assert stats.kstest(traj["output"][0], "norm").pvalue > 1e-3
    assert traj["ntk"][0] == pytest.approx(2.0, rel=3e-4)
    # so wide a network is linear: the residual falls by exp(-2 ntk t)
    assert traj["residual"][1] == pytest.approx(traj["residual"][0] * np.exp(-4.0), rel=3e-3)
    assert traj["output"][-1] == pytest.approx(1.0, rel=1e-9)


def test_batches_zero_output_and_pickling():
    networks = ensembles.random_networks([10, 100, 1000], 0.1, [[0.1], [0.2]], y=[[1.0], [2.0]], zero_output=True)
    flow, z0 = pickle.loads(pickle.dumps(networks))(np.random.default_rng(0), 7)
    assert z0.P.shape == (7, 2, 3)
    assert np.abs(flow(0.0, z0)["output"]).max() < 1e-14 * z0.P.max()
    found = ls.ensemble(networks, 100, [0.0, 1.0], rng=0)
    assert found["loss", "mean"].shape == (2, 2, 3)
    assert found["loss", "mean"][0].tolist() == [[1.0] * 3, [4.0] * 3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 0.5}, r"width = 0.5 must lie in \[1, inf\)"),
        ({"width": 3, "sigma_u": -1.0}, "sigma_u = -1.0 must lie in"),
        ({"width": 3, "etau": 1.0}, "did you mean 'eta_u'"),
        ({"width": 3, "eta_u": 0.0}, "eta_u = 0.0 must lie in"),
        ({"width": [3, 4], "y": [1.0, 2.0, 3.0]}, "do not broadcast"),
        ({"width": 3, "zero_output": "no"}, "zero_output = 'no' must be True or False"),
        ({"width": 4, "sigma_u": [1.0, 1e200]}, r"sigma_u = 1e\+200 makes layers of length 2e\+200"),
        ({"width": 4, "sigma_w": 1.0, "eta_u": 1e308}, "sigma_w = 1 makes layers of length 2e.154, which must be at"),
        ({"width": 1e300, "sigma_w": 1e300, "eta_u": 1e300}, "length inf, which must be at most 1e.150"),
    ],
)
def test_refused(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ensembles.random_networks(**given)


def test_networks_at_the_end_of_doubles_give_numbers_or_a_reason():
    large = ensembles.random_networks(4, 1e149, 1e149)
    assert np.isfinite(large(np.random.default_rng(0), 100)[1].P).all()
    with pytest.raises(ValueError, match="loss = nan or inf for"):  # its square is beyond doubles
        ls.ensemble(large, 10, 0.0, rng=0)
    reason = r"loss = nan or inf for|P of up to .* leaves the range of"
    for size in (1e300, 1e306, 1.7e308):  # the closed form needs products of them
        with pytest.raises((ValueError, OverflowError), match=reason):
            ls.ensemble(lambda rng, count, size=size: (ls.TwoLayerOrder(y=1.0), (np.full(count, size),) * 3), 10, 1.0)
