"""Task sequences against raw weights simulated through all tasks, one long task, and limits known in closed form."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import linsolve as ls
from linsolve import arithmetic
from linsolve.core.tasks import TaskTrajectory

DURATIONS = (0.8, 0.5, 0.7)


def white(draws=100, seed=0):
    """Return three tasks and lambda-balanced weights of a batch of networks 3-2-4."""
    rng = np.random.default_rng(seed)
    w1, w2 = ls.WhitenedTwoLayer.init(3, 2, 4, scale=0.6, imbalance=0.3, batch=(draws,), rng=rng)
    return rng.normal(size=(3, draws, 4, 3)), w1, w2


def simulated(targets, w1, w2, durations, points=4):
    """Return times and products of raw weights, by DOP853 of the layers' own equations, task by task."""
    times, products, begin, cut = [], [], 0.0, w1.size
    z = np.concatenate([w1.ravel(), w2.ravel()])
    for target, duration in zip(targets, durations, strict=True):

        def rate(t, z, target=target):
            a, b = z[:cut].reshape(w1.shape), z[cut:].reshape(w2.shape)
            e = target - b @ a
            return np.concatenate([(np.swapaxes(b, -1, -2) @ e).ravel(), (e @ np.swapaxes(a, -1, -2)).ravel()])

        t = np.linspace(0.0, duration, points + 1)[1:]
        path = solve_ivp(rate, (0.0, duration), z, "DOP853", t, rtol=3e-14, atol=1e-15).y.T
        times += list(begin + t)
        products += [y[cut:].reshape(w2.shape) @ y[:cut].reshape(w1.shape) for y in path]
        begin, z = begin + duration, path[-1]
    return np.array(times), np.array(products)


def tasks_of(targets, durations=DURATIONS):
    return [(ls.WhitenedTwoLayer(target), duration) for target, duration in zip(targets, durations, strict=True)]


@pytest.fixture(scope="module")
def raw():
    targets, w1, w2 = white()
    return targets, w1, w2, *simulated(targets, w1, w2, DURATIONS)


def test_a_hundred_networks_through_three_tasks_equal_simulated_weights(raw):
    targets, w1, w2, t, products = raw
    traj = ls.sequence(tasks_of(targets), ls.WhitenedTwoLayer.of(w1, w2))(t)
    assert np.abs(traj["product"] - products).max() <= 1e-10
    losses = np.stack([((target - products) ** 2).sum(axis=(-2, -1)) / 2 for target in targets], axis=-1)
    assert np.abs(traj["losses"] - losses).max() <= 1e-10
    forgotten = losses - losses[[3, 7, 11], :, [0, 1, 2]].T  # since the last time of each task
    since = np.arange(12)[:, None, None] > np.array([3, 7, 11])
    assert np.abs(traj["forgetting"] - np.where(since, forgotten, 0.0)).max() <= 1e-10
    assert np.abs(traj["forgetting"]).max() > 1


def test_a_global_clock_in_the_second_task_is_rejected(raw):
    targets, w1, w2, t, products = raw
    path = ls.sequence(tasks_of(targets), ls.WhitenedTwoLayer.of(w1, w2))
    wrong = path.flows[1](t[4:8], path.starts[1])["product"]
    assert np.abs(wrong - products[4:8]).max() > 1e-2


def test_two_parts_of_one_task_are_one_task_at_fifty_digits():
    mp = arithmetic.precise(50)
    flow = ls.TwoLayer(y=1.3, x=[0.6, -0.8], eta_w=0.5)
    z0 = tuple(arithmetic.cast(mp, np.asarray(v)) for v in ([[0.5, -0.3]], [[[0.4, 0.1], [0.2, -0.7]]]))
    t = arithmetic.cast(mp, np.array([0.25, 0.5, 1.25]))
    parts, whole = ls.sequence([(flow, 0.5), (flow, 1.0)], z0)(t), flow(t, z0)
    for name in ("u", "w", "loss"):
        assert arithmetic.to_numpy(mp.abs(parts[name] - whole[name])).max() <= 1e-45
    assert parts.task.tolist() == [0, 1, 1]


@pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda cls: cls.__name__)
def test_two_parts_of_one_task_are_one_task_for_every_flow(cls):
    flow, z0 = cls.example(np.random.default_rng(0))
    parts, whole = ls.sequence([(flow, 0.2), (flow, 0.3)], z0)([0.1, 0.4]), flow([0.1, 0.4], z0)
    for name in (*z0._fields, "loss"):
        size = max(1.0, np.abs(whole[name]).max())
        assert np.abs(parts[name] - whole[name]).max() <= 1e-12 * size


