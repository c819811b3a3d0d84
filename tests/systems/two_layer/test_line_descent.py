"""Gradient descent of two layers, exactly: against simulations of the weights that share nothing with the package."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import mpmath
import numpy as np
import pytest
from mutants.descent import WRONG

import linsolve as ls
from linsolve import arithmetic


def simulated(flow, z0, steps, *, momentum=0.0, decay=0.0, samples=None):
    """Return the weights of one network after each of `steps`, by descent in the arithmetic of the arguments."""
    y, gamma, eta_u, eta_w, x = (getattr(flow, n) for n in ("y", "gamma", "eta_u", "eta_w", "x"))
    (u, w), move_u, move_w, path = z0, 0 * z0[0], 0 * z0[1], []
    for k, h in enumerate(steps):
        X, Y, weights = (x[None], y[None], [1]) if samples is None else (samples[0], samples[1], samples[2][k])
        slope_u, slope_w = 0 * u, 0 * w
        for point, target, c in zip(X, Y, weights, strict=True):
            hidden = (w * point).sum(axis=1)
            pull = 2 * c * (gamma * (u * hidden).sum() - target) * gamma
            slope_u, slope_w = slope_u + pull * hidden, slope_w + pull * u[:, None] * point
        move_u, move_w = momentum * move_u - h * eta_u * slope_u, momentum * move_w - h * eta_w * slope_w
        u, w = (1 - h * decay) * u + move_u, (1 - h * decay) * w + move_w
        path.append((u, w))
    return path


def drawn(rng, *, wide=1.0):
    flow = ls.TwoLayer(
        y=rng.choice([-1, 1]) * 10 ** rng.uniform(-0.5, 0.5),
        gamma=rng.choice([-1, 1]) * 10 ** rng.uniform(-0.5, 0.5),
        eta_u=10 ** rng.uniform(-1, 1),
        eta_w=10 ** rng.uniform(-1, 1),
        x=rng.normal(size=2),
    )
    size = wide * 10 ** rng.uniform(-2, 0)
    return flow, flow.State(size * rng.normal(size=4), size * rng.normal(size=(4, 2)))


def far(found, expected):
    """Return the largest error relative to the largest weight."""
    return max(float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in zip(found, expected, strict=True))


def step_for(flow, z0, factor):
    """Return a step, `factor` times the edge of stability of the minimum that gradient flow reaches."""
    return factor * 2 / float(flow([np.inf], z0)["sharpness"][0])


@pytest.mark.parametrize("factor", [0.05, 0.5, 0.95, 1.3])
@pytest.mark.quick(1)
def test_weights_equal_those_of_simulated_descent(factor):
    """Over 1500 steps, in runs that converge at once and, for the last factor, in catapults."""
    rng, seen = np.random.default_rng(0), 0
    for _ in range(6):
        flow, z0 = drawn(rng, wide=3.0)
        h = step_for(flow, z0, factor)
        path = simulated(flow, z0, [h] * 1500)
        if not np.isfinite(path[-1][0]).all() or abs(flow.residual(np, flow.State(*path[-1]))) > 1e-9:
            continue  # a cycle, or divergence
        seen += 1
        traj = flow.discrete([1, 5, 400, 1500], z0, step=h)
        for place, k in enumerate([1, 5, 400, 1500]):
            assert far([v[place] for v in traj.state], path[k - 1]) <= 1e-13 * (10 if factor > 1 else 1)
    assert seen >= (2 if factor > 1 else 6)


@pytest.mark.parametrize("steps", [2_000, pytest.param(10_000, marks=pytest.mark.exhaustive)])
def test_two_hundred_draws_over_many_steps(steps):
    """Networks of one batch, at steps from far below the edge of stability to beyond it; those that converge count."""
    rng = np.random.default_rng(1)
    singles = [drawn(rng, wide=3.0) for _ in range(320)]
    names = ("y", "gamma", "eta_u", "eta_w", "x")
    factor = rng.uniform(0.02, 1.4, len(singles))
    h = np.array([step_for(*single, f) for single, f in zip(singles, factor, strict=True)])
    flow = ls.TwoLayer(**{name: np.stack([getattr(each, name) for each, _ in singles]) for name in names})
    flow = dataclasses.replace(flow, eta_u=flow.eta_u * h, eta_w=flow.eta_w * h)  # a step of 1
    u, w = (np.stack([getattr(z, name) for _, z in singles]) for name in ("u", "w"))
    start = flow.State(u, w)
    with np.errstate(all="ignore"):
        for _ in range(steps):
            hidden = (w * flow.x[:, None]).sum(axis=2)
            pull = (2 * flow.gamma * (flow.gamma * (u * hidden).sum(axis=1) - flow.y))[:, None]
            move = (flow.eta_w[:, None] * pull * u)[..., None] * flow.x[:, None]
            u, w = u - flow.eta_u[:, None] * pull * hidden, w - move
        rest = np.abs(flow.residual(np, flow.State(u, w))) <= 1e-9
    assert rest.sum() >= 200
    assert (rest & (factor > 1)).sum() >= 10  # catapults
    names = (*names, *start._fields)
    kept = {name: value[rest] for name, value in {**flow.parameters(), **start._asdict()}.items()}
    traj = ls.TwoLayer(**{n: kept[n] for n in names[:5]}).discrete(steps, (kept["u"], kept["w"]), step=1.0)
    size = np.maximum(np.abs(u).max(axis=1), np.abs(w).max(axis=(1, 2)))[rest]
    errors = np.maximum(np.abs(traj["u"] - u[rest]).max(axis=1), np.abs(traj["w"] - w[rest]).max(axis=(1, 2))) / size
    calm = factor[rest] < 1
    assert errors[calm].max() <= 1e-13
    assert errors.max() <= 1e-12


@pytest.mark.exhaustive
@pytest.mark.parametrize("minibatches", [False, True])
def test_two_hundred_draws_of_schedules_and_of_sgd_over_ten_thousand_steps(minibatches):
    """Random step lengths, and random pairs of six samples on a line, in machine code against the raw weights."""
    rng, count, line = np.random.default_rng(11), 10_000, np.array([0.6, -0.8])
    a = rng.normal(size=6)
    X, y = a[:, None] * line, 0.7 * a + 0.1 * rng.normal(size=6)
    data = ls.TwoLayer.from_dataset(X, y)
    singles = [drawn(rng) for _ in range(200)]
    singles = [(dataclasses.replace(flow, x=data.x, y=data.y), z) for flow, z in singles]
    h = np.array([step_for(*single, 0.15 if minibatches else 0.6) for single in singles])
    rates = [np.stack([getattr(flow, n) for flow, _ in singles]) for n in ("gamma", "eta_u", "eta_w")]
    gamma, eta_u, eta_w = rates[0], rates[1] * h, rates[2] * h  # a step of 1
    flow = ls.TwoLayer(y=data.y, gamma=gamma, eta_u=eta_u, eta_w=eta_w, x=data.x)
    u, w = (np.stack([getattr(z, name) for _, z in singles]) for name in ("u", "w"))
    lengths = rng.uniform(0.3, 1.0, count)
    picks = (rng.random((count, 6)).argsort(axis=1) < 2) / 2.0 if minibatches else np.full((count, 6), 1 / 6)
    samples = (X, y, picks) if minibatches else None
    traj = flow.discrete(count, flow.State(u, w), step=lengths, samples=samples, engine="compiled")
    u, w, gamma = (np.asarray(v, dtype=np.longdouble) for v in (u, w, gamma))  # the simulation rounds, too
    for length, weights in zip(lengths, picks, strict=True):
        hidden = (w * line).sum(axis=2)
        output = gamma * (u * hidden).sum(axis=1)
        pull = (2 * length * gamma * ((output[:, None] * a - y) @ (weights * a)))[:, None]
        move = (eta_w[:, None] * pull * u)[..., None] * line
        u, w = u - eta_u[:, None] * pull * hidden, w - move
    size = np.maximum(np.abs(u).max(axis=1), np.abs(w).max(axis=(1, 2)))
    errors = np.maximum(np.abs(traj["u"] - u).max(axis=1), np.abs(traj["w"] - w).max(axis=(1, 2))) / size
    assert errors.max() <= 1e-13


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.05), (0.8, 0.05)])
@pytest.mark.quick(1)
def test_fifty_digits_with_schedules_momentum_and_decay(momentum, decay):
    xp = arithmetic.precise(60)
    rng = np.random.default_rng(2)
    flow, z0 = drawn(rng)
    lengths = step_for(flow, z0, 0.2) * rng.uniform(0.2, 1.5, 30)
    exact = flow.cast(xp)
    start = flow.State(*(xp.asarray(v) for v in z0))
    path = simulated(exact, start, xp.asarray(lengths), momentum=xp.asarray(momentum), decay=xp.asarray(decay))
    traj = exact.discrete([3, 30], start, step=lengths, momentum=momentum, decay=decay)
    for place, k in enumerate([3, 30]):
        assert far([v[place] for v in traj.state], path[k - 1]) <= 1e-45
    doubles = flow.discrete([3, 30], z0, step=lengths, momentum=momentum, decay=decay)
    assert far([v[1] for v in doubles.state], [arithmetic.to_numpy(v) for v in path[-1]]) <= 1e-13


def test_sgd_on_a_line_path_by_path():
    xp = arithmetic.precise(60)
    rng = np.random.default_rng(3)
    flow, z0 = drawn(rng)
    X, y = rng.normal(size=(6, 1)) * np.array([0.6, -0.8]), rng.normal(size=6)
    flow = ls.TwoLayer.from_dataset(X, y, gamma=flow.gamma, eta_u=flow.eta_u, eta_w=flow.eta_w)
    picks = np.array([rng.permutation(6) < 2 for _ in range(40)]) / 2.0  # minibatches of two
    h = step_for(flow, z0, 0.1)
    samples = (xp.asarray(X), xp.asarray(y), xp.asarray(picks))
    exact, start = flow.cast(xp), flow.State(*(xp.asarray(v) for v in z0))
    path = simulated(exact, start, [xp.asarray(h)] * 40, samples=samples)
    traj = exact.discrete([1, 40], start, step=h, samples=(X, y, picks))
    assert far([v[1] for v in traj.state], path[-1]) <= 1e-15  # x of the data set is rounded to doubles
    doubles = flow.discrete(40, z0, step=h, samples=(X, y, picks))
    assert far(doubles.state, [arithmetic.to_numpy(v) for v in path[-1]]) <= 1e-13
    both = flow.discrete(40, z0, step=h, samples=(X, y, np.stack([picks, picks[::-1]], axis=1)))
    assert both["u"].shape == (2, 4)
    np.testing.assert_allclose(both["u"][0], doubles["u"], rtol=1e-13)


def test_all_samples_in_each_step_are_full_batch_descent():
    X, y = np.array([[1.0, 2.0], [-0.5, -1.0]]), np.array([1.0, 0.3])
    flow, z0 = ls.TwoLayer.from_dataset(X, y), ([0.3, 0.1], [[0.2, 0.1], [-0.4, 0.3]])
    once = flow.discrete(50, z0, step=0.02)
    weighted = flow.discrete(50, z0, step=0.02, samples=(X, y, np.full((50, 2), 0.5)))
    np.testing.assert_allclose(weighted["w"], once["w"], rtol=1e-13)


def test_the_invariant_of_the_flow_changes_by_its_product():
    """A B multiplies by (1 - e^2)^2 in each step, with e from the simulated weights."""
    rng = np.random.default_rng(4)
    flow, z0 = drawn(rng, wide=3.0)
    h = step_for(flow, z0, 1.2)
    path = [z0, *simulated(flow, z0, [h] * 60)]
    g = np.sqrt(flow.eta_u * flow.eta_w) * flow.gamma * np.linalg.norm(flow.x)
    e = np.array([2 * h * g * flow.residual(np, flow.State(*at)) for at in path[:-1]])
    found = flow.discrete(np.arange(61), z0, step=h)["invariant"]
    np.testing.assert_allclose(found / found[0], np.concatenate([[1.0], np.cumprod((1 - e**2) ** 2)]), rtol=1e-11)
    u, hidden = z0.u * np.sqrt(flow.eta_w) * np.linalg.norm(flow.x), (z0.w @ flow.x) * np.sqrt(flow.eta_u)
    p, q = (hidden + u) / 2, (hidden - u) / 2
    assert found[0] == pytest.approx(flow.gamma**4 * (p @ p) * (q @ q), rel=1e-13)


def test_a_catapult_ends_at_a_flatter_minimum():
    flow = ls.TwoLayer(y=1.0, x=[1.0])
    z0 = ([2.0], [[0.5001]])
    before = float(flow(np.inf, z0)["sharpness"])
    step = 2.6 / before
    traj = flow.discrete([0, 5, 3000], z0, step=step)
    assert traj["loss"][1] > 10 * traj["loss"][0]
    assert traj["loss"][2] <= 1e-20
    assert traj["sharpness"][2] * step <= 2 < before * step


@pytest.mark.parametrize("theta", ["0.3", "1.1"])
def test_exactly_solvable_chaos(theta):
    """At step times sharpness 4 of the balanced minimum, x_k = 4 sin^2(3^k theta) after 60 chaotic steps."""
    xp = arithmetic.precise(60)
    mp = mpmath.MPContext()
    mp.dps = 90
    angle = mp.mpf(theta)
    weight = xp.asarray([mp.sqrt(2) * mp.sin(angle)])  # x = rho A with rho = 2 h = 2, A = u^2
    flow = ls.TwoLayer(y=1.0, x=[1.0]).cast(xp)
    traj = flow.discrete([1, 20, 60], flow.State(weight, weight[:, None]), step=1.0)
    for place, k in enumerate([1, 20, 60]):
        expected = 4 * mp.sin(3**k * angle) ** 2
        assert abs(mp.mpf(str(2 * traj["output"][place])) - expected) <= mp.mpf("1e-12")


EDGES = {
    "frozen u": {"eta_u": 0.0},
    "frozen w": {"eta_w": 0.0},
    "nearly frozen": {"eta_w": 1e-18},
    "no scale": {"gamma": 0.0},
    "no input": {"x": [0.0, 0.0]},
    "one input": {"x": [0.0, 2.0]},
    "tiny scale": {"gamma": 1e-200},
}


@pytest.mark.parametrize("case", EDGES)
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_edges(case, momentum):
    flow, z0 = drawn(np.random.default_rng(6))
    flow = dataclasses.replace(flow, **EDGES[case])
    path = simulated(flow, z0, [0.01] * 50, momentum=momentum)
    traj = flow.discrete(50, z0, step=0.01, momentum=momentum)
    assert far(traj.state, path[-1]) <= 1e-13
    assert float(traj["residual"]) == pytest.approx(float(flow.residual(np, flow.State(*path[-1]))), rel=1e-11)


def test_starts_of_every_size_leave_the_saddle():
    """Tiny weights grow by the same factors as larger ones until the target is felt."""
    flow = ls.TwoLayer(y=1.0, x=[1.0])
    u = np.array([1e-3, 1e-100, 1e-200, 1e-300])[:, None]
    traj = flow.discrete([100, 20_000], flow.State(u, u[..., None]), step=0.1)
    np.testing.assert_allclose(traj["u"][0, 1:] / u[1:], 1.2**100, rtol=1e-13)  # u <- u (1 + 2 step y)
    np.testing.assert_allclose(traj["output"][1], 1.0, rtol=1e-13)


@pytest.mark.exhaustive
def test_first_step_is_where_the_simulated_loss_falls():
    flow, z0 = drawn(np.random.default_rng(7))
    h = step_for(flow, z0, 0.1)
    losses = [flow.loss(np, flow.State(*z)) for z in simulated(flow, z0, [h] * 400)]
    goal = losses[60] * 1.0001
    expected = 1 + next(k for k, value in enumerate(losses) if value <= goal)
    assert flow.first_step(z0, loss=goal, step=h).tolist() == expected
    assert flow.first_step(z0, loss=0.0, step=h, max_steps=10) == np.inf
    for engine in ("plain", "compiled"):
        assert flow.first_step(z0, loss=0.0, step=h, engine=engine) == np.inf  # the loss underflows
    assert ls.DeepMode(s=2.0, depth=1.0).first_step([0.5, 2.0], loss=0.0, step=1.0).tolist() == [1.0, 0.0]
    for other in (ls.TwoLayer, ls.TwoLayerOrder, ls.BalancedMode, ls.HiddenMode):
        others, start = other.example(np.random.default_rng(3))
        counts = [others.first_step(start, loss=1e-3, step=0.01, engine=engine) for engine in ("plain", "compiled")]
        assert counts[0].tolist() == counts[1].tolist()
        assert np.isfinite(counts[0]).any()
    assert flow.first_step(z0, loss=goal, step=1e3 * h) == np.inf  # diverges
    with pytest.raises(ValueError, match=r"TwoLayer\.first_step: step = \[0\.1, 0\.2\] must be"):
        flow.first_step(z0, loss=goal, step=[0.1, 0.2])


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.quick(2)
def test_verify_rejects_wrong_steps(wrong):
    flow, z0 = ls.HiddenMode.example(np.random.default_rng(0))
    mutant = type("Mutant", (WRONG[wrong], ls.HiddenMode), {})(*flow.parameters().values())
    assert ls.verify(mutant, z0, checks="discrete").failed == ["discrete"]


SCHEDULE = 0.01 * np.linspace(0.5, 1.0, 500)
WITH_MOVES = {"momentum": 0.8, "decay": 0.1}
COMPILED = [
    (flow, given)
    for flow in (ls.TwoLayer, ls.HiddenMode, ls.LazyTwoLayer, ls.TwoLayerOrder, ls.BalancedMode)
    for given in ({"step": 0.01}, {"step": SCHEDULE}, WITH_MOVES | {"step": 0.01}, WITH_MOVES | {"step": SCHEDULE})
    if set(given) <= {"step", *flow.rules}
]


@pytest.mark.parametrize(("flow", "given"), COMPILED)
@pytest.mark.quick(6)
def test_machine_code_takes_the_same_steps_to_the_last_bit(flow, given):
    flow, z0 = flow.example(np.random.default_rng(8))
    plain, fast = (flow.discrete([[0, 500], [7, 64]], z0, engine=engine, **given) for engine in ("plain", "compiled"))
    for name in (*plain.state._fields, "loss"):
        np.testing.assert_array_equal(fast[name], plain[name])


def test_machine_code_takes_minibatches_and_ragged_batches_to_the_last_bit():
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(6, 1)) * np.array([0.6, -0.8]), rng.normal(size=6)
    flow, z0 = ls.TwoLayer.from_dataset(X, y), (0.3 * rng.normal(size=(3, 1, 4)), 0.3 * rng.normal(size=(3, 1, 4, 2)))
    picks = (rng.random((50, 7, 6)) < 0.4) / 2.0  # seven sequences of minibatches, three networks
    for samples in ((X, y, picks), (X, y, picks[:, 0])):
        fast, plain = (
            flow.discrete(50, z0, step=0.05, samples=samples, engine=engine) for engine in ("compiled", "plain")
        )
        np.testing.assert_array_equal(fast["w"], plain["w"])
    threads = [flow.discrete(50, z0, step=0.05, engine="compiled", threads=n)["w"] for n in (1, 2)]
    np.testing.assert_array_equal(*threads)


def test_machine_code_takes_powers_within_an_ulp():
    flow, z0 = ls.DeepMode.example(np.random.default_rng(0))
    fast, plain = (flow.discrete([3, 300], z0, step=0.01, engine=engine)["a"] for engine in ("compiled", "plain"))
    np.testing.assert_allclose(fast, plain, rtol=1e-14)


def test_machine_code_refuses_divergence_at_the_same_step():
    flow, z0 = ls.TwoLayer(y=1.0, x=[1.0]), ([[0.5], [0.2]], [[[0.5]], [[0.1]]])
    said = []
    for engine in ("plain", "compiled"):
        with pytest.raises(ArithmeticError, match=r"leaves the range of doubles at step \d+ of k = 4000") as caught:
            flow.discrete([2, 4000], z0, step=2.1, engine=engine)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_errors_name_the_argument():
    flow, z0 = ls.TwoLayer(y=1.0, x=[1.0]), ([0.5], [[0.5]])
    for arguments, message in (
        ({"k": 1.5}, r"TwoLayer\.discrete: k = 1\.5 must be whole numbers"),
        ({"k": -1}, r"k = -1 must be whole numbers"),
        ({"k": 10**7}, r"k = 10000000 must be at most 2000000"),
        ({"step": 0.0}, r"step = 0\.0 must lie in \(0, inf\)"),
        ({"step": [0.1, 0.2]}, r"step has 2 entries along its first axis but must have one for each of k = 3 steps"),
        ({"step": np.ones((3, 2))}, r"step has shape \(3, 2\) but must be one number or one for each step"),
        ({"momentum": 1.0}, r"momentum = 1\.0 must be a number in \[0, 1\)"),
        ({"decay": 20.0}, r"decay = 20 must be below 1/step = 10"),
        ({"samples": 3}, r"samples = 3 must be three arrays"),
        ({"samples": ([[1.0]], [1.0], [[1.0]])}, r"samples\[2\] has 1 entries along its first axis"),
        ({"samples": ([[1.0]], [1.0], [[-1.0]] * 3)}, r"samples\[2\] = -1\.0 .* must lie in \[0, inf\)"),
        ({"threads": 0}, r"TwoLayer\.discrete: threads = 0 must be"),
        ({"engine": "blocks"}, r"TwoLayer\.discrete: engine = 'blocks' is unknown"),
        (
            {"step": 3.0, "k": 400},
            r"TwoLayer leaves the range of doubles at step \d+ of k = 400 \(descent diverges\); the \w+ leaves? it",
        ),
    ):
        given = {"k": 3, "step": 0.1} | arguments
        with pytest.raises((ValueError, ArithmeticError), match=message):
            flow.discrete(given.pop("k"), z0, **given)
    for k, message in ((2.5, "say 2"), (-1, "say 0"), ([1.2, -3], r"say \[1, 0\]"), ("x", "say 100")):
        with pytest.raises(ValueError, match=rf"k = .* must be whole numbers, not negative .*; {message}$"):
            flow.discrete(k, z0, step=0.1)
    with pytest.raises(ArithmeticError, match=r"the \w+ leaves? it first, at member \[1\] of the batch; use fewer"):
        flow.discrete(400, ([[0.5], [5.0]], [[[0.5]], [[5.0]]]), step=0.1)
    xp = arithmetic.precise(30)
    with pytest.raises(ValueError, match=r"engine = 'compiled' must be 'plain' for arrays of"):
        flow.cast(xp).discrete(1, (xp.asarray([0.5]), xp.asarray([[0.5]])), step=0.1, engine="compiled")
    off = ls.TwoLayer(y=1.0, x=[1.0, 0.0])
    with pytest.raises(ls.NotExact, match="samples must lie on the line of the flow's x"):
        off.discrete(1, ([0.5], [[0.5, 0.1]]), step=0.1, samples=([[0.0, 1.0]], [1.0], [[1.0]]))
    with pytest.raises(ValueError, match=r"BalancedMode\.discrete: momentum = 0\.5 must be 0"):
        ls.BalancedMode(s=1.0).discrete(3, 0.1, step=0.1, momentum=0.5)
    with pytest.raises(ValueError, match=r"HiddenMode\.discrete: samples must be left out"):
        ls.HiddenMode(s=1.0).discrete(3, ([0.1], [0.1]), step=0.1, samples=([[1.0]], [1.0], [[1.0]] * 3))


def test_samples_of_any_size():
    def u(size, x):
        flow, samples = ls.TwoLayer(y=1.0, x=[x, 0.0]), ([[size, 0.0], [2 * size, 0.0]], [1.0, 2.0], [[0.5, 0.5]])
        return flow.discrete(1, ([0.5], [[0.5, 0.1]]), step=0.1, samples=samples)["u"]

    assert u(1e-200, 1e-200).tolist() == [0.5]  # the gradient vanishes in doubles
    with pytest.raises(OverflowError, match=r"samples\[0\] of magnitude 2e\+200 leads beyond"):
        u(1e200, 1.0)
    with pytest.raises(OverflowError, match=r"discrete: x of magnitude 1e-200 leads beyond"):
        u(1.0, 1e-200)


@pytest.mark.parametrize("step", [1e15, 1e17, 1e30])
def test_a_unit_without_input_keeps_its_small_weights_in_a_huge_step(step):
    """A unit with ``w x = 0`` keeps ``u`` in the first step, while all others grow by many orders of magnitude."""
    x, u, w = np.array([1.0, 2.0]), np.array([0.1, 0.2, 0.3]), np.array([[2.0, -1.0], [0.3, 0.1], [0.5, 0.2]])
    found = ls.TwoLayer(y=1.0, x=x).discrete([1, 2], (u, w), step=step)
    for k in range(2):
        pull = 2 * step * (u @ (w @ x) - 1)
        u, w = u - pull * (w @ x), w - pull * u[:, None] * x
        np.testing.assert_allclose(found["u"][k], u, rtol=1e-14)
        np.testing.assert_allclose(found["w"][k], w, rtol=1e-14)


def test_the_output_that_leaves_the_range_of_doubles_is_named():
    with pytest.raises(ArithmeticError, match=r"at step 1 of k = 1 .*; the output leaves it first"):
        ls.TwoLayer(y=1.0, x=[1.0]).discrete([1], ([0.1], [[0.2]]), step=1e299)


@pytest.mark.parametrize("sizes", [(0.01, 0.01), (0.3, 0.3), (3.0, 0.1), (0.1, 5.0)])
@pytest.mark.parametrize("step", [0.9, 1.0, 30.0])
def test_the_step_that_a_divergence_advises_converges(sizes, step):
    flow = ls.TwoLayer(y=1.0, x=[1.0, -2.0, 0.5])
    z0 = ls.TwoLayer.init(20, 3, sigma_u=sizes[0], sigma_w=sizes[1], rng=0)
    with pytest.raises(ArithmeticError, match="or a step below") as caught:
        flow.discrete(1000, z0, step=step)
    start, limit = 2 / flow([0.0, np.inf], z0)["sharpness"]
    advised = (
        f"or a step below {min(start, limit):.3g} (2/sharpness: {start:.3g} at the start, {limit:.3g} at the limit)"
    )
    assert str(caught.value).endswith(advised)
    assert flow.discrete(5000, z0, step=0.98 * min(start, limit))["loss"] < 1e-20


@pytest.mark.parametrize(
    ("depth", "edge"), [(1.0, 2.0), (2.0, 0.5), (3.5, 2 / 3.5 / 2**1.4285714285714286), (np.inf, 0.5)]
)
def test_the_step_that_a_divergence_of_modes_advises_is_the_edge_of_the_minimum(depth, edge):
    flow = ls.DeepMode(s=2.0, depth=depth)
    if depth < np.inf:  # no step makes the limit of infinite depth leave the doubles
        with pytest.raises(ArithmeticError, match=rf"{edge:.3g} at the limit\)"):
            flow.discrete(100_000, 1.9, step=50.0)
    near = 2.0 - 1e-4
    assert flow.discrete(5000, near, step=0.99 * edge)["loss"] < 1e-20
    assert flow.discrete(5000, near, step=1.01 * edge)["loss"] > 1e-8


def test_the_curvature_of_modes_is_the_second_derivative_in_the_shared_weight():
    xp = arithmetic.precise(50)
    for depth, s, a in ((2, 1.5, 0.4), (2, -1.5, 0.4), (3, 2.0, 0.7), (1.5, 2.0, 2.5), (4, -1.0, -1.0)):
        flow = ls.DeepMode(s=xp.asarray(s), depth=xp.asarray(depth), tau=xp.asarray(0.7))
        h, raw = xp.asarray(10) ** -15, flow.definition(xp)
        u = xp.sign(xp.asarray(a)) * xp.abs(xp.asarray(a)) ** (1 / xp.asarray(depth))
        below, here, above = ((raw.output({"u": u + k * h}) - flow.s) ** 2 / 2 for k in (-1, 0, 1))
        second = (above - 2 * here + below) / h**2 * raw.rates["u"]
        found = flow.curvature(xp, flow.State(xp.asarray(a)))
        assert abs(found - second) < 1e-15 * abs(second)
        if depth == 2:
            two = ls.BalancedMode(s=flow.s, tau=flow.tau).curvature(xp, flow.State(xp.asarray(a)))
            assert abs(two - second) < 1e-15 * abs(second)


@pytest.mark.parametrize("known", ["nothing", "the limit"])
def test_a_divergence_of_a_flow_without_sharpness_advises_a_much_smaller_step(known):
    class Quartic(ls.Map):
        class State(NamedTuple):
            w: Any

        axes: ClassVar = {"w": ()}

        def velocity(self, xp, z):
            return self.State(-(z.w**3))

        if known == "the limit":

            def limit(self, xp, z0):
                return self.State(0 * z0.w)

    with pytest.raises(ArithmeticError, match=r"use fewer steps, or a much smaller step$"):
        Quartic().discrete(1000, 10.0, step=1.0)
