"""Frozen kernels at every scale: of numbers, up to the ends of the doubles, and of matrices, in blocks."""

import numpy as np
import pytest

from linsolve import BlockKernel, FrozenKernel, SpecializedKernel
from linsolve.systems.kernel_regime.kernel_matrix import is_symmetric

TIMES = [0.0, 1e-9, 0.1, 3.0, 100.0, np.inf]


def kernel_of(n, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n, n + 3))
    return rows @ rows.T / n


@pytest.mark.parametrize("power", [-900, -500, 500, 900])
@pytest.mark.parametrize("still", ["y", "f0", "none"])
def test_outputs_scale_with_targets_and_start_to_the_last_bit(power, still):
    """The reference of the outputs, start or target, is chosen without squares that leave the doubles."""
    rng, kernel = np.random.default_rng(1), kernel_of(7)
    y, f0 = (rng.normal(size=7) * (0 if still == name else 1) for name in ("y", "f0"))
    usual = FrozenKernel(kernel, y)(TIMES, f0)["f"]
    scaled = FrozenKernel(kernel, np.ldexp(y, power))(TIMES, np.ldexp(f0, power))["f"]
    away = usual != 0
    np.testing.assert_array_equal(scaled[away], np.ldexp(usual, power)[away])
    assert np.all(np.isfinite(scaled))


def test_small_targets_keep_their_digits_late_and_small_starts_early():
    """Counted from the wrong one, outputs would be good to 1e-16 of the larger only."""
    kernel, ones = np.diag([1.0, 2.0]), np.ones(2)
    late = FrozenKernel(kernel, 1e-30 * ones)([20.0, 200.0], ones)["f"]
    right = 1e-30 + np.exp(-np.outer([20.0, 200.0], [1.0, 2.0])) * (1 - 1e-30)
    np.testing.assert_allclose(late, right, rtol=1e-14)
    early = FrozenKernel(kernel, ones)([0.0, 1e-20], 1e-30 * ones)["f"]
    right = 1e-30 - np.expm1(-np.outer([0.0, 1e-20], [1.0, 2.0]))
    np.testing.assert_allclose(early, right, rtol=1e-14)


def test_nothing_to_learn_and_backward_in_time():
    kernel, y = kernel_of(4), np.array([1.0, -2.0, 0.5, 0.0])
    np.testing.assert_allclose(FrozenKernel(kernel, y)(TIMES, y)["f"], np.tile(y, (6, 1)), rtol=0, atol=1e-15)
    f0, flow = np.zeros(4), FrozenKernel(kernel, y)
    back = flow([-2.0], f0)["f"]
    again = flow(2.0, back[0])["f"]
    np.testing.assert_allclose(again, f0, atol=1e-13 * np.abs(back).max())


@pytest.mark.parametrize("at", [(0, 1), (0, 299), (255, 256), (599, 3), (400, 599), (300, 20)])
def test_one_bit_of_asymmetry_is_seen_in_every_block(at):
    kernel = kernel_of(600)
    kernel = (kernel + kernel.T) / 2
    assert is_symmetric(np, kernel)
    kernel[at] = np.nextafter(kernel[at], np.inf)
    assert not is_symmetric(np, kernel)
    assert not is_symmetric(np, np.stack([kernel + kernel.T, kernel]))


def test_values_that_are_not_numbers_are_not_symmetric():
    assert not is_symmetric(np, np.array([[np.nan]]))
    assert is_symmetric(np, np.array([[0.0, -0.0], [0.0, np.inf]]))


def test_the_spectrum_is_that_of_the_kernel_to_the_last_bit():
    kernel = kernel_of(90)
    kernel = (kernel + kernel.T) / 2
    for given in (kernel, np.stack([kernel, 2 * kernel])):
        found = FrozenKernel(given, np.ones(90)).spectrum(np)
        values, vectors = np.linalg.eigh(given)
        np.testing.assert_array_equal(found.values, values)
        np.testing.assert_array_equal(found.vectors, vectors)


# the ends of the doubles


@pytest.mark.parametrize("power", [-1000, -900, 900])
def test_observables_of_residuals_at_the_ends_of_the_doubles(power):
    """The alignment of the residual has no scale; energies that leave the doubles do not enter it."""
    rng, kernel = np.random.default_rng(2), kernel_of(5)
    y, f0 = rng.normal(size=(2, 5))
    usual = FrozenKernel(kernel, y)(TIMES, f0)["residual_alignment"]
    for by_kernel in (-900, 0, 900):
        flow = FrozenKernel(np.ldexp(kernel, by_kernel), np.ldexp(y, power), 2.0**-by_kernel)
        found = flow(TIMES, np.ldexp(f0, power))["residual_alignment"]
        np.testing.assert_allclose(found[:4], usual[:4], rtol=1e-12)
        assert np.all((found >= 0) & (found <= 1))


FLOWS = {
    "frozen": (lambda s: FrozenKernel(s * np.ones((2, 2)), [1.0, 0.0]), 2),
    "block": (lambda s: BlockKernel(s, s, s, [2, 2]), 4),
    "specialized": (lambda s: SpecializedKernel([s] * 2, s * np.ones((2, 2)), [2, 2]), 4),
}
every_flow = pytest.mark.parametrize("name", FLOWS)


@every_flow
@pytest.mark.parametrize("scale", [1e308, 1.7e308])
def test_eigenvalues_beyond_doubles_are_refused_with_the_remedy(name, scale):
    """Their kernels have finite entries; the largest eigenvalue is 2 or 4 times an entry."""
    make, _ = FLOWS[name]
    with pytest.raises(OverflowError, match=r"largest eigenvalue of (the )?kernel is beyond the range of doubles"):
        make(scale)