def test_after_convergence_the_forgetting_is_half_the_squared_distance_of_the_targets():
    rng = np.random.default_rng(1)
    targets = [rng.normal(size=(3, 3)) for _ in range(3)]
    w1, w2 = ls.WhitenedTwoLayer.init(3, 3, 3, scale=1.0, imbalance=0.5, rng=rng)
    path = ls.sequence(tasks_of(targets, (200.0, 200.0, np.inf)), ls.WhitenedTwoLayer.of(w1, w2))
    found = path(path.ends)
    apart = [[((a - b) ** 2).sum() / 2 for b in targets] for a in targets]
    assert np.abs(found["losses"] - apart).max() <= 1e-12
    assert np.abs(found["forgetting"] - [[0, 0, 0], [apart[1][0], 0, 0], [*apart[2][:2], 0]]).max() <= 1e-12


def test_states_are_continuous_and_the_later_task_is_trained_at_the_time_between():
    targets, w1, w2 = white(draws=2)
    path = ls.sequence(tasks_of(targets), ls.WhitenedTwoLayer.of(w1, w2))
    traj = path([path.ends[0], np.nextafter(path.ends[0], 0), 0.0])
    assert traj.task.tolist() == [1, 0, 0]
    assert np.abs(traj["product"][0] - traj["product"][1]).max() <= 1e-14
    assert np.array_equal(traj["product"][0], path.starts[1].product)
    assert np.array_equal(traj["loss"][0], path.flows[1].loss(np, path.starts[1]))
    assert np.array_equal(traj["forgetting"][0], np.zeros((2, 3)))


def test_times_of_any_shape_and_order_lead_and_flows_may_be_batches():
    path = ls.sequence([(ls.BalancedMode(s=2.0), 1.0), (ls.BalancedMode(s=[1.0, 3.0, 4.0]), 2.0)], 0.1)
    t = np.random.default_rng(0).uniform(0, 3, size=(2, 4))
    traj = path(t)
    assert traj["a"].shape == (2, 4, 3)
    assert traj["losses"].shape == (2, 4, 3, 2)
    for index in np.ndindex(t.shape):
        one = path(t[index])
        assert np.array_equal(one["a"], traj["a"][index])
        assert np.allclose(one["losses"], traj["losses"][index], rtol=1e-14, atol=0)
    member = ls.sequence([(ls.BalancedMode(s=2.0), 1.0), (ls.BalancedMode(s=3.0), 2.0)], 0.1)(t)
    assert np.allclose(member["a"], traj["a"][..., 1], rtol=1e-14, atol=0)
    assert np.abs(traj.on(1)["loss"] - traj["losses"][..., 1]).max() <= 1e-15


def test_observables_refer_to_the_task_in_training():
    targets, w1, w2 = white(draws=1)
    traj = ls.sequence(tasks_of(targets), ls.WhitenedTwoLayer.of(w1, w2))([0.2, 1.0, 1.9])
    for k in range(3):
        own = traj.on(k)
        assert np.allclose(traj["kernel_alignment"][k], own["kernel_alignment"][k], rtol=1e-13)
        assert np.allclose(traj["loss"][k], own["loss"][k], rtol=1e-13)
    assert np.abs(traj.on(0)["kernel_alignment"] - traj.on(1)["kernel_alignment"]).min() > 1e-3


def test_a_table_and_a_figure():
    traj = ls.sequence([(ls.BalancedMode(s=[2.0, 1.0]), 1.0), (ls.BalancedMode(s=1.0), 1.0)], 0.1)([0.0, 0.5, 1.5])
    table = traj.to_dataframe("losses")
    assert list(table.columns) == ["t", "task", "batch0", "name", "axis0", "value"]
    assert len(table) == 12
    row = table[(table.t == 1.5) & (table.batch0 == 1) & (table.axis0 == 0)]
    assert row.value.item() == traj["losses"][2, 1, 0]
    assert row.task.item() == 1
    with ls.plot.figure() as (_, ax):
        assert traj.plot(ax=ax) is ax
        assert len(ax.lines) == 5  # two tasks of two members, and the time between
        assert ax.get_ylabel() == "loss of each task"


@pytest.mark.exhaustive
def test_jax_differentiates_a_sequence():
    jax = pytest.importorskip("jax")

    def forgotten(s):
        path = ls.sequence([(ls.BalancedMode(s=2.0), 1.0), (ls.BalancedMode(s=s), 1.0)], jax.numpy.asarray(0.1))
        return path(np.array([2.0]))["forgetting"][0, 0]

    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        slope = jax.grad(forgotten)(1.5)
        ends = [float(forgotten(jax.numpy.asarray(1.5 + h))) for h in (1e-5, -1e-5)]
    assert abs(float(slope) - (ends[0] - ends[1]) / 2e-5) <= 1e-8


