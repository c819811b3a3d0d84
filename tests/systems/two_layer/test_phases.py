"""Phases: the classification against measured slopes, diagnostics against trajectories, diagrams against their maps."""

import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from selection import quick

import linsolve as ls
from linsolve import BalancedMode, LazyTwoLayer, TwoLayer, TwoLayerOrder, phases
from linsolve.__main__ import main
from linsolve.studies.phases import Exponents
from linsolve.systems.two_layer.phase_classes import classify

HALF = Fraction(1, 2)


# the classification


@pytest.mark.parametrize("entry", phases.table(), ids=lambda e: f"{e.scaling} {e.block}")
@pytest.mark.parametrize("zero_output", [False, True])
def test_table_1_as_the_slopes_of_the_exact_solution_say(entry, zero_output):
    predicted = entry.zero_output if zero_output else entry.found
    measured = phases.slopes(entry.exponents._replace(zero_output=zero_output), rng=0)
    assert phases.measured_phase(measured) == predicted.phase
    agree(measured, predicted)


def agree(measured, predicted):
    assert measured.rate == pytest.approx(float(predicted.speed), abs=0.02)
    assert measured.kernel_change == pytest.approx(float(predicted.kernel_change), abs=0.06)
    assert measured.ntk == pytest.approx(float(predicted.B), abs=0.02)


def test_sixteen_entries_are_as_printed_and_two_lazy_ones_are_not():
    entries = phases.table()
    assert len(entries) == 20
    assert len([e for e in entries if e.scaling != "lazy" and e.found.phase == e.printed]) == 16
    wrong = [e for e in entries if e.found.phase != e.printed]
    assert [(e.scaling, e.block, e.found.phase) for e in wrong] == [
        ("lazy", "eta*", "feature"),
        ("lazy", "-", "feature"),
    ]
    assert [e for e in entries if e.ambiguous] == wrong
    assert all(e.zero_output.phase == e.printed for e in entries)


def random_exponents(rng):
    """Return exponents of which most have a learning time of order one, many on further boundaries, in quarters."""
    c_u, c_w, c_eta_u, c_eta_w = (Fraction(int(rng.integers(-4, 5)), 4) for _ in range(4))
    c_d = Fraction(int(rng.integers(0, 4)), 2)
    if rng.random() < 0.4:
        c_w = c_u + c_eta_w - c_eta_u
        c_d = c_d * int(rng.integers(0, 2))
    neither = min(-(c_eta_u + c_eta_w) / 2, -(c_d + max(c_eta_w + c_u, c_eta_u + c_w)) / 2)
    c_gamma = neither if rng.random() < 0.75 else Fraction(int(rng.integers(-4, 5)), 4)
    return Exponents(c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w, bool(rng.random() < 0.3))


def test_random_exponents_as_the_slopes_of_the_exact_solution_say():
    seen = []
    for seed in range(150):
        given = random_exponents(np.random.default_rng(seed))
        predicted, measured = classify(*given), phases.slopes(given, rng=seed)
        assert phases.measured_phase(measured) == predicted.phase, given
        agree(measured, predicted)
        seen.append((predicted.phase, predicted.log_slow))
    assert {kind: seen.count(kind) >= 8 for kind in set(seen)} == dict.fromkeys(
        [("kernel", False), ("feature", False), ("feature", True), ("frozen", False), ("unstable", False)], True
    )


EPS = Fraction(1, 10**30)


def test_the_corner_of_kernel_and_feature_is_feature():
    corner = Exponents(1, -1, 0, 0, 1, 1)  # A = B = 0
    assert (classify(*corner).phase, classify(*corner).log_slow) == ("feature", False)
    lazier = corner._replace(c_gamma=-1 + EPS, c_eta_u=1 - 2 * EPS, c_eta_w=1 - 2 * EPS)
    richer = corner._replace(c_gamma=-1 - EPS, c_eta_u=1 + EPS, c_eta_w=1 + EPS)
    assert classify(*lazier).phase == "kernel"
    assert (classify(*richer).phase, classify(*richer).log_slow) == ("feature", True)
    assert classify(*corner._replace(c_eta_u=1 + EPS)).phase == "unstable"
    assert classify(*corner._replace(c_gamma=-1 - EPS)).phase == "frozen"


