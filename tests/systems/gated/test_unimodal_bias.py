"""Times of two modalities against raw weights: orders, logarithmic convergence of the ratio, refused moments."""

import numpy as np
import pytest
from mutants.gated import WRONG_LAWS, CorrelationAlone
from scipy.integrate import solve_ivp

import linsolve as ls

UnimodalBias = ls.laws.UnimodalBias


def drawn(seed, d_a=2, d_b=2, width=3):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(d_a + d_b, d_a + d_b)) / 3
    y = np.concatenate([1.5 * np.ones(d_a) / np.sqrt(d_a), 0.6 * rng.choice([-1, 1], d_b) / np.sqrt(d_b)])
    return {
        "last_a": rng.normal(size=width),
        "first_a": rng.normal(size=(width, d_a)),
        "last_b": rng.normal(size=width),
        "first_b": rng.normal(size=(width, d_b)),
        "covariance": np.eye(d_a + d_b) + noise @ noise.T,
        "correlation": y,
    }


def raw_times(given, small):
    """Return both times of one block-diagonal first layer and one second layer, by SciPy alone."""
    sigma, y = given["covariance"], given["correlation"]
    (h_a, d_a), (h_b, d_b) = given["first_a"].shape, given["first_b"].shape
    mask = np.zeros((h_a + h_b, d_a + d_b))
    mask[:h_a, :d_a] = mask[h_a:, d_a:] = 1
    first = mask.copy()
    first[:h_a, :d_a], first[h_a:, d_a:] = given["first_a"], given["first_b"]
    last, cut = np.concatenate([given["last_a"], given["last_b"]]), h_a + h_b
    best = np.linalg.solve(sigma, y)
    alone = np.linalg.solve(sigma[:d_a, :d_a], y[:d_a])
    plateau, start = (best @ y - alone @ y[:d_a]) / 2, best @ y / 2

    def parts(z):
        return z[:cut], z[cut:].reshape(mask.shape)

    def rate(_, z):
        a, w = parts(z)
        pull = y - (a @ w) @ sigma
        return np.concatenate([w @ pull, (np.outer(a, pull) * mask).ravel()])

    def until(goal):
        def event(_, z):
            gap = best - parts(z)[0] @ parts(z)[1]
            return gap @ sigma @ gap / 2 / goal - 1

        event.direction = -1
        return event

    z0 = small * np.concatenate([last, first.ravel()])
    events = until((start + plateau) / 2), until(plateau / 2)
    events[1].terminal = True
    found = solve_ivp(rate, (0, 1e4), z0, "DOP853", events=events, rtol=1e-12, atol=1e-15 * small)
    return float(found.t_events[0][0]), float(found.t_events[1][0])


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in (1, 2))])
def test_law_holds(seed):
    report = ls.verify(UnimodalBias.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


@pytest.mark.parametrize("name", WRONG_LAWS)
def test_wrong_formula_is_rejected(name):
    wrong, seen_by = WRONG_LAWS[name]
    law = wrong.example(np.random.default_rng(0))
    object.__setattr__(law, "scales", law.scales[:2])
    assert seen_by in ls.verify(law).failed


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in range(2, 30))])
@pytest.mark.parametrize(("d_a", "d_b"), [(2, 2), (3, 1)])
def test_times_are_those_of_raw_weights_to_a_power_of_the_start(seed, d_a, d_b):
    given = drawn(seed, d_a, d_b)
    law = UnimodalBias(**given)
    assert law.orders["delay of B"] <= (1.0 if d_b == 1 else 1 - law.moments.sizes[1])
    for small in (1e-4, 1e-6):
        for found, raw, order in zip(law.times(small), raw_times(given, small), law.orders.values(), strict=True):
            assert abs(found - raw) <= 30 * small**order, (law.orders, small)


def distances(law, logs):
    """Return the distances of the ratio from its limit at starts ``exp(-log)``, and their slopes in the logarithm."""
    ratios = [second / first for first, second in (law.times(float(np.exp(-log))) for log in logs)]
    gaps = np.abs(np.array(ratios) - law.limit)
    return gaps, np.diff(np.log(gaps)) / np.diff(np.log(logs))


def test_the_ratio_without_constants_converges_like_one_over_a_logarithm():
    logs = np.log(10) * np.array([8.0, 16.0, 32.0, 64.0])
    law = UnimodalBias(**drawn(3))
    gaps, slopes = distances(law, logs)
    assert np.abs(slopes + 1).max() <= 0.1
    assert abs(slopes[-1] + 1) <= 0.02
    for small, gap in zip(np.exp(-logs[:2]), gaps, strict=False):  # of raw weights, too
        first, second = raw_times(drawn(3), small)
        assert abs(abs(second / first - law.limit) / gap - 1) <= 1e-3
    assert abs(distances(CorrelationAlone(**drawn(3)), logs)[1][-1] + 1) >= 0.3  # the mutant


