"""JAX: every flow that has a closed form is traced, vectorized and differentiated, against fifty digits."""

import subprocess
import sys

import numpy as np
import pytest
from selection import quick

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


def collapse_stays_balanced(flow, z0, rng):
    # the rate of the classes stays; the weights are scaled, the bias of the constant direction at rest is 1/C
    kc, kn = rng.normal(size=2)
    rates = {"kappa_d": kc - flow.m * (kc - kn), "kappa_c": kc, "kappa_n": kn}
    factor = 2 * rng.normal()
    z = type(z0)(factor * z0.product, factor * z0.gram_w, factor * z0.gram_h, np.zeros_like(z0.b))
    return {name: np.asarray(value) for name, value in rates.items()}, z


# directions in which the closed form holds, for flows that it restricts
DIRECTIONS = {
    "BalancedMap": maps_stay_aligned,
    "DeepMode": endless_depths_stay,
    "FrozenKernel": kernels_keep_their_rank,
    "LinearAttention": weights_are_scaled,
    "LoRA": weights_are_scaled,
    "NeuralCollapse": collapse_stays_balanced,
    "SpecializedKernel": pairs_stay_symmetric,
    "WhitenedTwoLayer": weights_are_scaled,
}


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
        flow, z0 = cls.example(rng)
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


# the other flows take up to a minute to compile
@pytest.mark.parametrize(
    "cls",
    quick(
        ls.flows.ALL,
        lambda cls: cls.__name__ in ("BalancedMode", "FrozenKernel", "BlockKernel"),
    ),
    ids=lambda cls: cls.__name__,
)
@pytest.mark.quick(2)
def test_gradients_agree_with_fifty_digits(cls):
    assert_slopes(cls, 2, seed=0)


@pytest.mark.exhaustive
@every_flow
def test_gradients_agree_with_fifty_digits_at_many_points(cls):
    assert_slopes(cls, 10 if cls is ls.NeuralCollapse else 100, seed=1)  # seconds for each point in fifty digits


def assert_same(cls, names=None):
    """Compare compiled values with those of NumPy, in units of the largest entry."""
    flow, z0 = cls.example(np.random.default_rng(3))
    t = np.array([0.0, 0.1, 0.5, 2.0, np.inf])
    expected = flow(t, z0)
    found = compiled(lambda flow, t, z0: {name: flow(t, z0)[name] for name in names or expected.names})(flow, t, z0)
    scale = max(np.max(np.abs(v)) for v in expected.state)
    for name, value in found.items():
        size = max(np.max(np.abs(expected[name])), 0 if name in (*z0._fields, *flow.declared, "loss") else scale**2)
        assert value.shape == expected[name].shape, name
        assert np.all(np.abs(value - expected[name]) <= 1e-12 * size), name


@pytest.mark.parametrize("name", ["BalancedMode", "DeepMode", "FrozenKernel", "NeuralCollapse"])
@pytest.mark.quick(1)
def test_compiled_states_equal_those_of_numpy(name):
    assert_same(getattr(ls, name), getattr(ls, name).State._fields)


@pytest.mark.exhaustive
@every_flow
def test_compiled_trajectories_equal_those_of_numpy(cls):
    assert_same(cls)


@pytest.mark.parametrize("depth", quick([3.0, 2.5, np.inf], 1))
def test_a_deep_mode_on_its_target_relaxes_at_its_rate(depth):
    rate = 1.0 if depth == np.inf else depth
    found = jax.grad(lambda a: ls.DeepMode(s=1.0, depth=depth)(1.0, a)["a"])(1.0)
    assert np.isclose(found, np.exp(-rate), rtol=1e-12)


@pytest.mark.parametrize(
    "name", quick(["BalancedMode", "FrozenKernel", "DeepMode", "BlockKernel", "WhitenedTwoLayer"], 2)
)
def test_gradients_are_finite_at_the_ends_of_time(name):
    flow, z0 = getattr(ls, name).example(np.random.default_rng(0))

    def loss(t, flow, z0):
        return flow(t, z0)["loss"].sum()

    found = compiled(jax.vmap(jax.grad(loss, argnums=(1, 2)), in_axes=(0, None, None)))(
        np.array([0.0, np.inf]), flow, z0
    )
    assert all(np.isfinite(v).all() for v in jax.tree.leaves(found))