def test_layers_balanced_at_fixed_width_keep_their_kernel_only_without_output():
    balanced = Exponents(0, -HALF, 1, 1, 0, 0)  # B = 0 > A, P/Q of order one
    assert classify(*balanced).phase == "feature"
    assert classify(*balanced._replace(zero_output=True)).phase == "kernel"
    assert classify(*balanced._replace(c_w=1 - EPS)).phase == "kernel"
    assert classify(*balanced._replace(c_d=EPS, c_gamma=-HALF - EPS / 2)).phase == "kernel"


# errata of Xu and Ziyin (2024)


def test_the_printed_condition_after_theorem_2_would_not_call_ntk_scaling_kernel():
    ntk = Exponents(1, -HALF, 0, 0, 0, 0)
    assert ntk.c_gamma + ntk.c_d + max(ntk.c_eta_w + ntk.c_u, ntk.c_eta_u + ntk.c_w) != 0  # as printed
    assert classify(*ntk).B == 0
    assert phases.measured_phase(phases.slopes(ntk, rng=0)) == "kernel"


def test_a_kernel_stays_without_equal_order_parameters_where_the_output_is_right_already():
    w = np.array([[1.0], [0.4]])
    u = np.array([0.5, -0.1])
    flow = TwoLayer(y=float(u @ w[:, 0]))
    order, start = TwoLayerOrder.of(flow, (u, w))
    assert order.y == flow.y
    assert start.P / start.Q > 2
    assert flow([0.0, 1.0, math.inf], (u, w))["ntk"].tolist() == [1.42, 1.42, 1.42]
    assert abs(phases.diagnose(flow, (u, w)).kernel_change) < 1e-15


@pytest.mark.parametrize("c", [HALF, 1])
def test_corollary_3_fails_for_large_balanced_starts_of_fixed_width(c):
    given = Exponents(0, 0, c, c, -c, -c)  # gamma = 1, which section 4.2 calls kernel
    for start, phase in ((given, "feature"), (given._replace(zero_output=True), "kernel")):
        assert classify(*start).phase == phase
        assert phases.measured_phase(phases.slopes(start, rng=0)) == phase


def test_section_4_2_needs_the_smaller_exponent_for_an_output_of_order_one():
    outputs = {}
    for rule in (max, min):
        kappa = np.array([1e4, 1e8])
        flow, z0 = phases.networks(10, 4000, sigma_u=kappa ** (rule(0, 1) / 2), sigma_w=kappa**0.5, rng=0)
        sizes = np.median(np.abs(flow.output(np, z0) / kappa**0.5), axis=0)  # gamma = kappa^(-c_w/2), c_w = 1
        outputs[rule] = np.log(sizes[1] / sizes[0]) / np.log(1e4)
    assert outputs[max] == pytest.approx(0.5, abs=0.02)
    assert outputs[min] == pytest.approx(0.0, abs=0.02)
    printed, corrected = (Exponents(0, -HALF, rule(0, 1), 1, 0, 0) for rule in (max, min))
    for given, phase in ((printed, "feature"), (corrected, "kernel")):
        assert classify(*given).phase == phases.measured_phase(phases.slopes(given, rng=0)) == phase


# how exponents are read


def test_floats_mean_the_decimals_that_they_print_as():
    for tenths in (0.3, "0.3", "3/10", "3e-1", Decimal("0.3"), Fraction(3, 10), np.float32(0.3), np.array(0.3)):
        found = classify(tenths, 0, -0.1, 0, 0, -0.2)
        assert (found.B, found.phase) == (Fraction(3, 10), "unstable")
        found = classify(tenths, 0, -0.1, -5, -5, -0.2)  # in binary 0.3 - 0.1 - 0.2 is not 0
        assert (found.B, found.phase) == (0, "kernel")
    assert classify("1/3", "-1/6", 0, 0, 0, 0).phase == "kernel"
    assert classify(np.int8(1), "1e-30", np.int8(0), 0, -1, -1).phase == "unstable"