@pytest.mark.parametrize("correlation", [0.6, 0.0, -0.6])
def test_a_single_input_whose_correlation_changes_its_sign(correlation):
    given = {"last_a": [1.0], "first_a": [[1.0]], "last_b": [1.5], "first_b": [[0.4]]}
    given = {name: np.array(value) for name, value in given.items()}
    given |= {"covariance": np.array([[1.0, 0.6], [0.6, 1.0]]), "correlation": np.array([2.0, correlation])}
    law = UnimodalBias(**given)
    left = abs(correlation - 1.2)
    assert law.limit == pytest.approx(1 + (2.0 - np.copysign(correlation, correlation * (correlation - 1.2))) / left)
    assert np.abs(np.subtract(law.times(1e-6), raw_times(given, 1e-6))).max() <= 1e-4


def test_units_of_inputs_and_output_do_not_matter():
    given = drawn(4)
    law = UnimodalBias(**given)
    scaled = UnimodalBias(
        **given | {"covariance": 1e20 * given["covariance"], "correlation": 1e5 * given["correlation"]}
    )
    assert np.abs(np.divide(law.times(1e-5), np.multiply(1e5, scaled.times(1e-5 * np.sqrt(1e-15)))) - 1).max() <= 1e-9
    assert abs(scaled.limit / law.limit - 1) <= 1e-12


GOOD = drawn(0)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"correlation": [0.1, 0.1, 1.0, 0.0]}, ls.NotExact, "correlation of B at least that of A"),
        ({"correlation": [0.0, 0.0, 1.0, 0.0]}, ValueError, "correlation = a vector must not vanish on modality A"),
        ({"correlation": [1.0, 0.0, 1.0]}, ValueError, r"correlation has shape \(3,\), so n_in = 3"),
        ({"first_b": np.ones((3, 1))}, ValueError, "correlation = a vector of 4 must have d_a \\+ d_b = 3 entries"),
        ({"covariance": np.diag([1.0, 1.0, 1.0, 1e-5])}, ValueError, "covariance = a matrix with eigenvalue 1e-05"),
        ({"covariance": np.zeros((4, 4))}, ValueError, "covariance = a matrix with eigenvalue 0 must have"),
        (
            {"covariance": np.eye(4), "correlation": [1.0, 0.0, 1e-4, 0.0]},
            ValueError,
            "correlation = 0.0001 for B after A",
        ),
        ({"last_a": np.zeros(3), "first_a": np.zeros((3, 2))}, ValueError, "last_a = a start without the growing part"),
    ],
)
def test_errors_name_the_argument(changes, error, message):
    with pytest.raises(error, match=f"UnimodalBias: {message}"):
        UnimodalBias(**GOOD | {name: np.asarray(value) for name, value in changes.items()})


def test_a_start_that_is_not_small_is_refused():
    with pytest.raises(ValueError, match=r"UnimodalBias\.times: small = 1 must leave both modalities to be learned"):
        UnimodalBias(**GOOD).times(1.0)
    with pytest.raises(ValueError, match=r"UnimodalBias\.times: small = 2\.0 must be a number in \[1e-100, 1\]"):
        UnimodalBias(**GOOD).times(2.0)


def test_the_largest_starts_that_leave_both_modalities_to_be_learned_are_accepted():
    law = UnimodalBias(**GOOD)
    for modality, small in ((0, 0.3), (1, 0.49)):  # a modality learned soon after the start
        times = np.array(law.times(small)) * law.moments.pace
        assert 0 < times[modality] < 1


def test_a_start_that_has_learned_half_of_the_first_modality_is_not_simulated():
    one, little = np.array([1.0]), np.array([0.01])
    law = UnimodalBias(one, one[:, None], little, little[:, None], np.eye(2), np.array([1.0, 0.5]))
    half = np.sqrt(1 - np.sqrt(0.5))  # the map of A is small^2, its share of the loss (1 - small^2)^2
    assert 0 < law.simulated(0.99 * half)[0] < 0.1
    with pytest.raises(ValueError, match=r"UnimodalBias\.simulated: small = 0\.54.* must leave both modalities"):
        law.simulated(1.01 * half)


def test_tiny_weights_are_learned_later_without_a_warning():
    def law(size):
        return UnimodalBias(**GOOD | {name: size * GOOD[name] for name in ("last_a", "first_a", "last_b", "first_b")})

    tiny = law(1e-200)
    assert np.abs(np.divide(tiny.times(1e-3), law(1e-130).times(1e-73)) - 1).max() <= 1e-12
    assert np.isfinite(law(1e-300).times(1e-100)).all()
    with pytest.raises(ValueError, match=r"UnimodalBias\.simulated: small = 1e-100 makes initial weights of .*e-301"):
        law(1e-201).simulated(1e-100)


def test_a_call_names_the_methods():
    with pytest.raises(TypeError, match=r"UnimodalBias: law\(t\) is not defined .*; say law\.times"):
        UnimodalBias(**drawn(0))(1.0)