def test_limits_and_times_to_a_loss_are_differentiated():
    def time(s):
        return ls.BalancedMode(s=s).when(1e-2, loss=0.1)

    h = 1e-5
    slope = (time(2.0 + h) - time(2.0 - h)) / (2 * h)
    assert np.isclose(compiled(jax.grad(time))(2.0), slope, rtol=1e-8)
    flow = ls.BalancedMode(s=jax.numpy.asarray(2.0))
    assert jax.grad(lambda s: ls.BalancedMode(s=s)(np.inf, 0.1)["a"])(2.0) == 1.0
    assert compiled(lambda flow: flow.limit(jax.numpy, flow.state(0.1)).a)(flow) == 2.0


@pytest.mark.parametrize("cls", quick([ls.BalancedMode, ls.DeepMode], 1))
def test_derivatives_at_removable_singularities(cls):
    # a target 0, and depth 2, are limits of the general formulas
    more = {} if cls is ls.BalancedMode else {"depth": np.array([2.0, 3.0])}
    flow, z0 = cls(s=np.array([0.0, 1.3]), **more), cls.State(np.array([0.4, 0.3]))
    for name in ("s", *more):
        for k in range(2):
            direction = {name: np.eye(2)[k]}, cls.State(np.zeros(2))
            exact = exact_derivative(flow, z0, direction, 0.7)
            slope = jax.grad(lambda v, name=name: cls(**(flow.parameters() | {name: v}))(0.7, z0)["loss"].sum())
            assert abs(compiled(slope)(flow.parameters()[name])[k] - exact) <= 1e-12


EQUAL = {  # kernels with equal eigenvalues, whose eigenvectors have no derivatives
    "FrozenKernel": (ls.FrozenKernel(kernel=2 * np.eye(3), y=[0.3, -0.4, 1.0], eta=0.5), kernels_keep_their_rank),
    "SpecializedKernel": (
        ls.SpecializedKernel(diagonal=[1.5] * 3, pairs=0.3 + 0.5 * np.eye(3), sizes=[2, 2, 2], eta=0.3),
        pairs_stay_symmetric,
    ),
    "BlockKernel": (ls.BlockKernel(2.0, 1.0, 0.5, [2, 2, 2, 3], 0.3), free),
}


@pytest.mark.parametrize("name", quick(EQUAL, lambda name: name == "FrozenKernel"))
def test_gradients_are_finite_at_equal_eigenvalues(name):
    flow, directions = EQUAL[name]
    rng = np.random.default_rng(0)
    size = flow.y.shape[-1] if name == "FrozenKernel" else int(np.sum(flow.sizes))
    z0 = flow.State(rng.normal(size=size))
    changes, to = directions(flow, z0, rng)
    own = {k: flow.parameters()[k] for k in changes}

    def loss(own, z0):
        return type(flow)(**(flow.parameters() | own))(0.7, z0)["loss"]

    by, by_state = compiled(jax.grad(loss, argnums=(0, 1)))(own, z0)
    found = sum((by[k] * changes[k]).sum() for k in changes) + sum(
        (a * b).sum() for a, b in zip(by_state, to, strict=True)
    )
    assert abs(found - exact_derivative(flow, z0, (changes, to), 0.7)) <= 1e-12


HEADS = {  # classifiers whose singular vectors have no derivatives, and class sizes
    "simplex": (np.eye(3) - 1 / 3, 2),
    "simplex, unequal classes": (np.eye(3) - 1 / 3, [1, 2, 3]),
    "rank one": (np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 2.0, 0.5]), 2),
    "zero": (np.zeros((3, 2)), 2),
}


@pytest.mark.parametrize("name", quick(HEADS, lambda name: name == "simplex"))
def test_a_frozen_head_is_differentiated_at_equal_singular_values(name):
    rng = np.random.default_rng(0)
    w, m = HEADS[name]
    flow = ls.FrozenHead(kappa_d=2.0, kappa_c=1.2, kappa_n=0.4, classes=3, m=m, w=w, eta_b=0.7)
    z0 = flow.State(rng.normal(size=(w.shape[1], sum(flow.sizes))), rng.normal(size=3))
    changes, to = free(flow, z0, rng)
    changes["w"] = rng.normal(size=w.shape)  # changes the rank, too

    def values(amount, t):
        there, start = moved(flow, z0, (changes, to), amount, jax.numpy)
        traj = there(t, start)
        return {each: traj[each].sum() for each in ("h", "b", "loss", "loss_class")}

    for each, slope in compiled(jax.jacfwd(values))(0.0, 0.7).items():
        assert abs(slope - exact_derivative(flow, z0, (changes, to), 0.7, each)) <= 1e-12 * max(1, abs(slope)), each
    ends = compiled(jax.jacfwd(values))(0.0, np.array([0.0, np.inf]))
    assert np.isfinite(list(ends.values())).all()