def test_grids_are_classified_as_their_points_are():
    rng = np.random.default_rng(1)
    sets = [random_exponents(rng) for _ in range(200)]
    columns = list(zip(*sets, strict=True))
    grid = classify(*(np.array(column, dtype=object) for column in columns[:6]), np.array(columns[6]))
    for k, each in enumerate(sets):
        one = classify(*each)
        assert (grid.phase[k], grid.log_slow[k]) == (one.phase, one.log_slow)
        for name in ("speed", "B", "A", "mis", "chg", "kernel_change"):
            assert getattr(grid, name)[k] == float(getattr(one, name))


def test_grids_of_numbers_without_a_small_denominator_are_still_exact():
    x = np.linspace(-1, 1, 301)  # 17 digits each: their common denominator needs more than 64 bits next to 1/7
    found = classify(Fraction(1, 7), x[:, None], x, 0, 0, 0)
    assert found.phase.shape == (301, 301)
    for i, j in np.random.default_rng(0).integers(0, 301, (50, 2)):
        assert found.phase[i, j] == classify(Fraction(1, 7), x[i], x[j], 0, 0, 0).phase
    assert classify(1, -x[:, None], 0, 0, x, x).speed[0, 0] == 2.0  # B = 2 + 1 - 1
    assert classify(1, ["1e-30", "-1e-30"], 0, 0, -1, -1).phase.tolist() == ["unstable", "frozen"]


def test_the_largest_integers_that_are_added_in_64_bits_do_not_overflow():
    rng, largest = np.random.default_rng(0), 2**63 // 16
    for _ in range(200):
        n = [int(v) for v in rng.choice([-largest, 1 - largest, largest - 1, 0, largest // 2], 6)]
        n[0] = abs(n[0])
        a, b = n[5] + n[2], n[4] + n[3]
        A, B = 2 * n[1] + n[4] + n[5], 2 * n[1] + n[0] + max(a, b)
        grid, one = classify(*([v] for v in n)), classify(*n)
        assert (one.A, one.B, 2 * one.speed, one.mis) == (A, B, max(A, 2 * B), -(n[0] + abs(a - b)))
        assert one.chg == max(A - 2 * B, one.mis)
        assert (grid.phase[0], grid.B[0], grid.chg[0]) == (one.phase, float(B), float(one.chg))


def test_zero_output_may_be_a_grid():
    found = classify(0, 1, 0, 0, -2, -2, [False, True])
    assert found.phase.tolist() == ["feature", "kernel"]
    assert found.mis.tolist() == [0.0, -math.inf]
    assert classify(0, 1, 0, 0, -2, -2, True).mis == -math.inf


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"c_d": math.nan}, ValueError, r"c_d = nan is not a rational number \(exponent of the width\)"),
        ({"c_gamma": math.inf}, ValueError, "c_gamma = inf is not a rational number"),
        ({"c_u": [0, math.nan]}, ValueError, "c_u = nan"),
        ({"c_w": []}, ValueError, r"c_w has shape \(0,\), which is empty"),
        ({"c_w": "one"}, ValueError, "c_w = one is not a rational number"),
        ({"c_w": "1/0"}, ValueError, "c_w = 1/0 is not a rational number"),
        ({"c_eta_u": 1j}, TypeError, "c_eta_u = 1j is not made of rational numbers"),
        ({"c_eta_u": True}, TypeError, "c_eta_u = True"),
        ({"c_eta_u": None}, ValueError, "c_eta_u = None"),
        ({"c_eta_w": [[1], [1, 2]]}, TypeError, "c_eta_w is not a rectangular array"),
        ({"c_d": -1}, ValueError, "c_d = -1 must be at least 0"),
        ({"c_d": [1, "-1/2"]}, ValueError, "c_d = -1/2 must be at least 0"),
        ({"c_u": [0, 1], "c_w": [0, 1, 2]}, ValueError, r"batch shapes = c_u \(2,\), c_w \(3,\) do not broadcast"),
        (
            {"c_u": [0, 1], "zero_output": [True] * 3},
            ValueError,
            r"batch shapes = c_u \(2,\), zero_output \(3,\) do not",
        ),
        ({"zero_output": 0.5}, TypeError, "zero_output = 0.5 must be True or False"),
    ],
)
def test_bad_exponents_are_refused_by_name(change, error, message):
    given = Exponents(1, 0, 0, 0, 0, 0)._asdict() | change
    with pytest.raises(error, match="^classify: " + message):
        classify(**given)


