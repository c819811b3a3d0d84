"""Reductions and random ensembles on a GPU: ``python -m pytest -m device`` where there is one."""

import numpy as np
import pytest

import linsolve as ls
from linsolve.engines import cuda
from linsolve.engines.cuda import checked
from linsolve.ensembles import Histogram, cuda_reduce, random_networks

pytestmark = pytest.mark.device


@pytest.fixture
def gpu():
    return cuda.device()


def kept(flow, t, start, cuts):
    gathering = cuda_reduce.Reduction(("a",), len(t))
    for first, last in zip([0, *cuts], [*cuts, len(start)], strict=True):
        gathering.absorb(checked(ls.BalancedMode(s=flow.s[first:last]), t, start[first:last]))
    return gathering.kept.get()


def test_members_are_added_in_order_by_welfords_recurrence_to_the_last_bit(gpu):
    members, t = 2 * cuda_reduce.LANES + 5000, np.linspace(0.0, 3.0, 9)
    flow, start = ls.BalancedMode(s=np.linspace(0.5, 3.0, members)), np.linspace(1e-3, 0.1, members)
    whole = kept(flow, t, start, [])
    assert np.array_equal(whole, kept(flow, t, start, [cuda_reduce.LANES]))
    values = cuda.evaluate(flow, t, start, "a")["a"].get()
    mean, spread = np.zeros((2, len(t), cuda_reduce.LANES))
    for number, first in enumerate(range(0, members, cuda_reduce.LANES), 1):
        x = values[:, first : first + cuda_reduce.LANES]
        some = np.s_[:, : x.shape[1]]
        away = x - mean[some]
        mean[some] += away * (1 / number)
        spread[some] += away * (x - mean[some])
    assert np.array_equal(whole[0, ..., 0], mean)
    assert np.array_equal(whole[0, ..., 1], spread)


def test_reductions_are_numpys(gpu):
    members, t, edges = 40_001, np.array([0.0, 0.3, 0.6, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, np.inf]), np.linspace(0, 2.5, 31)
    flow = ls.BalancedMode(s=np.linspace(0.5, 3.0, members))
    plain, gathering = flow(t, 0.1), cuda_reduce.Reduction(("a", "loss"), t.size, edges)
    gathering.absorb(checked(flow, t, 0.1))
    found = gathering.results()
    for name in ("a", "loss"):
        values = plain[name]
        np.testing.assert_allclose(found[name, "mean"], values.mean(-1), rtol=1e-14)
        np.testing.assert_allclose(found[name, "variance"], values.var(-1, ddof=1), rtol=1e-12, atol=1e-30)
        np.testing.assert_allclose(found[name, "min"], values.min(-1), rtol=1e-14)
        np.testing.assert_allclose(found[name, "max"], values.max(-1), rtol=1e-14)
        counts = np.stack([np.histogram(v, edges)[0] for v in values])
        # a value may be an ulp to the other side of an edge
        assert np.abs(found[name, "histogram"] - counts).max() <= 1
        inside = found[name, "histogram"].sum(-1)
        assert (inside + found[name, "below"] + found[name, "above"] == members).all()


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
