"""Low-rank adaptation against simulated A and B, its limits and times, and the starts that it refuses."""

import numpy as np
import pytest
from mutants.lora import FLOW, LORA, START
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import linsolve as ls


def simulated(parameters, a, b, t):
    """Return A and B at times, by DOP853 of ``tau A' = c B^T E``, ``tau B' = ratio c E A^T``."""
    target, base, scale, ratio, tau = parameters
    scale, ratio, tau = (v[:, None, None] for v in (scale, ratio, tau))
    cut = a.size

    def rate(_, z):
        first, second = z[:cut].reshape(a.shape), z[cut:].reshape(b.shape)
        error = target - base - scale * (second @ first)
        da = scale * np.swapaxes(second, -1, -2) @ error / tau
        db = ratio * scale * error @ np.swapaxes(first, -1, -2) / tau
        return np.concatenate([da.ravel(), db.ravel()])

    start = np.concatenate([a.ravel(), b.ravel()])
    path = solve_ivp(rate, (0.0, t[-1]), start, "DOP853", t, rtol=3e-14, atol=1e-15).y.T
    return path[:, :cut].reshape(-1, *a.shape), path[:, cut:].reshape(-1, *b.shape)


def drawn(rng, rank, draws=25):
    """Return parameters of a batch and adapters with closed form, for rank one with a Gaussian A and B."""
    target, base = rng.normal(size=(2, draws, 4, 3))
    scale, ratio, tau = rng.uniform(0.5, 2.0, size=(3, draws))
    if rank == 1:
        a, b = rng.normal(size=(draws, 1, 3)), rng.normal(size=(draws, 4, 1))
    else:
        a, b = ls.LoRA.init(3, rank, 4, size=0.7, batch=(draws,), rng=rng)
    return (target, base, scale, ratio, tau), a, b


@pytest.mark.parametrize(("rank", "draws"), [(1, 30), (2, 40), (3, 30)])
def test_a_hundred_draws_equal_simulated_adapters(rank, draws):
    parameters, a, b = drawn(np.random.default_rng(rank), rank, draws)
    t = np.array([0.3, 0.9, 2.0])
    first, second = simulated(parameters, a, b, t)
    flow = ls.LoRA(*parameters)
    traj = flow(t, flow.of(a, b))
    whole = parameters[1] + parameters[2][:, None, None] * (second @ first)
    loss = ((parameters[0] - whole) ** 2).sum(axis=(-2, -1)) / 2
    assert np.abs(traj["map"] - whole).max() <= 1e-11
    assert np.abs(traj["loss"] - loss).max() <= 1e-11
    assert np.abs(traj["gram_in"] - np.swapaxes(first, -1, -2) @ first).max() <= 1e-11
    assert np.abs(traj["gram_out"] - second @ np.swapaxes(second, -1, -2)).max() <= 1e-11


@pytest.mark.exhaustive
def test_adapters_that_both_differ_from_zero_are_proved():
    report = ls.verify(FLOW, START)
    assert report.ok, str(report)


def test_maps_with_more_inputs_than_outputs_are_those_of_the_network():
    rng = np.random.default_rng(3)
    target, base = rng.normal(size=(2, 3, 4))
    flow, rows = ls.LoRA(target, base, scale=1.5, ratio=0.7), np.array([[1.0, 2.0, 2.0, 4.0], [2.0, -1.0, 4.0, -2.0]])
    report = ls.verify(flow, flow.of(rows / 8, np.zeros((3, 2))), checks=["observables"])
    assert report.ok, str(report)


@pytest.mark.parametrize("name", LORA)
def test_each_mutant_is_rejected_by_the_check_that_should_see_it(name):
    mutant = LORA[name]
    assert ls.verify(mutant.flow, mutant.z0, checks=[mutant.seen_by]).failed == [mutant.seen_by]