# the diagnostics


def gram(u, v):
    return [np.sum(a * b, axis=-1) for a, b in ((u, u), (u, v), (v, v))]


@pytest.mark.parametrize("width", [1, 2, 3, 40])
def test_wishart_samples_have_the_moments_of_explicit_weights(width):
    rng, count = np.random.default_rng(width), 40000
    r, a, b = phases.wishart(width, count, rng=rng)
    z = TwoLayer.init(width, 1, batch=(count,), rng=rng)
    explicit, sampled = gram(z.u, z.w[..., 0]), [r**2, r * a, a**2 + b**2]
    statistics = [*range(3), (0, 0), (1, 1), (2, 2), (0, 2), (0, 1), (1, 2)]
    for each in statistics:
        one, two = (np.prod([g[k] for k in np.atleast_1d(each)], axis=0) for g in (explicit, sampled))
        error = math.hypot(one.std(), two.std()) / math.sqrt(count)
        assert abs(one.mean() - two.mean()) / error < 4


def test_wishart_samples_have_the_distribution_of_explicit_networks():
    from scipy.stats import ks_2samp

    flow, sampled = phases.networks(7, 20000, sigma_u=0.7, sigma_w=1.3, eta_u=0.5, eta_w=2.0, rng=1)
    explicit = TwoLayer.init(7, 1, sigma_u=0.7, sigma_w=1.3, batch=(20000,), rng=2)
    for name in ("rate", "kernel_change", "ntk"):
        one, two = (getattr(phases.diagnose(flow, z), name) for z in (sampled, explicit))
        assert ks_2samp(one, two).pvalue > 1e-3
    # the same comparison sees a width of 8
    other = phases.diagnose(flow, phases.networks(8, 20000, sigma_u=0.7, sigma_w=1.3, rng=1)[1])
    assert ks_2samp(other.ntk, one).pvalue < 1e-3