def test_the_end_of_a_slow_frozen_head_of_low_rank_is_differentiated():
    rng, w = np.random.default_rng(1), np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 2.0, 0.5]) / 8
    flow = ls.FrozenHead(kappa_d=0.09, kappa_c=0.05, kappa_n=0.02, classes=3, m=2, w=w, eta_b=0.01)
    z0 = flow.State(rng.normal(size=(4, 6)), rng.normal(size=3))
    changes, to = free(flow, z0, rng)
    direction = changes | {"w": 2 * w}, to  # the rank stays

    def ends(amount):
        there, start = moved(flow, z0, direction, amount, jax.numpy)
        return {name: there(np.inf, start)[name].sum() for name in ("h", "b")}

    for name, slope in compiled(jax.jacfwd(ends))(0.0).items():
        exact = exact_derivative(flow, z0, direction, np.inf, name)
        assert abs(slope - exact) <= 1e-12 * abs(exact), name


@pytest.mark.parametrize("name", quick(["RankOneAttention", "LoRA", "LinearAttention"], 0))
def test_strengths_of_directions_have_derivatives_that_agree_with_fifty_digits(name):
    flow, z0 = getattr(ls, name).example(np.random.default_rng(2))
    direction = DIRECTIONS.get(name, free)(flow, z0, np.random.default_rng(3))

    def total(amount):
        there, start = moved(flow, z0, direction, amount, jax.numpy)
        return there(0.7, start)["strengths"].sum()

    slope = jax.jit(jax.jacfwd(total))(0.0)
    assert abs(slope - exact_derivative(flow, z0, direction, 0.7, "strengths")) <= 1e-9 * max(1, abs(slope))


@pytest.mark.parametrize("size", [1.0, 1e-100, 1e-150])
def test_a_frozen_head_of_any_size_reaches_its_limit_when_compiled(size):
    flow, z0 = ls.FrozenHead.example(np.random.default_rng(0))
    flow = ls.FrozenHead(**(flow.parameters() | {"w": size * flow.w}))
    found = jax.jit(lambda z: {name: flow(np.inf, z)[name] for name in ("h", "b", "loss")})(z0)
    for name, value in found.items():
        exact = flow(np.inf, z0)[name]
        assert np.abs(value - exact).max() <= 1e-12 * np.abs(exact).max(), name


@pytest.mark.exhaustive
def test_the_derivative_of_neural_collapse_is_nan_where_changes_grow():
    flow, z0 = ls.NeuralCollapse.example(np.random.default_rng(5))
    slope = compiled(
        jax.vmap(jax.grad(lambda t, b: flow(t, z0._replace(b=b))["loss"].sum(), argnums=1), in_axes=(0, None))
    )
    found = np.asarray(slope(np.array([0.5, np.inf]), z0.b))
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).any()


def test_flows_states_and_trajectories_are_pytrees():
    flow, z0 = ls.BlockKernel.example(np.random.default_rng(0))
    leaves, tree = jax.tree.flatten(flow)
    again = jax.tree.unflatten(tree, leaves)
    assert len(leaves) == 4  # class sizes are static
    assert np.array_equal(again(0.5, z0)["r"], flow(0.5, z0)["r"])
    run = compiled(lambda flow, z0: flow(np.array([0.0, 0.5]), z0))(flow, z0)
    assert isinstance(run, ls.Trajectory)
    assert run.route == "closed form"
    assert np.allclose(run["loss"], flow([0.0, 0.5], z0)["loss"], rtol=1e-14, atol=0)
    assert not jax.tree.leaves(jax.tree.map(lambda a, b: None, flow, again))


