"""Double-double arithmetic compiled by JAX: to round a product and a sum as one would lose the low parts."""

import numpy as np
import pytest

import linsolve as ls
from linsolve import arithmetic
from linsolve.arithmetic.jax_arrays import jax_namespace
from linsolve.numerics.double_double import DoubleDouble

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)


def products(xp, a, b):
    return DoubleDouble(xp, a) * b * a


def quotients(xp, a, b):
    return (DoubleDouble(xp, a) * b) / (DoubleDouble(xp, b) * b)


def lengths(xp, a, b):
    return DoubleDouble(xp, xp.stack([a, b, b, a], axis=-1)).length()


def hypotenuses(xp, a, b):
    return (DoubleDouble(xp, xp.abs(a)).sqrt() * b).hypot(DoubleDouble(xp, b))


OPERATIONS = (products, quotients, lengths, hypotenuses)


def error(operation):
    """Return the largest relative error of an operation compiled by JAX."""
    a, b = np.random.default_rng(0).normal(size=(2, 300))

    def parts(a, b):
        found = operation(jax_namespace(), a, b)
        return found.hi, found.lo

    xp = arithmetic.precise(60)
    hi, lo = (xp.asarray(np.asarray(part)) for part in jax.jit(parts)(a, b))
    exact = operation(xp, xp.asarray(a), xp.asarray(b)).hi
    return float(arithmetic.to_numpy(xp.max(xp.abs((hi + lo - exact) / exact))))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda f: f.__name__)
def test_compiled_operations_keep_both_parts(operation):
    assert error(operation) <= 1e-30


def test_a_product_that_is_rounded_with_a_sum_is_seen(monkeypatch):
    monkeypatch.setattr(jax_namespace(), "rounded", lambda x: x)
    assert not max(error(operation) for operation in OPERATIONS) <= 1e-30


def test_rounded_is_the_value_and_has_its_derivative():
    x = np.array([0.0, -0.0, 1.5, -np.inf, np.inf, np.nan, 5e-324])
    found = np.asarray(jax.jit(jax_namespace().rounded)(x))
    assert np.array_equal(found, x, equal_nan=True)
    assert np.array_equal(np.signbit(found[:5]), np.signbit(x[:5]))
    assert jax.grad(lambda v: jax_namespace().rounded(v * v))(3.0) == 6.0
    assert jax_namespace().rounded(np.float32(1.5)).dtype == np.float32


def test_a_start_next_to_the_antialigned_saddle_keeps_its_digits():
    run = jax.jit(lambda flow, t, z0: flow(t, z0).state)
    xp, worst = arithmetic.precise(60), 0.0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        y = rng.choice([-1, 1]) * 10 ** rng.uniform(-1, 1)
        (eta_u, eta_w), x = 10 ** rng.uniform(-1, 1, 2), rng.normal(size=2)
        w = rng.normal(size=(3, 2)) * 10 ** rng.uniform(-3, 1)
        # the two layers are antialigned up to rounding, whose part along the target grows by 1e15 and more
        z0 = ls.TwoLayer.State(-np.sign(y) * (w @ x) / np.linalg.norm(x) * np.sqrt(eta_u / eta_w), w)
        flow = ls.TwoLayer(y=y, gamma=1.0, eta_u=eta_u, eta_w=eta_w, x=x)
        t = np.array([12.0 / (abs(y) * np.linalg.norm(x) * np.sqrt(eta_u * eta_w))])
        exact = flow.cast(xp)(xp.asarray(t), type(z0)(*map(xp.asarray, z0))).state
        for found, right in zip(run(flow, t, z0), map(arithmetic.to_numpy, exact), strict=True):
            worst = max(worst, float(np.abs(np.asarray(found) - right).max() / np.abs(right).max()))
    assert worst <= 1e-13