def test_reduced_networks_train_as_wide_ones():
    flow = TwoLayer(y=1.3, gamma=0.2, eta_u=0.5, eta_w=2.0)
    wide = TwoLayer.init(30, 1, batch=(5,), rng=3)
    u, v = wide.u, wide.w[..., 0]
    r = np.linalg.norm(u, axis=-1)
    along = np.sum(u * v, axis=-1) / r
    across = np.sqrt(np.sum(v**2, axis=-1) - along**2)
    two = TwoLayer.State(np.stack([r, 0 * r], -1), np.stack([along, across], -1)[..., None])
    for a, b in zip(phases.diagnose(flow, wide), phases.diagnose(flow, two), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    t = np.array([0.0, 0.1, 1.0, math.inf])
    for name in ("loss", "ntk", "u_norm"):
        np.testing.assert_allclose(flow(t, wide)[name], flow(t, two)[name], rtol=1e-10, atol=1e-20)


def test_diagnosis_is_that_of_trajectories():
    rng = np.random.default_rng(5)
    flow, z0 = TwoLayer.example(rng)
    found = phases.diagnose(flow, z0)
    traj = flow([0.0, math.inf], z0)
    np.testing.assert_allclose(found.ntk, traj["ntk"][0], rtol=1e-12)
    np.testing.assert_allclose(found.kernel_change, traj["ntk"][1] / traj["ntk"][0] - 1, rtol=1e-10)
    late = np.array([4.0, 5.0]) / found.rate.min()
    decay = np.log(np.abs(flow(late, z0)["residual"]))  # r ~ exp(-4 c t)
    np.testing.assert_allclose((decay[0] - decay[1]) / np.diff(late) / 4, found.rate, rtol=1e-4)
    order, start = TwoLayerOrder.of(flow, z0)
    kP, kQ = ((order.gamma * order.rho) ** 2 * k for k in (start.P, start.Q))
    np.testing.assert_allclose(found.ntk, 2 * (kP + kQ), rtol=1e-12)


def test_diagnosis_of_a_lazy_network_is_that_of_its_trajectory():
    flow, z0 = TwoLayer.from_lazy(1e6, 20, [0.6, -0.8], 1.5, rng=4)
    assert isinstance(flow, LazyTwoLayer)
    change = float(flow(math.inf, z0)["kernel_change"])
    assert float(phases.diagnose(flow, z0).kernel_change) == pytest.approx(change, rel=1e-8)


def test_every_size_of_a_network_may_vary_along_axes_of_its_own():
    _, z0 = phases.networks([[2.0], [1e6]], 3, sigma_u=[1.0, 1e-8, 1.0], eta_w=[1.0, 2.0, 3.0], rng=0)
    assert (z0.u.shape, z0.w.shape) == ((3, 2, 3, 2), (3, 2, 3, 2, 1))
    assert np.all(z0.u[:, :, 1, 0] < 1e-4)
    assert np.all(z0.w[:, 1, :, 1] > 900)
    assert len(np.unique(z0.u[..., 0])) == 18  # each with weights of its own


def test_zero_output_is_zero():
    flow, z0 = phases.networks(12, 50, zero_output=True, rng=0)
    assert np.all(flow.output(np, z0) == 0)
    assert np.ptp(flow.ntk(np, z0)) > 1


def test_a_diagram_reads_as_one_line():
    assert repr(phases.diagram("rates", 11)) == "Diagram(rates, 11 x 11 points; balance)"


def test_the_table_is_printed_and_goes_nowhere_else(tmp_path, capsys):
    assert main(["phase", "table", "--out", str(tmp_path / "table")]) == 2
    assert "does not go with the table" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_samples_are_reproducible_and_cost_nothing_in_width():
    given = Exponents(1, "-1/2", 0, 0, 0, 0)
    one, two = (phases.medians(given, [1e3, 1e250], rng=7) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert one.rate[1] == pytest.approx(10, rel=1e-6)  # K0/2 = gamma^2 d


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: phases.wishart(0.5, 3), r"wishart: width = 0.5 must lie in \[1, inf\)"),
        (lambda: phases.wishart(3, 0), "wishart: count = 0 must be a positive integer"),
        (lambda: phases.networks(3, 5, sigma_u=-1.0), "networks: sigma_u = -1.0 must lie in"),
        (lambda: phases.networks(3, 5, gama=1.0), "networks: parameter = 'gama' is unknown; did you mean 'gamma'"),
        (
            lambda: phases.networks(3, 5, sigma_u=[1.0, 2.0], y=[1.0] * 3),
            "networks: batch shapes = .* do not broadcast",
        ),
        (lambda: phases.networks(3, 5, x=[1.0, 2.0]), "networks: x has shape .2,. but needs one dimension"),
        (lambda: phases.networks(3, 5, zero_output="no"), "networks: zero_output = 'no' must be True or False"),
        (
            lambda: phases.diagnose(TwoLayer(y=1.0), ([1.0], [[1.0, 1.0]])),
            "TwoLayer: w has shape .1, 2., so d0 = 2, but x has",
        ),
        (
            lambda: phases.diagnose(TwoLayer(y=1.0), ([1.0], [[1.0], [1.0]])),
            "TwoLayer: w has shape .2, 1., so d = 2, but u has",
        ),
        (lambda: phases.diagnose(BalancedMode(s=1.0), 0.1), "diagnose: flow = BalancedMode.* must be a TwoLayer"),
        (lambda: phases.diagnose(TwoLayer(y=1.0), ([1e200], [[1e200]])), "diagnose: z0 leads to a kernel of inf"),
        (lambda: phases.medians(Exponents("x", 0, 0, 0, 0, 0), 10.0), "medians: c_d = x is not a rational number"),
        (lambda: phases.medians((1, 0), 10.0), "medians: exponents = .1, 0. must be six or seven"),
        (lambda: phases.slopes(Exponents(1, 0, 0, 0, 0, 0), 1e10), "slopes: kappa = .* must be two sizes that ascend"),
        (lambda: phases.slopes(Exponents(1, 0, 0, 0, 0, 0), (9.0, 9.0)), "slopes: kappa = .* must be two sizes"),
        (
            lambda: phases.slopes(Exponents([1, 2], [0] * 3, 0, 0, 0, 0)),
            "slopes: batch shapes = c_d .* broadcast",
        ),
        (lambda: phases.medians(Exponents(1, 0, 0, 0, 0, 0), 0.5), r"medians: kappa = 0.5 must lie in \[1, inf\)"),
        (lambda: phases.diagnose(TwoLayer(y=1.0), ([0.0], [[0.0]])), "diagnose: z0 leads to a kernel of 0.0"),
        (lambda: phases.diagram("lasy"), "phase: name = 'lasy' is unknown; did you mean 'lazy'"),
        (lambda: phases.diagram("lazy", cells=3), "phase: cells = 3 must be an integer from 11 to 2001"),
    ],
)
def test_bad_calls_are_refused(call, message):
    with pytest.raises((ValueError, TypeError), match="^" + message):
        call()


