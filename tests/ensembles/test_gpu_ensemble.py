"""Reductions and random ensembles on a GPU: ``python -m pytest -m device`` where there is one."""

import numpy as np
import pytest
from reduction_cases import compare_with_numpy, compare_with_welford

import linsolve as ls
from linsolve.engines import cuda
from linsolve.ensembles import Histogram, random_networks

pytestmark = pytest.mark.device


@pytest.fixture
def gpu():
    return cuda.device()


def test_members_are_added_in_order_by_welfords_recurrence_to_the_last_bit(gpu):
    compare_with_welford()


def test_reductions_are_numpys(gpu):
    compare_with_numpy()


@pytest.mark.parametrize("zero_output", [False, True])
def test_random_networks_have_the_statistics_of_the_host(gpu, zero_output):
    factory = random_networks(width=50, sigma_u=0.2, sigma_w=0.3, y=1.0, zero_output=zero_output)
    options = {"observe": ("loss", "ntk"), "reduce": ("mean", "standard_error", "variance", "count"), "rng": 7}
    t = [0.0, 0.5, 2.0]
    there, again = (ls.ensemble(factory, 3_000_000, t, device="cuda", **options) for _ in range(2))
    here = ls.ensemble(factory, 300_000, t, **options)
    for name in options["observe"]:
        error = np.hypot(there[name, "standard_error"], here[name, "standard_error"])
        apart = np.abs(there[name, "mean"] - here[name, "mean"])
        assert np.all(apart <= 5 * error + 1e-13), name
        first = there[name, "variance"][0], here[name, "variance"][0]  # later losses have heavy tails
        np.testing.assert_allclose(*first, rtol=0.02, atol=1e-20)
        assert np.array_equal(there[name, "mean"], again[name, "mean"])
        assert (there[name, "count"] == 3_000_000).all()


def test_a_histogram_of_a_random_ensemble(gpu):
    edges = np.linspace(0.0, 2.0, 41)
    factory, options = random_networks(width=50, y=1.0, sigma_u=0.2, sigma_w=0.3), {"observe": ("loss",), "rng": 3}
    there = ls.ensemble(factory, 10**6, [0.5], reduce=[Histogram(edges=edges)], device="cuda", **options)
    here = ls.ensemble(factory, 10**6, [0.5], reduce=[Histogram(edges=edges)], **options)
    first, second = there["loss", "histogram"].ravel(), here["loss", "histogram"].ravel()
    assert np.all(np.abs(first - second) <= 5.5 * np.sqrt(first + second + 1))


@pytest.fixture
def little_memory(gpu):
    """Limit the memory of the device, of which tests beside this one need some."""
    pool = gpu.get_default_memory_pool()
    pool.set_limit(size=1 << 28)
    yield
    pool.set_limit(size=0)


def test_errors_are_named(little_memory):
    factory = random_networks(width=10, y=1.0)
    with pytest.raises(MemoryError, match=r"give a smaller multiple of 16384"):
        ls.ensemble(factory, 1 << 28, [0.5], device="cuda", rng=0, tile=1 << 28)
    with pytest.raises(ValueError, match="not available on a GPU"):
        ls.ensemble(factory, 100, [0.5], device="cuda", rng=0, reduce=[ls.ensembles.Quantiles([0.5])])
