"""The diagrams `chaos` and `dispersion`: maps against what else is known, and printed laws against the maps."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import brentq

from linsolve import ntk, phases
from linsolve.systems.random_networks import limits, mean_field, printed


@pytest.fixture(scope="module")
def chaos():
    return phases.diagram("chaos", 60)


@pytest.fixture(scope="module")
def dispersion():
    return phases.diagram("dispersion", 60)


def test_what_is_iterated_grows_as_chi(chaos):
    weights, biases = np.meshgrid(chaos.x.values, chaos.y.values)
    np.testing.assert_allclose(chaos.values, np.log(mean_field.chi(np, "erf", weights, biases)), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("weight_variance", "bias_variance"), [(0.8, 0.3), (2.5, 0.1)])
def test_sampled_networks_spread_as_the_map_says(weight_variance, bias_variance, chaos):
    """Two close inputs in an explicit network of width 1000: their distance by layer."""
    rng, n, unit = np.random.default_rng(0), 1000, mean_field.ACTIVATIONS["erf"]
    x, distances = rng.standard_normal(n), []
    x = np.stack([x, x + 1e-5 * rng.standard_normal(n)], axis=-1)
    for _ in range(14):
        weights = np.sqrt(weight_variance / n) * rng.standard_normal((n, n))
        h = weights @ x + np.sqrt(bias_variance) * rng.standard_normal((n, 1))
        distances.append(np.sum((h[:, 0] - h[:, 1]) ** 2))
        x = unit.function(h)
    growth = np.diff(np.log(distances[5:]))
    row, column = np.abs(chaos.y.values - bias_variance).argmin(), np.abs(chaos.x.values - weight_variance).argmin()
    assert np.mean(growth) == pytest.approx(chaos.values[row, column], abs=0.06)


def test_printed_edge_of_erf_would_be_seen(chaos):
    """E phi'^2 with the standard deviation where the variance belongs (appendix E.2)."""
    q = np.linspace(0.0, 4.0, 400) ** 2
    s = np.sqrt(q)
    weight = np.pi / 4 * np.sqrt(1 + 4 * s)
    wrong = q - weight * 2 / np.pi * np.arcsin(2 * s / (1 + 2 * s))
    edge = chaos.curves[0]._replace(x=weight, y=wrong)
    assert dataclasses.replace(chaos, curves=(edge, chaos.curves[1])).misfit()["erf"] > 3


@pytest.mark.parametrize("cells", [60, 121])
@pytest.mark.quick(1)
def test_levels_of_the_limit_lie_on_the_map(cells):
    assert max(phases.diagram("dispersion", cells).misfit().values()) <= 1


@pytest.mark.exhaustive
def test_levels_end_in_the_chaotic_phase_where_the_corrected_limit_has_them_and_not_the_printed_one(dispersion):
    x, top = dispersion.x, 10 ** dispersion.values[-1]
    for level in (30.0, 50.0):
        change = int(np.flatnonzero(np.diff(top > level))[0]) + 0.5
        true = brentq(lambda v, level=level: limits.of_weights(np, np.asarray(v), np.asarray(5.0)) - level, 0.01, 2)
        wrong = brentq(lambda v, level=level: printed.weights_limit(np, np.asarray(v)) - level, 0.01, 2)
        assert abs(x.cell(true) - change) <= 1.5  # the phase is chaotic by 20 at the top, not by infinity
        assert abs(x.cell(wrong) - change) > 1.5


def test_the_map_is_what_sampled_networks_have(dispersion):
    """The top row at L/M = 1/24, where it can be sampled: 83 layers of 2000 units."""
    column = int(np.abs(dispersion.x.values - 1 / 24).argmin())
    depth = round(dispersion.x.values[column] * 2000)
    widths = np.full(depth, 2000)
    gain = float(dispersion.y.values[-1])
    norms = ntk.sampling.layer_by_layer(np.random.default_rng(0), 10_000, widths, 2 * gain, 0.0)
    theta = np.sum(norms.kernels(1.0, 1.0), axis=0)
    scaled = theta / theta.mean()
    ratio = np.mean(scaled**2)
    error = np.std(scaled**2 - 2 * ratio * scaled, ddof=1) / np.sqrt(len(scaled))
    assert abs(ratio - 10 ** dispersion.values[-1, column]) < 3.5 * error