# the diagrams


@pytest.fixture(
    scope="module",
    params=quick([(name, cells) for cells in (48, 75) for name in phases.DIAGRAMS], lambda case: case[1] == 48),
    ids=str,
)
def drawn(request):
    name, cells = request.param
    return phases.diagram(name, cells)


def test_boundaries_lie_where_the_map_changes(drawn):
    misfit = drawn.misfit()
    assert set(misfit) == set(drawn.sides) == {curve.boundary for curve in drawn.curves}
    assert max(misfit.values()) <= 1, misfit


def curve(name, boundary):
    found = next(each for each in phases.diagram(name, 11).curves if each.boundary == boundary)
    return found.x, found.y


def orthogonal(sigma, y):
    """Return the network of the diagram `time`, whose layers are orthogonal and of length `sigma`."""
    none = np.zeros_like(sigma)
    return TwoLayer(y=y), TwoLayer.State(np.stack([sigma, none], -1), np.stack([none, sigma], -1)[..., None])


@pytest.mark.parametrize("power", [-2, 0, 3])
def test_isochrones_are_exact(power):
    sigma, y = curve("time", f"t = 1e{power}")
    far = y < 1e8 * sigma**2  # beyond, their parametrization cancels
    flow, z0 = orthogonal(sigma[far], y[far])
    np.testing.assert_allclose(flow.time_to(np, z0, loss=0.01 * flow.y**2), 10.0**power, rtol=1e-7)


def test_the_kernel_doubles_on_its_curves():
    flow, z0 = orthogonal(*curve("time", "kernel doubles"))
    np.testing.assert_allclose(flow([0.0, math.inf], z0)["ntk"][1], 2 * flow.ntk(np, z0), rtol=1e-12)
    alpha, h = curve("lazy", "alpha*")
    _, z0 = orthogonal(np.sqrt(h), 1.0)  # as layers of h random units are, up to fluctuations
    flow = LazyTwoLayer(y=1.0, gamma=h**-0.5, alpha=alpha, u0=z0.u, w0=z0.w)
    np.testing.assert_allclose(flow(math.inf, z0)["kernel_change"], 1, rtol=1e-12)