def test_known_values_are_checked_and_failed_conditions_of_traced_ones_give_nan():
    with pytest.raises(ValueError, match="BalancedMode: tau = -1"):
        ls.BalancedMode(s=1.0, tau=jax.numpy.asarray(-1.0))
    with pytest.raises(ValueError, match="BalancedMode: tau = -1"):
        jax.jit(lambda s: ls.BalancedMode(s=s, tau=-1.0)(1.0, 0.1)["a"])(1.0)
    lost = ls.DeepMode(s=jax.numpy.asarray([1.0, 1.0]), depth=1.5), jax.numpy.asarray([-0.5, 0.5])
    with pytest.raises(ls.NotExact, match="DeepMode"):
        lost[0](1.0, lost[1])
    found = compiled(lambda flow, a: flow(1.0, a)["loss"])(*lost)
    assert np.isnan(found).tolist() == [True, False]
    early = compiled(lambda t: ls.BalancedMode(s=1.0)(t, 0.1)["a"])(np.array([-1.0, 1.0]))
    assert np.isnan(early).tolist() == [True, False]


@pytest.mark.parametrize(
    ("flow", "start"),
    [
        (ls.BalancedMode(s=2.0, tau=1e160), 0.1),
        (ls.DeepMode(s=2.0, depth=3.0, tau=1e160), 0.1),
        (ls.FrozenKernel(np.eye(2), [1.0, 0.0], eta=1e-160), [0.0, 0.0]),
    ],
)
def test_a_limit_that_the_largest_time_does_not_reach_is_refused(flow, start):
    assert np.all(np.isfinite(flow(np.inf, start).state[0]))
    with pytest.raises(OverflowError, match=f"{type(flow).__name__}: t = inf must be reached"):
        flow(np.inf, jax.numpy.asarray(start))
    flow(1.0, jax.numpy.asarray(start))


@pytest.mark.parametrize("s", [1e-152, 1e-153, 1e-154, 1e-170])
def test_a_slow_limit_is_right_or_refused_and_when_traced_the_state_at_a_large_time(s):
    flow, start = ls.BalancedMode(s=s), 1e-3 * s
    late = float(np.sqrt(np.finfo(float).max))
    if s == 1e-152:
        assert abs(flow(np.inf, jax.numpy.asarray(start))["a"] - s) <= 1e-9 * s
    else:
        with pytest.raises(OverflowError, match=r"BalancedMode: t = inf must be reached by 1\.3e154, which"):
            flow(np.inf, jax.numpy.asarray(start))
    traced = compiled(lambda z: flow(np.inf, z)["a"])(start)
    assert np.isclose(traced, flow(late, start)["a"], rtol=1e-12, atol=0.0)  # as the docstring of the call says


def test_counts_must_be_known():
    def loss(classes):
        return ls.NeuralCollapse(2.0, 1.0, 0.5, classes, 2)

    with pytest.raises(TypeError, match="NeuralCollapse: classes"):
        jax.jit(lambda n: loss(n).kappa_d)(3.0)
    with pytest.raises(TypeError, match="BlockKernel: sizes"):
        jax.jit(lambda n: ls.BlockKernel(2.0, 1.0, 0.5, n).eta)(np.array([2.0, 2.0]))


def test_magnitudes_of_both_zeros_are_positive_and_rise():
    magnitude, zeros = arithmetic.namespace(jax.numpy.zeros(1)).abs, jax.numpy.asarray([-0.0, 0.0])
    for found in (magnitude(zeros), jax.jit(magnitude)(zeros)):
        assert not np.signbit(found).any()
    assert [float(jax.grad(magnitude)(x)) for x in (*zeros, -2.0, 3.0)] == [1, 1, -1, 1]
    assert [float(jax.grad(jax.grad(lambda x: x * magnitude(x)))(x)) for x in (*zeros, -2.0, 3.0)] == [2, 2, -2, 2]


@pytest.mark.parametrize(
    "cls",
    quick(
        [cls for cls in ls.laws.ALL if issubclass(cls, ls.laws.Expansion) and cls is not ls.laws.KernelRegression],
        lambda cls: cls.__name__ in ("LearningTime", "FinalKernel", "EarlyAlignment"),
    ),
    ids=lambda cls: cls.__name__,
)
def test_formulas_of_laws_are_traced_and_differentiated(cls):
    law, small = cls.example(np.random.default_rng(0)), cls.scales[0]
    xp = arithmetic.namespace(jax.numpy.zeros(1))

    def formula(law, small):
        return law.approximation(xp, small)

    given = law.cast(xp), xp.asarray(small)
    found, slope = compiled(formula)(*given), compiled(jax.jacfwd(formula, argnums=1))(*given)
    step = 1e-4 * small
    ends = [law.cast(np).approximation(np, np.float64(small + sign * step)) for sign in (1, -1)]
    for name, right in law.cast(np).approximation(np, np.float64(small)).items():
        size = np.max(np.abs(right))
        assert np.max(np.abs(found[name] - right)) <= 1e-12 * size, name
        change = (ends[0][name] - ends[1][name]) / (2 * step)
        assert np.max(np.abs(slope[name] - change)) <= 1e-5 * (size / small + np.max(np.abs(change))), name


