"""JAX: derivatives of every flow by parameters, start and time, from ``t = 0`` to long after convergence."""

import numpy as np
import pytest
from selection import quick
from test_jax import DIGITS, DIRECTIONS, compiled, exact_derivative, free

import linsolve as ls
from linsolve import arithmetic

jax = pytest.importorskip("jax")

TIMES = np.array([0.0, 1e-3, 1.0, 30.0, 300.0, 1000.0])  # the examples have rates of order 1
# near a saddle, where changes grow, the derivative is nan; the example may tend to one
NEAR_A_SADDLE = ("NeuralCollapse",)
FLOWS = [cls for cls in ls.flows.ALL if cls.__name__ not in NEAR_A_SADDLE]


def exact_velocity(flow, z0, t, name):
    """Return the derivative of a quantity by time, by a difference in fifty digits."""
    xp = arithmetic.precise(DIGITS)
    there, start = flow.cast(xp), type(z0)(*(xp.asarray(v) for v in z0))
    step = xp.asarray(10) ** -20
    ends = xp.asarray(t) + step, xp.asarray(t) - (step if t else 0 * step)
    late, early = (there(end, start)[name] for end in ends)
    return arithmetic.to_numpy((late - early) / (ends[0] - ends[1])).astype(float)


def assert_close(found, right, size=0.0):
    assert np.max(np.abs(found - right)) <= 1e-9 * (np.max(np.abs(right)) + size + 1e-3), (found, right)


@pytest.mark.parametrize(
    "cls",
    quick(FLOWS, lambda cls: cls in (ls.BalancedMode, ls.BiasedMode, ls.NeuralRace, ls.BlockKernel)),
    ids=lambda cls: cls.__name__,
)
def test_gradients_in_both_modes_agree_with_fifty_digits_at_all_times(cls):
    rng = np.random.default_rng(0)
    flow, z0 = cls.example(rng)
    direction = DIRECTIONS.get(cls.__name__, free)(flow, z0, rng)
    changes, to = direction
    leaves = {name: flow.parameters()[name] for name in changes}

    def loss(leaves, z, t):
        return type(flow)(**(flow.parameters() | leaves))(t, z)["loss"].sum()

    def both(t):
        reverse = jax.grad(loss, argnums=(0, 1, 2))(leaves, z0, t)
        forward = jax.jvp(lambda leaves, z: loss(leaves, z, t), (leaves, z0), (changes, to))[1]
        return reverse, forward, jax.jvp(lambda t: loss(leaves, z0, t), (t,), (1.0,))[1]

    (by, by_state, by_time), forward, forward_time = compiled(jax.vmap(both))(TIMES)
    for k, t in enumerate(TIMES):
        terms = [np.sum(by[name][k] * changes[name]) for name in by]
        terms += [np.sum(a[k] * b) for a, b in zip(by_state, to, strict=True)]
        assert np.isfinite(terms).all(), t
        assert all(np.isfinite(v[k]).all() for v in jax.tree.leaves((by, by_state))), t
        right, size = exact_derivative(flow, z0, direction, t), np.sum(np.abs(terms))
        for found in (np.sum(terms), forward[k]):
            assert_close(found, right, size)
        for found in (by_time[k], forward_time[k]):
            assert_close(found, np.sum(exact_velocity(flow, z0, t, "loss")))


@pytest.mark.parametrize(
    "cls", quick(ls.flows.ALL, lambda cls: cls in (ls.BiasedMode, ls.FrozenKernel)), ids=lambda cls: cls.__name__
)
def test_a_state_leaves_the_start_with_its_velocity(cls):
    flow, z0 = cls.example(np.random.default_rng(3))

    def state(t):
        return tuple(flow(t, z0).state)

    found, speed = compiled(lambda t: jax.jvp(state, (t,), (1.0,)))(0.0)
    for name, start, value, change in zip(z0._fields, z0, found, speed, strict=True):
        assert np.array_equal(value, np.broadcast_to(start, value.shape)), name
        right = getattr(flow.velocity(np, z0), name)
        assert np.max(np.abs(change - right)) <= 1e-12 * np.max(np.abs(right)) + 1e-15, name


@pytest.mark.parametrize(
    ("flow", "start"),
    [
        (lambda c: ls.DeepMode(s=c * jax.numpy.ones(6), depth=np.array([1.5, 2, 3, 4, 5, np.inf])), [0.1]),
        (lambda c: ls.RankOneAttention(context=31.0, variance=c * jax.numpy.asarray([0.5, 1.0])), [0.1, 0.2]),
        (lambda c: ls.BiasedMode(m=1.3 * c, mu=1.0, N=0.05), ([0.1, 0.2], [0.3, 0.1], 0.0)),
    ],
    ids=["DeepMode", "RankOneAttention", "BiasedMode"],
)
def test_gradients_are_finite_where_the_loss_underflows(flow, start):
    times = np.arange(601.0)

    def loss(c, size, t):
        z0 = jax.tree.map(lambda v: size * jax.numpy.asarray(v), start, is_leaf=lambda v: not isinstance(v, tuple))
        return flow(c)(t, z0)["loss"].sum()

    every = compiled(jax.vmap(jax.grad(loss, argnums=(0, 1, 2)), in_axes=(None, None, 0)))(1.0, 1.0, times)
    assert np.isfinite(every).all()


@pytest.mark.parametrize("s", [1e-140, 1e-160])
@pytest.mark.parametrize("kind", [ls.BalancedMode, lambda s: ls.DeepMode(s=s, depth=3.0)], ids=["depth 2", "depth 3"])
def test_the_gradient_by_a_tiny_target_is_its_distance(kind, s):
    found = jax.grad(lambda s, a: kind(s=s)(1.0, a)["loss"])(s, jax.numpy.asarray(0.1 * s))
    assert np.isclose(found, 0.9 * s, rtol=1e-12, atol=0.0)


def test_the_second_derivative_of_a_race_at_the_start_is_that_soon_after():
    def loss(t):
        return ls.NeuralRace(s=2.0, contexts=2.0, served=[1.0, 2.0])(t, jax.numpy.asarray([0.1, 0.1]))["loss"]

    bends = compiled(jax.vmap(jax.grad(jax.grad(loss))))(np.array([0.0, 1e-9]))
    assert np.isclose(*bends, rtol=1e-7)


def test_a_derivative_near_a_saddle_is_nan_in_reverse_mode_too():
    flow, z0 = ls.NeuralCollapse.example(np.random.default_rng(0))
    found = compiled(jax.grad(lambda size: flow(300.0, tuple(size * v for v in z0))["product"].sum()))(1.0)
    assert np.isnan(found)