def test_both_parts_of_the_kernels_change_are_equal_at_the_second_crossover():
    """At an output of root mean square 1, by the sign of the target."""
    alpha, h = curve("lazy", "fluctuations")
    u = np.sqrt(h)[:, None] * [1.0, 0.0]
    w = (np.sqrt(h)[:, None] * np.stack([1 / np.sqrt(h), np.sqrt(1 - 1 / h)], -1))[..., None]
    for y, ratio in ((1.0, 2.0), (-1.0, 0.0)):  # even part plus and minus odd part, over the even part
        flow = LazyTwoLayer(y=y, gamma=h**-0.5, alpha=alpha, u0=u, w0=w)
        np.testing.assert_allclose(flow.output(np, flow.State(u, w)), 1.0, rtol=1e-12)
        change = flow(math.inf, (u, w))["kernel_change"]
        even = 4 * (y / alpha) ** 2 / h / 2**2  # (2 gamma y / (alpha K_0))^2 with K_0 = 2
        np.testing.assert_allclose(change * (2 + change), ratio * even, rtol=1e-10, atol=1e-14)


def test_balanced_layers_move_equally_whatever_start_and_target():
    ratio, shape = curve("rates", "balance")
    np.testing.assert_allclose(shape**2, ratio, rtol=1e-12)
    rng = np.random.default_rng(0)
    u, w, rates = rng.normal(size=(20, 4)), rng.normal(size=(20, 4, 1)), rng.uniform(0.1, 3, (2, 20))
    size = np.sqrt(rates[1] / rates[0]) * np.linalg.norm(u, axis=-1) / np.linalg.norm(w[..., 0], axis=-1)
    flow, start = TwoLayer(y=rng.normal(size=20), eta_u=rates[0], eta_w=rates[1]), (u, size[:, None, None] * w)
    end = flow.limit(np, TwoLayer.State(*start))
    moved = [np.linalg.norm(b - a, axis=1) / np.linalg.norm(a, axis=1) for a, b in zip(start, end, strict=True)]
    np.testing.assert_allclose(moved[0], moved[1][:, 0], rtol=1e-10)
    assert moved[0].min() > 0.01


def test_nothing_moves_where_the_output_is_right():
    a, b = curve("start", "f0 = y")
    u = np.stack([a, 0 * a], -1)
    w = np.stack([b / 2, np.sqrt(0.75) * b], -1)[..., None]
    np.testing.assert_allclose(TwoLayer(y=1.0).limit(np, TwoLayer.State(u, w)).u, u, atol=1e-14)


@pytest.mark.quick(2)
def test_a_shifted_boundary_would_be_seen(drawn):
    import dataclasses

    for axis in ("x", "y"):
        old = getattr(drawn, axis)
        width = old.cell(old.values)[1]
        grid = np.log(old.values) if old.log else old.values
        moved = grid + 2.5 * (grid[1] - grid[0]) * width
        shifted = old._replace(values=np.exp(moved) if old.log else moved)
        misfit = dataclasses.replace(drawn, **{axis: shifted}).misfit()
        assert max(misfit.values()) > 1


def test_misfit_without_a_boundary_on_the_grid():
    import dataclasses

    found = phases.diagram("rates", 15)
    with pytest.raises(ValueError, match=r"Diagram.misfit: boundary 'balance' has no curve or no change"):
        dataclasses.replace(found, sides={"balance": np.zeros((15, 15), bool)}).misfit()


def test_figures_say_what_they_show(drawn):
    with ls.plot.figure() as (_, ax):
        assert drawn.draw(ax) is ax
        assert ax.get_xlabel() == drawn.x.label
        assert ax.get_ylabel() == drawn.y.label
        assert ax.get_title(loc="left") == drawn.title
        assert any("Map:" in text.get_text() and re.search(r"\(20\d\d\)", text.get_text()) for text in ax.texts)
        for curve, line in zip(drawn.curves, ax.lines, strict=False):
            np.testing.assert_array_equal(line.get_xydata(), np.stack([curve.x, curve.y], axis=-1))
        assert [text.get_text() for text in ax.get_legend().get_texts() if text.get_text().strip()] == [
            *(curve.label for curve in drawn.curves if curve.label),
            *(name for name, _ in drawn.regions),
        ]


