import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import linsolve as ls
from linsolve import plot

T = np.linspace(0.0, 6.0, 61)


@pytest.fixture(autouse=True)
def close_figures():
    before = dict(plt.rcParams)
    yield
    plt.close("all")
    assert dict(plt.rcParams) == before  # no global setting is changed


@pytest.fixture
def modes():
    return ls.BalancedMode(s=[2.0, 1.0])(T, [0.01, 0.02])


@pytest.fixture
def network():
    flow = ls.WhitenedTwoLayer(target=np.diag([3.0, 2.0, 1.0])[:2])
    w1, w2 = ls.WhitenedTwoLayer.init(3, 2, 2, scale=0.05, rng=0)
    return flow, flow.of(w1, w2)


def test_trajectory_draws_every_line_on_the_given_axes(modes):
    _, ax = plt.subplots()
    assert plot.trajectory(modes, "a", ax) is ax
    np.testing.assert_array_equal([line.get_ydata() for line in ax.lines], modes["a"].T)
    assert (ax.get_xlabel(), ax.get_ylabel()) == (r"time $t$  (units of $\tau$)", "a")


def colors_of(ax):
    return [matplotlib.colors.to_hex(line.get_color()).upper() for line in ax.lines]


def test_lines_are_labelled_by_the_parameter_of_their_member_their_mode_or_their_index(modes, network):
    def labels(ax):
        return [text.get_text() for text in ax.get_legend().get_texts()]

    assert labels(plot.trajectory(modes, "a")) == ["$s$ = 2", "$s$ = 1"]
    flow, z0 = network
    traj = flow(T, z0)
    assert labels(plot.trajectory(traj, "singular_values")) == ["$s_{1}$", "$s_{2}$"]
    assert labels(plot.trajectory(traj, "gram_out"))[1:3] == ["gram_out[0, 1]", "gram_out[1, 0]"]
    assert plot.trajectory(traj).get_legend() is None
    assert plot.trajectory(modes, "a", label="mine").get_legend() is None
    assert len(plot.trajectory(traj, "singular_values", top=1).lines) == 1
    with pytest.raises(ValueError, match="top = 0 must be a positive integer"):
        plot.trajectory(traj, top=0)


def test_lines_of_directions_and_of_tasks_are_named_so():
    def labels(ax):
        return [text.get_text() for text in ax.get_legend().get_texts()]

    heads = ls.RankOneAttention(16, [2.0, 1.0])(T, [0.1, 0.1])
    assert labels(plot.trajectory(heads, "strengths")) == [r"$\lambda$ = 2", r"$\lambda$ = 1"]
    tasks = ls.sequence([(ls.BalancedMode(s=2.0), 3.0), (ls.BalancedMode(s=1.0), 3.0)], 0.01)(T)
    assert labels(tasks.plot()) == labels(tasks.plot("forgetting")) == ["task 1", "task 2"]


def test_legends_stand_beside_the_lines():
    traj = ls.BalancedMode(s=[4.0, 3.0, 2.0, 1.0])(np.linspace(0, 8, 400), 1e-3)
    ax = plot.trajectory(traj, "a")
    ax.figure.canvas.draw()
    assert ax.bbox.x1 <= ax.get_legend().get_window_extent().x0
    assert ax.get_legend().get_window_extent().x1 <= ax.figure.bbox.x1
    _, narrow = plt.subplots()  # nothing makes room
    assert plot.trajectory(traj, "a", narrow).get_legend().get_window_extent().x0 < narrow.bbox.x1


def test_colors_are_those_of_the_cycle_of_the_axes_or_of_the_style(modes):
    assert colors_of(plot.trajectory(modes, "a")) == [plot.COLORS["blue"], plot.COLORS["vermilion"]]
    with plt.rc_context({"axes.prop_cycle": plt.cycler(color=["#112233", "#445566"])}):
        assert colors_of(plot.trajectory(modes, "a")) == ["#112233", "#445566"]
    _, ax = plt.subplots()
    single = ls.BalancedMode(s=2.0)(T, 0.1)
    for _ in range(3):
        plot.trajectory(single, ax=ax)
    assert len(set(colors_of(ax))) == 3
    many = ls.BalancedMode(s=np.linspace(1.0, 2.0, 30))(T, 0.1)
    assert len(set(colors_of(plot.trajectory(many)))) == 30
    assert set(colors_of(plot.trajectory(modes, "a", color="#010203"))) == {"#010203"}