def assert_law_slopes(law, formula, small):
    """Compare derivatives of ``formula(law, xp, small)`` in random directions with differences in fifty digits."""
    rng, exact, traced = np.random.default_rng(1), arithmetic.precise(DIGITS), arithmetic.namespace(jax.numpy.zeros(1))
    own = {name: v for name, v in law.parameters().items() if name not in whole(law)}
    changes = {name: 0.3 * rng.normal(size=v.shape) for name, v in own.items()}
    if "covariance" in changes:
        changes["covariance"] += changes["covariance"].T

    def value(amount, xp):
        cast, step = (lambda v: arithmetic.cast(xp, v)), amount * arithmetic.cast(xp, small)
        there = law.cast(xp)._with(**{k: cast(v) + amount * cast(changes[k]) for k, v in own.items()})
        return formula(there, xp, cast(small) + step)

    step = exact.asarray(10) ** -20
    ends = [value(amount, exact) for amount in (step, -step)]
    for name, slope in compiled(jax.jacfwd(lambda amount: value(amount, traced)))(0.0).items():
        right = arithmetic.to_numpy((ends[0][name] - ends[1][name]) / (2 * step)).astype(float)
        assert np.max(np.abs(slope - right)) <= 1e-9 * np.max(np.abs(right)), name


LAWS = ["LayerKernels", "DeepLearningTime", "MatchedOutputs", "equal modes"]


@pytest.mark.parametrize("name", quick(LAWS, lambda name: name in ("LayerKernels", "MatchedOutputs")))
def test_derivatives_of_laws_agree_with_fifty_digits(name):
    cls = getattr(ls.laws, name, ls.laws.MatchedOutputs)
    law = cls.example(np.random.default_rng(0))
    if cls is ls.laws.MatchedOutputs:
        law = law._with(phases=law.phases[[0, 12, 30]])
    if name == "equal modes":
        law = law._with(target=1.3 * np.eye(3, 6))

    def formula(law, xp, small):
        return law.approximation(xp, small) if name != "equal modes" else {"gram": law.gram(xp, small, law.phases + 9)}

    assert_law_slopes(law, formula, 3e-3)


def test_kernel_regression_traces_its_formulas_but_not_the_trained_weights():
    law = ls.laws.KernelRegression.example(np.random.default_rng(0))

    def formula(law, xp, small):
        return {
            "last": law.last_layer(xp, small), "regression": law.regression(xp, small * law.first, small * law.last)
        }  # fmt: skip

    assert_law_slopes(law, formula, 1e-2)
    with pytest.raises(TypeError, match=r"KernelRegression: approximation .* no closed form .* trace last_layer"):
        jax.jit(lambda small: law.approximation(jax.numpy, small))(1e-2)


@pytest.mark.parametrize("name", ["k", "step", "momentum", "decay"])
def test_the_steps_of_descent_must_be_known(name):
    known = {"k": 3, "step": 0.1, "momentum": 0.0, "decay": 0.0}

    def loss(value):
        options = known | {name: value}
        return ls.HiddenMode(s=1.0).discrete(options.pop("k"), ([0.1], [0.2]), **options)["loss"]

    with pytest.raises(TypeError, match=rf"HiddenMode.discrete: {name} is traced by JAX but must be known"):
        jax.jit(loss)(known[name])
    with pytest.raises(TypeError, match=r"HiddenMode.first_step: step is traced by JAX"):
        jax.jit(lambda h: ls.HiddenMode(s=1.0).first_step(([0.1], [0.2]), loss=0.1, step=h))(0.1)
    with pytest.raises(TypeError, match=r"HiddenMode.first_step: flow is traced by JAX"):
        jax.jit(lambda s: ls.HiddenMode(s=s).first_step(([0.1], [0.2]), loss=0.1, step=0.1))(1.0)


def run(code):
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


def test_importing_the_package_does_not_import_jax():
    run("import sys, linsolve; linsolve.BalancedMode(s=1.0)(1.0, 0.1)['loss']; assert 'jax' not in sys.modules")