def test_gaussian_adapters_are_refused_with_their_distance_and_integrated():
    rng = np.random.default_rng(0)
    parameters, _, b = drawn(rng, 2, 3)
    a = rng.normal(size=(3, 2, 3))
    flow = ls.LoRA(*parameters)
    with pytest.raises(ls.NotExact, match=r"LoRA: distance of the imbalance .* = 1.66 must vanish .*simulate"):
        flow(1.0, flow.of(a, b))
    rows = np.linalg.qr(np.swapaxes(a, -1, -2))[0]
    nearest = flow.of(0.7 * np.swapaxes(rows, -1, -2), b)
    assert [float(next(iter(flow.conditions(np, z).values())).min()) > 0.1 for z in (flow.of(a, b), nearest)] == [
        True,
        False,
    ]
    first, second = simulated(parameters, a, b, np.array([0.5, 1.5]))
    found = flow.simulate([0.5, 1.5], a, b, rtol=1e-12)
    assert np.abs(found["product"] - second @ first).max() <= 1e-9
    assert found.route == "DOP853"


@pytest.mark.parametrize("size", [1e-115, 1e-120])
def test_adapters_whose_rescaled_gram_matrices_underflow_are_integrated_and_descended(size):
    a, b = ls.LoRA.init(3, 2, 3, size=size, rng=0)
    flow = ls.LoRA(np.diag([4.0, 2.0, 2.0]), np.eye(3), scale=1e-60, ratio=1e-60, tau=1e-90)
    state = flow.of(a, b)
    with pytest.raises(OverflowError, match=r"gram_in = .* leaves the range of doubles"):
        flow(1.0, state)
    steps = 4
    w1, w2 = a, b
    for _ in range(steps):
        e = np.diag([3.0, 1.0, 1.0]) - 1e-60 * (w2 @ w1)
        w1, w2 = w1 + 0.25 * 1e30 * (w2.T @ e), w2 + 0.25 * 1e-30 * (e @ w1.T)
    descended = ls.descend(flow, 1.0, state, step=1 / steps).state
    integrated = ls.integrate(flow, 1.0, state).state
    followed = flow.simulate(1.0, a, b).state
    for found, wanted, tolerance in ((descended, flow.of(w1, w2), 1e-12), (integrated, followed, 1e-8)):
        for value, right in zip(found, wanted, strict=True):
            assert np.abs(value - right).max() <= tolerance * np.abs(right).max()


def test_a_generic_start_learns_the_best_approximation_of_its_rank():
    rng = np.random.default_rng(1)
    target, base = rng.normal(size=(2, 5, 4))
    u, s, vh = np.linalg.svd(target - base, full_matrices=False)
    for rank in (1, 2, 3, 4):
        flow = ls.LoRA(target, base, scale=4 / rank, ratio=16.0)
        end = flow(np.inf, flow.of(*ls.LoRA.init(4, rank, 5, size=0.1, rng=rng)))
        assert np.abs(end["map"] - base - (u[:, :rank] * s[:rank]) @ vh[:rank]).max() <= 1e-12
        assert np.abs(end["strengths"] - np.where(np.arange(4) < rank, s, 0)).max() <= 1e-12


def test_directions_are_learned_in_the_order_of_their_singular_values():
    rng = np.random.default_rng(2)
    u, v = (np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in (4, 3))
    s, base = np.array([3.0, 2.0, 1.0]), rng.normal(size=(4, 3))
    flow = ls.LoRA((u * s) @ v.T + base, base, scale=2.0, ratio=3.0, tau=0.7)
    rows = ls.LoRA.init(3, 2, 4, size=1.0, rng=rng)

    def half(size, mode):
        z0 = flow.of(size * rows[0], rows[1])
        return brentq(lambda t: float(flow(t, z0)["strengths"][mode]) - s[mode] / 2, 0.0, 30.0, xtol=1e-12)

    times = np.array([[half(size, mode) for mode in (0, 1)] for size in (1e-5, 1e-6)])
    assert (times[:, 0] < times[:, 1]).all()
    slower = 0.7 * np.log(100) / (2 * 2.0 * np.sqrt(3.0) * s[:2])  # |A|^2 falls by 100
    assert np.abs((times[1] - times[0]) / slower - 1).max() <= 1e-4
    assert abs(float(flow(times.max() + 2, flow.of(1e-6 * rows[0], rows[1]))["strengths"][2])) <= 1e-3