def test_loss_is_logarithmic_only_where_it_falls(modes):
    assert plot.trajectory(modes).get_yscale() == "log"
    assert plot.trajectory(ls.BalancedMode(s=1.0)([0.0, 0.1], 0.5)).get_yscale() == "linear"
    assert plot.trajectory(modes, log=False).get_yscale() == "linear"


def test_logarithmic_axis_ends_above_rounding():
    traj = ls.BalancedMode(s=2.0)(np.linspace(0.0, 100.0, 50), 0.01)
    assert traj["loss"].min() < 1e-100
    assert plot.trajectory(traj).get_ylim()[0] > 1e-13


def test_a_logarithmic_axis_drops_no_line():
    falling = ls.TwoLayerOrder(y=-2.0)(T, (0.5, 0.5, 0.5))
    with pytest.raises(ValueError, match=r"plot.trajectory: output = -.* must be positive"):
        plot.trajectory(falling, "output", log=True)
    with pytest.raises(ValueError, match=r"plot.routes: output = -.* must be positive"):
        plot.routes({"closed form": falling}, "output", log=True)


@pytest.mark.parametrize(
    ("tau", "label"),
    [
        (1.0, r"(units of $\tau$)"),
        (0.5, r"($\tau$ = 0.5)"),
        ([0.5, 0.5], r"($\tau$ = 0.5)"),
        ([1.0, 2.0], r"(in the unit of $\tau$)"),
    ],
)
def test_time_axis_states_its_unit(tau, label):
    ax = plot.trajectory(ls.BalancedMode(s=1.0, tau=tau)(T, 0.1))
    assert ax.get_xlabel().endswith(label)


def test_time_axis_of_tasks_is_that_of_their_flows():
    tasks = ls.sequence([(ls.BalancedMode(s=2.0), 3.0), (ls.BalancedMode(s=1.0), 3.0)], 0.01)
    assert tasks(T).plot().get_xlabel() == r"time $t$  (units of $\tau$)"


@pytest.mark.parametrize(
    ("scale", "depth", "rates"), [(2.0, 2, None), (1.0, 2, [0.5, 0.5]), (1.0, 1, None), (1.0, 2, [0.5, 0.4])]
)
def test_time_of_a_network_is_learning_rate_times_steps_whatever_solves_it(scale, depth, rates):
    rng = np.random.default_rng(0)
    inputs = scale * np.sqrt(8) * np.linalg.qr(rng.normal(size=(8, 3)))[0]
    weights = [0.1 * np.eye(3)] * depth
    traj = ls.solve(weights, (inputs, inputs @ np.diag([3.0, 2.0, 1.0])), T, rates)
    assert traj.plot().get_xlabel() == r"time $t$  (learning rate $\times$ steps)"


def test_modes_draw_a_labelled_goal_for_each(network):
    flow, z0 = network
    ax = plot.modes(flow(T, z0))
    goals = [line.get_ydata()[0] for line in ax.lines if len(line.get_ydata()) == 2]
    np.testing.assert_allclose(goals, [3.0, 2.0])
    assert [text.get_text() for text in ax.texts] == ["$s_{1}$", "$s_{2}$"]


def test_labels_of_close_goals_do_not_overlap():
    flow = ls.WhitenedTwoLayer(target=np.diag([1.0, 0.999, 0.998, 0.3]))
    w = 0.1 * np.eye(4)
    ax = plot.modes(flow(T, flow.of(w, w)))
    heights = [text.get_position()[1] for text in ax.texts]
    assert (-np.diff(heights)).min() >= 0.05
    assert heights[-1] == pytest.approx(0.3)