def test_compilation_in_single_precision_has_no_constant_beyond_its_range():
    code = """if True:
        import warnings
        import jax, numpy as np
        import linsolve as ls
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="linsolve: JAX computes in float32")
        for cls in (ls.TwoLayer, ls.HiddenMode):
            flow, z0 = cls.example(np.random.default_rng(0))
            found = jax.jit(lambda t: flow(t, z0)["loss"])(jax.numpy.asarray([0.5, 1.0]))
            expected = flow([0.5, 1.0], z0)["loss"]
            assert found.dtype == "float32"
            assert np.max(np.abs(found - expected)) <= 1e-5 * np.max(expected)
        """
    run(code)


def starts_of_every_size(sizes):
    """Yield layers of two units, times and targets; equal, opposite and vanishing layers among them."""
    rng = np.random.default_rng(0)
    for size in sizes:
        for kind in range(5):
            w, h = (rng.normal(size=2) * size).astype("float32"), (rng.normal(size=2) * size).astype("float32")
            h = [w, -w, 0 * w, h, h][kind]
            yield w, h, rng.choice([0.0, 1e-3, 1.0, 10.0, 100.0, np.inf]), np.float32(rng.normal())


def hidden_mode(w, h, t, s):
    traj = ls.HiddenMode(s=s, eta_h=0.5)(t, ls.HiddenMode.State(w, h))
    return [traj[name] for name in ("w", "h", "loss", "ntk")]


@pytest.mark.filterwarnings("ignore:linsolve. JAX computes in float32")
def test_two_layers_in_single_precision_agree_with_doubles():
    with jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.disable_x64():
        traced = jax.jit(hidden_mode)
        for w, h, t, s in starts_of_every_size([1.0, 0.1, 1e-3, 1e-8, 1e-12, 1e-16, 1e-25, 1e-30]):
            given = traced(w, h, np.float32(t), s)
            for found, wanted in zip(given, hidden_mode(w.astype(float), h.astype(float), t, float(s)), strict=True):
                assert found.dtype == "float32"
                error = 1e-6 * (1 + abs(s) * min(t, 100)) * np.abs(wanted).max() + 1e-36
                assert np.abs(found - wanted).max() <= error, (w, h, t, s)


def test_tiny_layers_compiled_agree_with_numpy():
    traced = jax.jit(hidden_mode)
    for w, h, t, s in starts_of_every_size([1.0]):
        for size in (1e-100, 1e-130, 1e-160, 1e-200, 1e-300):
            given = w.astype(float) * size, h.astype(float) * size, t, float(s)
            for found, wanted in zip(traced(*given), hidden_mode(*given), strict=True):
                assert np.abs(found - wanted).max() <= 1e-12 * np.abs(wanted).max() + 1e-307


def test_a_matrix_of_zeros_in_single_precision_is_a_gram_matrix():
    with jax.enable_x64(False) if hasattr(jax, "enable_x64") else jax.experimental.disable_x64():
        zero, one = jax.numpy.zeros((2, 2), dtype="float32"), jax.numpy.eye(2, dtype="float32")
        assert ls.LoRA.state((zero, one, zero)).gram_out.dtype == "float32"


def test_single_precision_is_announced_once():
    done = run(
        "import jax, linsolve as ls\n"
        "f = lambda s: ls.BalancedMode(s=s)(1.0, 0.1)['loss']\n"
        "found = [float(jax.jit(f)(2.0)), float(jax.grad(f)(2.0)), float(f(jax.numpy.asarray(2.0)))]\n"
        "assert abs(found[0] - float(f(2.0))) < 1e-6 and found[0] == found[2], found\n"
    )
    assert done.stderr.count("UserWarning") == 1
    assert 'jax.config.update("jax_enable_x64", True)' in done.stderr


def test_a_boolean_is_no_number():
    for flag in (jax.numpy.array(True), jax.numpy.bool_(False)):
        with pytest.raises(TypeError, match=r"BalancedMode: a = .* is a boolean \(state\); pass a number"):
            ls.BalancedMode(s=2.0)(0.0, flag)
        with pytest.raises(TypeError, match=r"BalancedMode: s = .* is a boolean"):
            ls.BalancedMode(s=flag)
    flags = jax.numpy.array([True, False])
    assert ls.BalancedMode(s=2.0)(0.0, flags)["a"].tolist() == [1.0, 0.0]
