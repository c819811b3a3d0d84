"""The race of pathways against simulated gated networks, its limits and times, and the starts that it refuses."""

import numpy as np
import pytest
from mutants.gated import GATED
from scipy.integrate import solve_ivp
from selection import quick

import linsolve as ls
from linsolve import NeuralRace, arithmetic

KINDS = [(4, (4, 1)), (5, (1,)), (6, (6, 2, 1)), (8, (4, 2))]  # contexts, and contexts that each pathway serves


def gated(s, contexts, served, tau, starts, t, rng):
    """Return the strength of each pathway in each context, by DOP853 of all first layers and all heads.

    Context k has the map ``s u_k v^T`` with its own u_k. Group j of a pathway of m contexts has one first layer.
    """
    v, u = rng.normal(size=3), rng.normal(size=(contexts, 2))
    v, u = v / np.linalg.norm(v), u / np.linalg.norm(u, axis=1)[:, None]
    targets = s * u[:, :, None] * v
    groups = [np.arange(contexts) // m for m in served]
    firsts = [np.tile(np.sqrt(np.sqrt(m) * a) * v, (contexts // m, 1)) for m, a in zip(served, starts, strict=True)]
    heads = [np.sqrt(a / np.sqrt(m)) * u for m, a in zip(served, starts, strict=True)]
    shapes = [w.shape for w in (*firsts, *heads)]
    cuts = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]

    def parts(z):
        found = [part.reshape(shape) for part, shape in zip(np.split(z, cuts), shapes, strict=True)]
        return found[: len(served)], found[len(served) :]

    def rate(_, z):
        first, head = parts(z)
        paths = zip(first, head, groups, strict=True)
        error = targets - sum(w[:, :, None] * h[own][:, None, :] for h, w, own in paths)
        moves = [np.zeros_like(h) for h in first]
        for move, w, own in zip(moves, head, groups, strict=True):
            np.add.at(move, own, np.einsum("ko,koi->ki", w, error))
        turns = [np.einsum("koi,ki->ko", error, h[own]) for h, own in zip(first, groups, strict=True)]
        return np.concatenate([w.ravel() for w in (*moves, *turns)]) / contexts / tau

    z0 = np.concatenate([w.ravel() for w in (*firsts, *heads)])
    path = solve_ivp(rate, (0.0, t[-1]), z0, "DOP853", t, rtol=3e-14, atol=1e-17).y.T
    ends = [parts(z) for z in path]
    return np.array(
        [[np.einsum("ko,ko,ki,i->k", w, u, h[own], v) for h, w, own in zip(*end, groups, strict=True)] for end in ends]
    )


@pytest.mark.parametrize("kind", quick(KINDS, 2), ids=str)
def test_a_hundred_draws_equal_simulated_layers_and_heads(kind):
    contexts, served = kind
    rng = np.random.default_rng(contexts)
    for _ in range(25):
        s, tau = rng.uniform(0.6, 2.0), rng.uniform(0.1, 0.3)
        starts = s * rng.uniform(0.01, 0.9, len(served))
        t = np.array([0.1, 0.5, 1.5])
        simulated = gated(s, contexts, served, tau, starts, t, rng)
        traj = NeuralRace(s, contexts, served, tau)(t, starts)
        assert np.abs(simulated - traj["strengths"][..., None]).max() <= 1e-12  # the same in every context


def test_a_pathway_of_any_weights_is_its_stacked_heads():
    rng = np.random.default_rng(0)
    targets, tau = rng.normal(size=(100, 3, 2, 4)), rng.uniform(0.3, 2.0, 100)
    w1, heads = rng.normal(size=(100, 1, 4)), rng.normal(size=(100, 3, 2, 1))  # one hidden unit: any start

    def rate(_, z):
        first, each = z[:400].reshape(100, 1, 1, 4), z[400:].reshape(100, 3, 2, 1)
        error = (targets - each @ first) / 3 / tau[:, None, None, None]
        move = np.sum(np.swapaxes(each, -1, -2) @ error, axis=1)
        return np.concatenate([move.ravel(), (error @ np.swapaxes(first, -1, -2)).ravel()])

    start = np.concatenate([w1.ravel(), heads.ravel()])
    z = solve_ivp(rate, (0, 1.0), start, "DOP853", rtol=3e-14, atol=1e-16).y[:, -1]
    flow = NeuralRace.pathway(targets, tau)
    found = flow(1.0, flow.of(w1, heads.reshape(100, 6, 1)))["product"]
    assert np.abs(found - z[400:].reshape(100, 6, 1) @ z[:400].reshape(100, 1, 4)).max() <= 1e-12


@pytest.mark.parametrize("served", [[4, 1], [10_000, 100, 1]])
@pytest.mark.parametrize("size", [1e-200, 1e-9, 0.3, 1.02, 2.0])
def test_strengths_and_losses_have_the_digits_of_fifty_digit_arithmetic(served, size):
    rng = np.random.default_rng(1)
    s = rng.uniform(0.5, 2.0)
    start = s * size / len(served) * rng.uniform(0.8, 1.0, len(served))
    race = NeuralRace(s, served[0], served)
    end = race.when(start, loss=1e-10 * s**2)
    t = end * np.array([0.05, 0.9, 1.1])
    found, xp = race(t, start), arithmetic.precise(40)
    exact = race.cast(xp)(arithmetic.cast(xp, t), arithmetic.cast(xp, start))
    for name, bound in (("strengths", 3e-13), ("loss", 1e-12)):
        value = arithmetic.to_numpy(exact[name]).astype(float)
        assert np.abs(found[name] / value - 1).max() <= bound
    assert abs(float(race(end, start)["loss"]) / (1e-10 * s**2) - 1) <= 1e-13


BOTH_WIN = 0.5 * np.exp([-200.0, -100.0])  # strengths of one half each at the end


@pytest.mark.parametrize("start", [[1e-300, 1e-3], BOTH_WIN, [4e4, 3e4]], ids=["below", "both win", "above"])
def test_panels_of_long_paths_add_up(start):
    race, xp = NeuralRace(1.0, 4, [4, 1]), arithmetic.precise(30)
    way = race._clock(np, race.state(start))[0]
    exact = race.cast(xp)._clock(xp, race.State(arithmetic.cast(xp, start)))[0]
    assert np.count_nonzero(np.diff(way.ends)) >= 3
    first = np.log(np.abs(np.expm1(way.span)))
    u = np.linspace(first, min(first, 0.0) - 5.0, 9)[1:]
    times = arithmetic.to_numpy(exact.time(xp, arithmetic.cast(xp, u))[0])
    last_panel_alone = way._replace(before=0 * way.before)
    assert np.abs(way.time(np, u)[0] / times - 1).max() <= 2e-15
    assert np.abs(last_panel_alone.time(np, u)[0] / times - 1).max() > 0.1


def test_one_pathway_is_a_balanced_mode_of_its_speed():
    race = NeuralRace(1.5, 9, [3], tau=0.7)
    mode = ls.BalancedMode(1.5, tau=0.7 * 9 / np.sqrt(3))
    t = np.array([0.0, 1.0, 10.0, 60.0, np.inf])
    assert np.abs(race(t, [1e-4])["strengths"][:, 0] - mode(t, 1e-4)["a"]).max() <= 1e-13
    assert abs(float(race.speeds()[0]) - 2 * 1.5 * np.sqrt(3) / 9 / 0.7) <= 1e-15
    assert abs(race.when([1e-4], loss=0.1) / mode.when(1e-4, loss=0.1) - 1) <= 1e-13


def test_the_shared_pathway_wins_unless_the_private_one_has_its_head_start():
    contexts, s = 9, 2.0
    for shared in (1e-2, 1e-5, 1e-9):
        tie = s / 2 * (2 * shared / s) ** (1 / np.sqrt(contexts))
        race = NeuralRace(s, contexts, [contexts, 1])
        end = race(np.inf, [[shared, 0.9 * tie], [shared, tie], [shared, 1.1 * tie]])["strengths"]
        assert np.abs(end[1] - s / 2).max() <= 1e-13
        assert end[0, 0] > end[0, 1]
        assert end[2, 0] < end[2, 1]
        private = race(np.inf, [shared, shared])["strengths"][1]
        assert private <= shared * (s / shared) ** (1 / np.sqrt(contexts))


def test_small_starts_are_learned_after_the_time_of_the_fastest_pathway():
    race, starts = NeuralRace(1.0, 16, [16, 1]), np.array([1e-20, 1e-40])
    times = race.when(starts[:, None] * np.ones(2), loss=1 / 8)
    assert abs((times[1] - times[0]) / (np.log(1e20) * 16 / (2 * np.sqrt(16))) - 1) <= 1e-4


def test_times_are_zero_above_the_loss_and_infinite_below_the_limit():
    race = NeuralRace(1.0, 4, [4, 1])
    assert race.when([0.2, 0.2], loss=0.5) == 0
    assert race.when([0.2, 0.2], loss=0.0) == np.inf
    assert race.when([0.0, 0.0], loss=0.1) == np.inf
    assert race(np.array([0.0, 3.0, np.inf]), [0.0, 0.0])["loss"].tolist() == [0.5] * 3
    for start in ([0.5, 0.5], [0.0, 1.0]):  # at the target
        assert race(np.array([0.0, 3.0, np.inf]), start)["strengths"].tolist() == [start] * 3
        assert race.when(start, loss=0.0) == 0
    assert NeuralRace(1.0, 4, [2])(3.0, [1.0])["loss"] == 0
    assert np.abs(race(np.inf, [0.0, 0.3])["strengths"] - [0.0, 1.0]).max() <= 1e-15


@pytest.mark.parametrize("name", GATED)
def test_each_mutant_is_rejected_by_the_check_that_should_see_it(name):
    mutant = GATED[name]
    assert ls.verify(mutant.flow, mutant.z0, checks=[mutant.seen_by]).failed == [mutant.seen_by]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NeuralRace(1.0, 4, [3]), r"NeuralRace: served = 3 must divide contexts = 4"),
        (lambda: NeuralRace(1.0, 4, [8]), r"NeuralRace: served = 8 must divide contexts = 4"),
        (
            lambda: NeuralRace(1.0, [4, 4], np.ones((3, 1))),
            r"NeuralRace: batch shapes = contexts \(2,\), served \(3,\) do not",
        ),
        (lambda: NeuralRace(1.0, 4, 4), r"NeuralRace: served has shape \(\) but needs trailing axes"),
        (lambda: NeuralRace(1.0, 4.5, [1]), r"NeuralRace: contexts = 4\.5 must be a whole number"),
        (lambda: NeuralRace(-1.0, 4, [1]), r"NeuralRace: s = -1\.0 must lie in \(0, inf\)"),
        (lambda: NeuralRace(1.0, 4, [4, 1])(1.0, [0.1]), r"NeuralRace: strengths has shape \(1,\), so pathway = 1"),
        (lambda: NeuralRace(1.0, 4, [4, 1])(1.0, [0.1, -0.1]), r"NeuralRace: pathways that start against the target"),
        (lambda: NeuralRace(1.0, 10**4, [10**4, 1])(1.0, [9.0, 9.0]), r"NeuralRace: fall of the fastest pathway"),
        (lambda: NeuralRace.pathway(np.eye(2)), r"NeuralRace\.pathway: targets has shape \(2, 2\) but needs"),
        (lambda: NeuralRace.pathway(np.ones((2, 1, 1)), tau=-1.0), r"NeuralRace\.pathway: tau = -1\.0 must lie in"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("served", "start"), [([100, 1], [35.3, 41.06]), ([100, 4], [5.0, 2000.0])])
def test_races_far_above_their_target_are_those_of_integrated_pathways(served, start):
    """There ``u = log(1 - exp(-|delta|))`` is tiny, and Newton's method ends relative to it."""
    race = ls.NeuralRace(s=1.0, contexts=100, served=served)
    for t in (0.5, 10.0):
        truth = ls.integrate(race, [t], start, rtol=1e-12)["strengths"][0]
        np.testing.assert_allclose(race(t, start)["strengths"], truth, rtol=1e-8)