def test_a_sequence_of_fine_tuning_tasks_equals_simulated_adapters():
    rng = np.random.default_rng(4)
    (target, base, *rest), a, b = drawn(rng, 2, 5)
    other = rng.normal(size=target.shape)
    flows = [ls.LoRA(each, base, *rest) for each in (target, other)]
    traj = ls.sequence([(flows[0], 1.0), (flows[1], 0.8)], flows[0].of(a, b))([1.0, 1.8])
    first = [w[-1] for w in simulated((target, base, *rest), a, b, np.array([1.0]))]
    second = [w[-1] for w in simulated((other, base, *rest), *first, np.array([0.8]))]
    for index, (down, up) in enumerate((first, second)):
        assert np.abs(traj["product"][index] - up @ down).max() <= 1e-11


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ls.LoRA.init(3, 4, 5, size=0.1), r"LoRA.init: rank = 4 must be at most n_in = 3"),
        (lambda: ls.LoRA.init(3, 0, 5, size=0.1), r"LoRA.init: rank = 0 must be a positive integer"),
        (lambda: ls.LoRA.init(3, 2, 5, size=-1.0), r"LoRA.init: size = -1.0 must be a number in \[0, 1e150\]"),
        (
            lambda: ls.LoRA(np.eye(2), np.eye(3)),
            r"LoRA: base has shape \(3, 3\), so n_out = 3, but target has n_out = 2",
        ),
        (lambda: ls.LoRA(np.eye(2), np.eye(2), scale=0.0), r"LoRA: scale = 0.0 must lie in \[1e-100, 1e100\]"),
        (lambda: ls.LoRA(np.eye(2), 1e200 * np.eye(2)), r"LoRA: base = 1e\+200 \(largest entry\) must be below"),
        (
            lambda: ls.LoRA(np.eye(2), np.eye(2), tau=1.7e308),
            r"LoRA: tau = 1.7e\+308 makes the rate .* range of doubles",
        ),
        (
            lambda: ls.LoRA(np.eye(2), np.eye(2), tau=5e-324),
            r"LoRA: tau = 4.94e-324 makes the rate .* range of doubles",
        ),
        (
            lambda: ls.LoRA(np.eye(2), np.eye(2), tau=1e-260, ratio=1e100),
            r"LoRA: tau = 1e-260 makes the rate .* range of doubles",
        ),
        (
            lambda: ls.LoRA(np.eye(2), 0 * np.eye(2))(1.0, (np.zeros((2, 2)), 5e-324 * np.eye(2), np.zeros((2, 2)))),
            r"LoRA: gram_in = 4.94e-324 \(largest entry\) must be 0 or at least 2.23e-308",
        ),
        (
            lambda: ls.LoRA(np.eye(2), 0 * np.eye(2), scale=1e-8)(
                1.0, ls.LoRA.of(1e-150 * np.eye(2), np.zeros((2, 2)))
            ),
            r"LoRA: gram_in = 1e-300 \(largest entry\) times scale sqrt\(ratio\) = 1e-08 leaves the range of doubles",
        ),
        (
            lambda: ls.LoRA(np.eye(2), 0 * np.eye(2), scale=[1.0, 1e-100], ratio=1e50)(
                1.0, ls.LoRA.of(1e-100 * np.eye(2), 1e-100 * np.eye(2))
            ),
            r"LoRA: gram_out = 1e-200 \(largest entry\) times scale / sqrt\(ratio\) = 1e-125 leaves",
        ),
        (lambda: ls.LoRA.of(np.ones((2, 3)), np.ones((4, 1))), r"LoRA: rank = 2 in a, .* must equal rank = 1 in b"),
        (
            lambda: ls.LoRA(np.eye(2), 0 * np.eye(2))(1.0, (np.eye(2), np.eye(2), np.eye(2) / 4)),
            r"LoRA: product = 1 .* compute it with LoRA.of\(a, b\)",
        ),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises((ValueError, OverflowError), match=message):
        call()


def test_rates_within_the_range_of_doubles_are_accepted():
    flow = ls.LoRA(np.eye(2), np.eye(2), tau=1e-150, ratio=1e100)  # a rate of 1e200
    assert np.isfinite(flow(1e-200, flow.of(*ls.LoRA.init(2, 2, 2, size=1.0, rng=0)))["product"]).all()