def test_regions_differ_in_gray_or_in_blueness():
    """Under protanopia and deuteranopia what is left is lightness and the balance of blue against yellow."""
    for name in ("exponents", "start"):
        found = phases.diagram(name, 12)
        colors = [to_rgb(color) for _, color in found.regions]
        for k, one in enumerate(colors):
            for two in colors[:k]:
                gray = abs(np.dot(np.subtract(one, two), [0.3, 0.59, 0.11]))
                blue = abs(np.dot(np.subtract(one, two), [-0.5, -0.5, 1.0]))
                assert max(gray, blue) > 0.07


def test_start_regions_are_the_cases_of_section_3_3():
    found = phases.diagram("start", 40)
    f0 = found.x.values * found.y.values[:, None] / 2
    np.testing.assert_array_equal(found.values, np.where(f0 < 0, 2, f0 > 1))


def test_lazy_map_is_the_law_where_wide():
    found = phases.diagram("lazy", 20)
    G = 1 / (np.sqrt(found.y.values[-1]) * found.x.values)
    law = np.log10(np.sqrt(1 + G**2) - 1)
    rich = G > 0.3
    np.testing.assert_allclose(found.values[-1][rich], law[rich], atol=0.02)


# the command


def test_phase_lists_what_it_draws(capsys):
    for arguments in (["phase", "--list"], ["phase"]):
        assert main(arguments) == 0
        assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*phases.DIAGRAMS, "table"]


def test_phase_table(capsys):
    assert main(["phase", "table"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = [row[1:] for row in rows if row[:1] == ["phase"]]
    assert found == [
        ["kernel", "frozen", "feature", "unstable", "unstable"],
        ["kernel", "feature", "feature", "kernel", "feature*"],
        ["feature", "feature", "feature", "feature", "feature"],
        ["kernel", "kernel", "kernel", "kernel", "feature*"],
    ]


def test_phase_writes_figure_and_grid(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    assert main(["phase", "rates", "--out", str(out), "--cells", "11"]) == 0
    assert capsys.readouterr().out.split() == [str(out / f"rates.{ending}") for ending in ("png", "pdf", "npz")]
    assert (out / "rates.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "rates.pdf").read_bytes().startswith(b"%PDF")
    with np.load(out / "rates.npz") as grid:
        again = phases.diagram("rates", 11)
        np.testing.assert_array_equal(grid["values"], again.values)
        np.testing.assert_array_equal(grid["side: balance"], grid["values"] > 0)
        assert grid["x"].shape == grid["y"].shape == (11,)
        assert "Xu and Ziyin" in str(grid["source"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["phase", "lasy"], "phase: name = 'lasy' is unknown; did you mean 'lazy'?"),
        (["phase", "rates", "--cells", "2"], "phase: cells = 2 must be"),
        (["phase", "rates", "--cells", "21", "--out", "taken"], "phase: out = taken is not a folder"),
    ],
)
def test_phase_refuses_in_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"linsolve: {message}")
    assert error.count("\n") == 1


def test_a_phase_diagram_is_a_diagram_on_a_grid_with_boundaries():
    from linsolve.ensembles import Diagram

    found = phases.diagram("rates", 11)
    assert isinstance(found.grid, Diagram)
    assert isinstance(found.x, type(found.grid.axes["x"]))
    data = found.to_xarray()
    assert data["map"].dims == ("y", "x")
    assert np.array_equal(data["map"], found.values)
    assert np.array_equal(data["balance"], found.sides["balance"])
    assert data["x"].attrs["symbol"] == found.x.label