def test_alignment_shows_the_frozen_kernel(network):
    flow, z0 = network
    traj = flow(T, z0)
    ax = plot.alignment(traj)
    curve, frozen = (line.get_ydata() for line in ax.lines)
    np.testing.assert_array_equal(curve, traj["kernel_alignment"])
    assert set(frozen) == {traj["kernel_alignment"][0]}
    assert ax.lines[1].get_xdata().tolist() == [T[0], T[-1]]
    assert ax.get_ylim()[0] == (-1.05 if curve.min() < 0 else 0)
    assert ax.margins()[0] == 0.01
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["this network", "kernel frozen at its start"]


def test_routes_differ_in_more_than_color(network):
    flow, z0 = network
    trajs = {
        "closed form": flow(T, z0),
        "ODE": ls.integrate(flow, T, z0),
        "descent": ls.descend(flow, T, z0, step=0.01),
    }
    ax = plot.routes(trajs, "singular_values", top=1)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(trajs)
    looks = {(line.get_linestyle(), line.get_marker()) for line in ax.lines}
    assert len(ax.lines) == len(looks) == 3


def test_routes_are_at_most_four(modes):
    with pytest.raises(ValueError, match="trajs = 5 routes must be 1 to 4"):
        plot.routes({str(k): modes for k in range(5)}, "a")


def test_differences_are_relative_norms(modes):
    other = ls.descend(modes.flow, T, [0.01, 0.02], step=0.01)
    ax = plot.differences(modes, {"descent": other}, "a")
    gap = np.linalg.norm(other["a"] - modes["a"], axis=1) / np.linalg.norm(modes["a"], axis=1).max()
    np.testing.assert_allclose(ax.lines[0].get_ydata()[1:], gap[1:])
    assert np.isnan(ax.lines[0].get_ydata()[0])
    assert ax.get_yscale() == "log"


def test_differences_need_the_same_times(modes):
    with pytest.raises(ValueError, match="t of 'late' must be the times of the first"):
        plot.differences(modes, {"late": modes.flow(T + 1, [0.01, 0.02])}, "a")


def test_several_time_axes_are_refused():
    with pytest.raises(ValueError, match=r"t has shape \(2, 2\) but needs one axis"):
        plot.trajectory(ls.BalancedMode(s=1.0)(np.ones((2, 2)), 0.1))


def test_figures_are_closed_again():
    with plot.figure(1, 2) as (fig, axes):
        assert len(axes) == len(fig.axes) == 2
        number = fig.number
    assert not plt.fignum_exists(number)


@pytest.mark.parametrize(
    ("draw", "error", "message"),
    [
        (lambda traj: plot.trajectory(traj.flow), TypeError, "plot: traj = WhitenedTwoLayer must be a Trajectory"),
        (lambda traj: plot.modes(traj, top=0), ValueError, "plot.modes: top = 0 must be a positive integer"),
        (
            lambda traj: plot.routes({"a": traj}, "product", top=-1),
            ValueError,
            "plot.routes: top = -1 must be",
        ),
        (lambda traj: plot.routes([traj]), TypeError, "plot.routes: trajs must be labelled"),
        (lambda traj: plot.differences(traj, {}), ValueError, "plot.differences: others must be 1 to 4 labelled"),
        (
            lambda traj: plot.differences(traj, {"pair": ls.BalancedMode(s=[1.0, 2.0])(traj.t, 0.1)}),
            ValueError,
            "plot.differences: loss of 'pair' has 2 components but the first has 1",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw, error, message):
    flow, z0 = ls.WhitenedTwoLayer.example(np.random.default_rng(0))
    traj = flow(np.linspace(0.0, 1.0, 5), z0)
    with pytest.raises(error, match=message):
        draw(traj)


def test_a_target_without_modes_is_refused():
    flow = ls.WhitenedTwoLayer(target=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"plot\.modes: target = 0 has no modes"):
        plot.modes(flow([0.0, 1.0], flow.of(np.eye(2), np.eye(2))))