@every_flow
@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-320, 1e-300, 1e-150, 1.0, 1e150, 1e307])
def test_every_scale_of_the_kernel_gives_numbers_without_a_warning(name, scale):
    make, n = FLOWS[name]
    flow, r0 = make(scale), np.linspace(-1.0, 2.0, n)
    traj = flow([0.0, 1e-300, 1.0, 1e300, np.inf], r0)
    assert all(np.isfinite(traj[each]).all() for each in traj.names if each != "mode_energy")
    steps = np.array([flow.largest_step(), flow.largest_step(0.5), flow.best_step()])
    top = n * scale
    np.testing.assert_allclose(steps, np.array([2, 3, 1]) / top if top > 2 / 1.7e308 else np.inf, rtol=1e-12)
    assert np.isfinite(flow.discrete([0, 1, 7], r0, step=min(steps[2], 1.0))[flow.State._fields[0]]).all()


def test_only_the_product_of_rate_and_kernel_enters():
    """Also where that product of a huge and a tiny number decides the step."""
    kernel, y, f0 = kernel_of(4), np.ones(4), np.zeros(4)
    usual = FrozenKernel(kernel, y, 0.5)
    for power in (-1000, -500, 500, 1000):
        other = FrozenKernel(np.ldexp(kernel, power), y, np.ldexp(0.5, -power))
        np.testing.assert_allclose(other(TIMES, f0)["f"], usual(TIMES, f0)["f"], rtol=1e-12, atol=1e-22)
        assert float(other.largest_step()) == pytest.approx(float(usual.largest_step()), rel=1e-14)
        assert float(other.best_step()) == pytest.approx(float(usual.best_step()), rel=1e-14)
    tiny = FrozenKernel([[1e308]], [1.0], 5e-324)
    assert float(tiny.largest_step()) == pytest.approx(2 / (1e308 * 5e-324), rel=1e-15)


def test_predictions_beyond_doubles_are_refused_and_those_within_are_right():
    flow = FrozenKernel([[2.0]], [1.0])
    np.testing.assert_allclose(flow.predict([1e300, np.inf], [0.0], [[1e300]], [0.0]), [[5e299], [5e299]], rtol=1e-15)
    still = FrozenKernel([[0.0]], [1.0])
    np.testing.assert_allclose(still.predict(1e100, [0.0], [[1e200]], [0.0]), [1e300], rtol=1e-15)
    with pytest.raises(OverflowError, match=r"FrozenKernel.predict: k_x of magnitude 1e\+300 leads beyond the range"):
        still.predict(1e300, [0.0], [[1e300]], [0.0])


@pytest.mark.parametrize("flow", [BlockKernel, SpecializedKernel])
def test_sizes_beyond_the_memory_are_refused_before_anything_is_made(flow):
    entries = (2.0, 1.0, 0.5) if flow is BlockKernel else ([2.0, 2.0], [[1.0, 0.5], [0.5, 1.0]])
    for count in (1e13, 1e200, 1.7e308):
        with pytest.raises(ValueError, match=f"{flow.__name__}: sum of sizes = .* more than the memory"):
            flow(*entries, sizes=[count, 2])


def test_at_time_zero_the_outputs_are_the_start_at_every_scale():
    rng = np.random.default_rng(5)
    for _ in range(200):
        n, (of_kernel, of_target) = rng.integers(1, 20), 10.0 ** rng.integers(-150, 150, 2)
        columns = of_kernel * rng.normal(size=(n, rng.integers(1, n + 1)))
        start = rng.normal(size=(3, n)) * 10.0 ** rng.integers(-150, 150, (3, 1))
        flow = FrozenKernel(columns @ columns.T, of_target * rng.normal(size=n))
        assert np.array_equal(flow(0.0, start)["f"], start)
        assert np.array_equal(flow([0.0, np.inf], start)["f"][0], start)


def test_at_time_zero_subnormal_outputs_are_the_start():
    rng, least = np.random.default_rng(6), 5e-324
    for power in range(24):
        for size in (1, 2, 5):
            starts = np.round(2.0**power * rng.normal(size=(20, size))) * least
            for y in (np.zeros(size), starts[0]):
                assert np.array_equal(FrozenKernel(kernel_of(size), y)(0.0, starts)["f"], starts)


def test_at_infinite_time_every_start_is_at_its_limit():
    kernel, y = kernel_of(4), np.array([1.0, 1e-10, -2.0, 1e-3])
    flow = FrozenKernel(kernel, y)
    for start in (np.zeros(4), 1e-300 * np.ones(4), y, -y, np.array([3.0, 1.0, 4.0, 1.0])):
        for t in (np.inf, [np.inf], [0.0, 1.0, np.inf, 2.0]):
            found = flow(t, start)["f"]
            assert np.array_equal(found[np.isinf(t)], y[None] if np.ndim(t) else [y])


@pytest.mark.parametrize(("kernels", "rates", "clocks"), [(40, 1000, -990), (-80, -1000, 1010)])
def test_rates_of_modes_may_leave_the_doubles_if_their_products_with_times_do_not(kernels, rates, clocks):
    kernel, y, f0 = kernel_of(5), np.arange(1.0, 6.0), np.array([0.1, -0.2, 0.0, 3.0, 1.0])
    eta, times = np.ldexp(1.0, rates), np.ldexp(np.asarray(TIMES), clocks)
    found = FrozenKernel(np.ldexp(kernel, kernels), y, eta=eta)(times, f0)["f"]
    usual = FrozenKernel(np.ldexp(kernel, kernels + rates + clocks), y)(TIMES, f0)["f"]
    np.testing.assert_array_equal(found, usual)
