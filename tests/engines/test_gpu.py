"""Kernels, array functions and JAX on a GPU against NumPy: ``python -m pytest -m device`` where there is one."""

import numpy as np
import pytest
from cuda_operations import compare_observables, compare_operations, pairs, recorded
from fused_cases import FLOWS, NAMES, TIMES, beyond, drawn

import linsolve as ls
from benchmarks.device import arrays, functions
from linsolve import arithmetic
from linsolve.core.query import pose
from linsolve.engines import cuda

pytestmark = pytest.mark.device
every_kernel = pytest.mark.parametrize("cls", FLOWS, ids=lambda c: c.__name__)
every_flow = pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda c: c.__name__)


@pytest.fixture
def gpu():
    return cuda.device()


def on_host(found):
    return {name: arithmetic.to_numpy(value) for name, value in found.items()}


@every_kernel
@pytest.mark.parametrize("decades", [40, 3, 1])
def test_a_million_inputs_are_within_the_bounds_of_the_compiled_engine(cls, decades, gpu):
    flow, z0 = drawn(cls, np.random.default_rng(decades), (-(-(10**6) // len(TIMES)),), decades)
    found = on_host(cuda.computed(pose(flow, TIMES, z0), NAMES[cls])[0])
    assert beyond(cls, found, flow(TIMES, z0, engine="blocks")) == []


@every_kernel
def test_every_observable_is_numpys_to_rounding(cls, gpu):
    compare_observables(cls, ulps=8)


def test_every_operation_is_numpys(gpu):
    x, y = pairs()
    outs, lost = functions.run(gpu, recorded(), x, y)
    assert lost
    compare_operations(outs, x, y, rtol=2e-15)


def test_elementary_functions_are_as_accurate_as_stated(gpu):
    for name, error, stated in functions.rows(gpu):
        assert error <= stated + 0.5, name


def test_inputs_along_any_axes_and_with_gaps(gpu):
    s, tau = np.linspace(0.5, 3.0, 8)[::-2, None, None], np.linspace(0.5, 2.0, 5)[:, None]
    start = np.linspace(0.1, 0.3, 4 * 6).reshape(4, 1, 6)
    t = np.linspace(0.0, 3.0, 12)[::3]
    plain = ls.BalancedMode(s=s.copy(), tau=tau)(t, start)["a"]
    found = cuda.evaluate(ls.BalancedMode(s=s, tau=tau), t, start, "a")["a"]
    np.testing.assert_allclose(found.get(), plain, rtol=2e-15)
    there = cuda.evaluate(
        ls.BalancedMode(s=gpu.asarray(s), tau=gpu.asarray(tau)), t, ls.BalancedMode.State(gpu.asarray(start)), "a"
    )["a"]
    assert np.array_equal(there.get(), found.get())
    alone = cuda.evaluate(ls.BalancedMode(s=2.0), 0.5, 0.1)["a"]
    assert alone.shape == ()
    assert float(alone) == pytest.approx(float(ls.BalancedMode(s=2.0)(0.5, 0.1)["a"]), rel=1e-15)


def test_one_member_at_many_times_takes_both_axes_of_the_grid(gpu):
    t = np.linspace(0.0, 5.0, 300_001)
    found = cuda.evaluate(ls.BalancedMode(s=2.0), t, 0.1, "a")["a"]
    np.testing.assert_allclose(found.get(), ls.BalancedMode(s=2.0)(t, 0.1)["a"], rtol=2e-15)


def test_errors_are_named(gpu):
    with pytest.raises(OverflowError, match="BalancedMode: s of up to 1e\\+200 leaves the range of doubles"):
        cuda.evaluate(ls.BalancedMode(s=[1.0, 1e200]), [0.0, 1.0], 0.1, "loss")
    with pytest.raises(MemoryError, match="do not fit the device"):
        cuda.evaluate(ls.BalancedMode(s=gpu.linspace(0.5, 3.0, 1 << 20)), np.linspace(0.0, 5.0, 1 << 17), 0.1, "a")
    found = cuda.evaluate(ls.BalancedMode(s=2.0), [0.5], 0.1, "a")["a"]  # memory is given back
    assert np.isfinite(found.get()).all()


@every_flow
def test_array_functions_of_cupy_are_numpys(cls, gpu):
    ((name, off),) = arrays.rows("CuPy", [cls])
    # a cube of an imbalance of 0.08 is the difference of products of order ten
    assert off <= (1e-10 if cls is ls.WhitenedTwoLayer else 1e-12), name


@every_flow
def test_flows_compiled_by_jax_for_the_device_are_numpys(cls, gpu):
    jax = pytest.importorskip("jax")
    assert jax.default_backend() == "gpu"
    ((name, off),) = arrays.rows("JAX", [cls])
    assert off <= 1e-12, name
