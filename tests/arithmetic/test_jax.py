"""JAX: every flow that has a closed form is traced, vectorized and differentiated, against fifty digits."""

import numpy as np
import pytest

import linsolve as ls
from linsolve import arithmetic

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

every_flow = pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda c: c.__name__)
# programs as long as these take most of their time in optimizations of the compiler
FAST = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
DIGITS = 50


def compiled(function):
    return jax.jit(function, compiler_options=FAST)


def whole(flow):
    return {name for name, field in type(flow).__dataclass_fields__.items() if field.metadata.get("whole")}


def free(flow, z0, rng):
    """Return random directions for all real parameters and the state."""
    parameters = {k: rng.normal(size=v.shape) * np.abs(v) for k, v in flow.parameters().items() if k not in whole(flow)}
    return parameters, type(z0)(*(rng.normal(size=v.shape) * np.abs(v) for v in z0))


def endless_depths_stay(flow, z0, rng):
    parameters, z = free(flow, z0, rng)
    return parameters | {"depth": np.where(np.isinf(flow.depth), 0.0, rng.normal(size=flow.depth.shape))}, z


def kernels_keep_their_rank(flow, z0, rng):
    parameters, z = free(flow, z0, rng)
    turn = rng.normal(size=flow.kernel.shape)
    return parameters | {"kernel": turn @ flow.kernel + flow.kernel @ turn.T}, z


def pairs_stay_symmetric(flow, z0, rng):
    parameters, z = free(flow, z0, rng)
    return parameters | {"pairs": parameters["pairs"] + parameters["pairs"].T}, z


def maps_stay_aligned(flow, z0, rng):
    parameters, _ = free(flow, z0, rng)
    strengths = rng.normal(size=flow.s.shape) * np.sum(flow.u * (z0.product @ flow.v), axis=-2)
    still = {"u": np.zeros_like(flow.u), "v": np.zeros_like(flow.v)}
    return parameters | still, type(z0)(flow.u * strengths @ flow.v.T)


def weights_are_scaled(flow, z0, rng):
    parameters, _ = free(flow, z0, rng)
    factor = 2 * rng.normal()
    return parameters, type(z0)(*(factor * v for v in z0))


def kernel_and_features_are_scaled(flow, z0, rng):
    """The imbalance between weights and features, and the bias, stay solvable."""
    a, b = rng.normal(size=2)
    kappas = {name: b * flow.parameters()[name] for name in ("kappa_d", "kappa_c", "kappa_n")}
    z = type(z0)((2 * a + b / 2) * z0.product, 2 * a * z0.gram_w, (2 * a + b) * z0.gram_h, 0 * z0.b)
    return kappas, z


# directions in which the closed form holds, for flows that it restricts
DIRECTIONS = {
    "BalancedMap": maps_stay_aligned,
    "DeepMode": endless_depths_stay,
    "FrozenKernel": kernels_keep_their_rank,
    "NeuralCollapse": kernel_and_features_are_scaled,
    "SpecializedKernel": pairs_stay_symmetric,
    "WhitenedTwoLayer": weights_are_scaled,
}


def example(cls, rng):
    flow, z0 = cls.example(rng)
    if cls.__name__ == "FrozenHead":  # the derivative by a classifier with several zero singular values is not defined
        parameters = flow.parameters() | {"w": flow.w[0]}
        return cls(**parameters), type(z0)(*(v[0] for v in z0))
    return flow, z0


def moved(flow, z0, direction, amount, xp):
    """Return flow and state, moved by an amount in a direction, in an arithmetic."""
    changes, to = direction
    own = {
        k: arithmetic.cast(xp, v) + amount * arithmetic.cast(xp, changes[k]) if k in changes else v
        for k, v in flow.parameters().items()
    }
    state = (arithmetic.cast(xp, a) + amount * arithmetic.cast(xp, b) for a, b in zip(z0, to, strict=True))
    return type(flow)(**own), type(z0)(*state)


def exact_derivative(flow, z0, direction, t, name="loss"):
    """Return the derivative in a direction by a central difference in fifty digits."""
    xp = arithmetic.precise(DIGITS)
    step = xp.asarray(10) ** -20
    ends = []
    for amount in (step, -step):
        there, start = moved(flow, z0, direction, amount, xp)
        ends.append(xp.sum(there(xp.asarray(t), start)[name]))
    return float(arithmetic.to_numpy((ends[0] - ends[1]) / (2 * step)))


def slopes(cls, count, seed):
    """Return values and derivatives of the loss by JAX at random points, and by NumPy and in fifty digits."""
    points = []
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        flow, z0 = example(cls, rng)
        direction = DIRECTIONS.get(cls.__name__, free)(flow, z0, rng)
        points.append((flow, z0, direction, np.exp(rng.uniform(np.log(0.1), np.log(2.0)))))

    def sizes(flow, z0, direction, t):
        changes, to = direction
        leaves = {k: v for k, v in flow.parameters().items() if k in changes}

        def of(leaves, z):
            return type(flow)(**(flow.parameters() | leaves))(t, z)["loss"].sum()

        value, (by, by_state) = jax.value_and_grad(of, argnums=(0, 1))(leaves, z0)
        terms = [by[k] * changes[k] for k in changes] + [a * b for a, b in zip(by_state, to, strict=True)]
        return value, sum(v.sum() for v in terms), sum(abs(v).sum() for v in terms)

    stacked = jax.tree.map(lambda *leaves: jax.numpy.stack([jax.numpy.asarray(v) for v in leaves]), *points)
    value, slope, size = compiled(jax.vmap(sizes))(*stacked)
    plain = np.array([flow(t, z0)["loss"].sum() for flow, z0, _, t in points])
    exact = np.array([exact_derivative(*point) for point in points])
    return plain, np.asarray(value), exact, np.asarray(slope), np.asarray(size)


def assert_slopes(cls, count, seed):
    plain, value, exact, slope, size = slopes(cls, count, seed)
    assert np.all(np.abs(value - plain) <= 1e-12 * (1 + np.abs(plain)))
    worst = np.abs(slope - exact) / size
    assert np.all(worst <= 1e-9), (worst.max(), int(np.argmax(worst)))


@every_flow
def test_gradients_agree_with_fifty_digits(cls):
    assert_slopes(cls, 2, seed=0)


@pytest.mark.exhaustive
@every_flow
def test_gradients_agree_with_fifty_digits_at_a_hundred_points(cls):
    assert_slopes(cls, 100, seed=1)