MODE = ls.BalancedMode(s=1.0)
UNBALANCED = (ls.WhitenedTwoLayer(np.eye(2)), 1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("tasks", "z0", "error", "message"),
    [
        ([], 0.1, TypeError, r"sequence: tasks = \[\] must be a list"),
        ([MODE], 0.1, TypeError, r"sequence: tasks\[0\] = BalancedMode.* must be a pair \(flow, duration\)"),
        ([(MODE, 1.0), (MODE, -1.0)], 0.1, ValueError, r"sequence: tasks\[1\]\[1\] = -1.0 must .*\(duration\)"),
        ([(MODE, 0.0)], 0.1, ValueError, r"sequence: tasks\[0\]\[1\] = 0.0 must"),
        ([(MODE, np.inf), (MODE, 1.0)], 0.1, ValueError, r"tasks\[0\]\[1\] = inf must .* only the last may be inf"),
        ([(MODE, 1e308), (MODE, 1e308), (MODE, 1.0)], 0.1, ValueError, r"tasks\[1\]\[1\] = 1e\+308 makes the sum"),
        ([(MODE, 1.0), UNBALANCED], 0.1, ValueError, r"tasks\[1\]\[0\] = WhitenedTwoLayer has another state"),
        ([(MODE, 1.0)], "x", TypeError, r"sequence: tasks\[0\]\[0\] does not accept z0: BalancedMode: a = 'x'"),
        (
            [UNBALANCED],
            ls.WhitenedTwoLayer.of(np.diag([0.1, 0.4]), np.eye(2) / 5),
            ls.NotExact,
            r"tasks\[0\]\[0\] does not start at z0: WhitenedTwoLayer: distance of the imbalance",
        ),
        (
            [(ls.DeepMode(s=1.0, depth=2), 1.0), (ls.DeepMode(s=1.0, depth=3), 1.0)],
            0.1,
            ValueError,
            r"tasks\[1\]\[0\] has another a than tasks\[0\]\[0\] for the same weights",
        ),
        (
            [(ls.FrozenKernel(k * np.eye(2), [1.0, 2.0]), 1.0) for k in (1.0, 2.0)],
            [0.0, 0.0],
            ValueError,
            r"tasks\[1\]\[0\] has another f than tasks\[0\]\[0\]",
        ),
        (
            [UNBALANCED, (ls.WhitenedTwoLayer(np.ones((2, 3))), 1.0)],
            ls.WhitenedTwoLayer.of(np.eye(2), np.eye(2)),
            ValueError,
            r"sequence: tasks\[1\]\[0\] does not accept z0: WhitenedTwoLayer: .*n_in = ",
        ),
        (
            [(ls.BalancedMode(s=[1.0, 2.0]), 1.0), (ls.BalancedMode(s=[1.0, 2.0, 3.0]), 1.0)],
            0.1,
            ValueError,
            r"sequence: batch shapes = tasks\[0\]\[0\] with z0 \(2,\), tasks\[1\]\[0\] with z0 \(3,\)",
        ),
    ],
)
def test_refusals_name_the_task(tasks, z0, error, message):
    with pytest.raises(error, match=message):
        ls.sequence(tasks, z0)


def test_a_task_that_refuses_the_end_of_the_one_before_is_named():
    class Picky(ls.BalancedMode):
        def conditions(self, xp, z0):
            return {"size of the mode": z0.a}

    with pytest.raises(ls.NotExact, match=r"tasks\[1\]\[0\] does not start at the end of tasks\[0\]: Picky: size"):
        ls.sequence([(MODE, 5.0), (Picky(s=1.0), 1.0)], 0.1)


@pytest.mark.parametrize("t", [-0.1, 3.5, np.nan, np.inf, "x", []])
def test_times_outside_the_sequence_are_refused(t):
    path = ls.sequence([(MODE, 1.0), (MODE, 2.0)], 0.1)
    with pytest.raises((ValueError, TypeError), match="TaskSequence: t "):
        path(t)


def test_an_unknown_name_or_task_is_refused():
    traj = ls.sequence([(MODE, 1.0), (MODE, 2.0)], 0.1)(0.5)
    with pytest.raises(KeyError, match=r"TaskTrajectory: observable = 'los' is unknown; did you mean 'loss'\?"):
        traj["los"]
    with pytest.raises(ValueError, match="task = 2 must be an integer from 0 to 1"):
        traj.on(2)
    assert isinstance(traj, TaskTrajectory)
