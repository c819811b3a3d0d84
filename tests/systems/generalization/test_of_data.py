"""The law of given inputs: 50 digits, sampled teachers and noise, ridge, kernels, optimal stopping, arguments."""

import numpy as np
import pytest
from density import mp

import linsolve as ls
from linsolve import arithmetic

LAW = ls.laws.GeneralizationOfData
XP = arithmetic.precise(50)


def made(n, d, ridge=0.0, noise=0.3, signal=0.8, start=0.4, seed=0):
    rng = np.random.default_rng(seed)
    tests = rng.normal(size=(2 * d, d))
    return LAW(rng.normal(size=(n, d)), tests.T @ tests / len(tests), signal, start, noise, ridge)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_the_curves_are_those_of_matrix_exponentials_to_fifty_digits(shape):
    """The error ``e = A w* + e^{-Ht} w(0) + B eps`` of ``w' = -H w + X^T y/n``, H positive definite by the ridge."""
    (n, d), t = shape, mp.mpf(3) / 2
    law = made(n, d, ridge=0.25)
    X, covariance = mp.matrix(law.inputs.tolist()), mp.matrix(law.covariance.tolist())
    signal, start, noise = (mp.mpf(float(v)) for v in (law.signal, law.start, law.noise_variance))
    H = X.T * X / n + mp.eye(d) / 4
    decay = mp.expm(-H * t)
    response = mp.inverse(H) * (mp.eye(d) - decay) * X.T / n
    bias = response * X - mp.eye(d)
    C = signal / d * bias * bias.T + start / d * decay * decay.T + noise * response * response.T
    product = covariance * C
    square = product * product
    mean, variance = (sum(m[i, i] for i in range(d)) for m in (product, square))
    high = law.cast(XP)
    found = high.test_moments(XP, XP.asarray([1.5]))
    assert abs(found[0][0].item() - mean) <= 1e-44
    assert abs(found[1][0].item() - 2 * variance) <= 1e-44
    residual = mp.eye(n) - X * response
    R = signal / d * residual * X * X.T * residual.T + start / d * (X * decay) * (X * decay).T
    R += noise * residual * residual.T
    found = high.train_moments(XP, XP.asarray([1.5]))
    assert abs(found[0][0].item() - sum(R[i, i] for i in range(n)) / n) <= 1e-44
    assert abs(found[1][0].item() - 2 * sum((R * R)[i, i] for i in range(n)) / n**2) <= 1e-44
    assert float(law.test_error(1.5)) == pytest.approx(float(mean + noise), rel=1e-14)


@pytest.mark.parametrize("ridge", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(12, 5), (5, 12), (7, 7)])
def test_sampled_teachers_and_noises_are_within_four_standard_errors(shape, ridge):
    law, count, t = made(*shape, ridge=ridge), 20_000, np.array([0.0, 0.5, 4.0, 60.0])
    test, train = law.sample_errors(np.random.default_rng(1), count, t)
    for drawn, mean, std in (
        (test + 0.3, law.test_error(t), law.test_error_std(t)),
        (train, law.train_error(t), law.train_error_std(t)),
    ):
        z = (drawn.mean(axis=0) - mean) / (std / np.sqrt(count))
        assert np.max(np.abs(z)) <= 4, z
        squares = (drawn - mean) ** 2
        z = (squares.mean(axis=0) - std**2) / (squares.std(axis=0) / np.sqrt(count))
        assert np.max(np.abs(z)) <= 4, z


@pytest.mark.parametrize("seed", range(3))
def test_the_law_holds(seed):
    report = ls.verify(LAW.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


def test_ends_of_training():
    law = made(4, 9, noise=0.0, start=0.5, signal=1.0)
    null = np.eye(9) - np.linalg.pinv(law.inputs) @ law.inputs
    floor = 1.5 / 9 * np.trace(law.covariance @ null)
    assert float(law.test_error(np.inf)) == pytest.approx(floor, rel=1e-12)
    assert float(law.train_error(np.inf)) == 0
    law = made(9, 4, ridge=0.3, start=0.0, noise=0.5, signal=1.0)
    H = law.inputs.T @ law.inputs / 9
    solved = np.linalg.inv(H + 0.3 * np.eye(4))
    ridge = 0.5 + np.trace(law.covariance @ solved @ (0.3**2 / 4 * np.eye(4) + 0.5 / 9 * H) @ solved)
    assert float(law.test_error(np.inf)) == pytest.approx(ridge, rel=1e-13)
    assert float(law.test_error(1e9)) == pytest.approx(ridge, rel=1e-13)


@pytest.mark.parametrize("size", [1e-100, 1e-158, 1e-170, 1e120])
def test_inputs_of_any_size_have_the_curves_of_inputs_of_order_one(size):
    X, t = np.random.default_rng(0).normal(size=(6, 4)), np.array([0.0, 0.5, 4.0, np.inf])
    unit, one = LAW(X, np.eye(4), start=0.3), LAW(X * size, np.eye(4), start=0.3)
    forever = np.array([0.0, np.inf])
    assert one.test_error(forever) == pytest.approx(unit.test_error(forever), rel=1e-12, abs=1e-25)
    assert one.test_error_std(forever) == pytest.approx(unit.test_error_std(forever), rel=1e-12, abs=1e-25)
    if size == 1e-100:
        assert one.train_error(0.0) == pytest.approx(unit.train_error(0.0) * size**2, rel=1e-12)
        assert one.train_error_std(0.0) == pytest.approx(unit.train_error_std(0.0) * size**2, rel=1e-12)
        unit, one = LAW(X, np.eye(4), noise_variance=1.0), LAW(X * size, np.eye(4), noise_variance=size**2)
        assert one.test_error(t / size / size) == pytest.approx(unit.test_error(t) - 1.0, rel=1e-12)
        assert one.optimal_stopping_time() * size**2 == pytest.approx(unit.optimal_stopping_time(), rel=1e-7)
        noisy = LAW(X * size, np.eye(4), noise_variance=1.0).test_error_std(np.inf)
        only_noise = LAW(X, np.eye(4), signal=0.0, noise_variance=1.0).test_error_std(np.inf)
        assert noisy == pytest.approx(only_noise / size**2, rel=1e-12)  # 1.85e200
    if size == 1e-170:
        noisy = LAW(X * size, np.eye(4), noise_variance=1.0)
        assert noisy.test_error(1.0) == pytest.approx(2.0, rel=1e-15)  # nothing is learned by then
        with pytest.raises(OverflowError, match=r"test_error: inputs of magnitude .* leads beyond"):
            noisy.test_error(np.inf)


def test_large_gaussian_data_have_the_curves_of_the_limit():
    rng, t = np.random.default_rng(0), np.array([0.3, 1.0])
    for n in (600, 200, 80):
        given = LAW(rng.normal(size=(n, 200)), np.eye(200), noise_variance=0.25)
        limit = ls.laws.GeneralizationInTime(200, n, noise_variance=0.25)
        for name in ("test_error", "test_error_std", "train_error_std"):
            assert getattr(given, name)(t) == pytest.approx(getattr(limit, name)(t), rel=0.1), name


def test_the_optimal_stopping_time_is_where_the_error_is_least():
    for law in (made(8, 5), made(5, 8), made(6, 6, ridge=0.05), made(20, 4, noise=2.0)):
        best = law.optimal_stopping_time()
        around = law.test_error(best * np.array([0.99, 1.0, 1.01]))
        assert around[1] == around.min()
        assert around[1] <= law.test_error(np.concatenate([np.geomspace(1e-3, 1e5, 400), [np.inf]])).min() + 1e-12
    assert made(8, 5, noise=0.0).optimal_stopping_time() == np.inf
    assert made(8, 5, signal=0.0, start=0.0).optimal_stopping_time() == 0
    rng = np.random.default_rng(0)  # a weight decay of gamma sigma^2/|w*|^2 is the best estimator: no stopping helps
    X = rng.normal(size=(12, 6))
    for share, finite in ((0.98, True), (1.0, False), (1.02, False)):
        law = LAW(X, np.eye(6), signal=2.0, noise_variance=0.4, ridge=share * 0.5 * 0.4 / 2.0)
        assert np.isfinite(law.optimal_stopping_time()) == finite


def test_a_frozen_kernel_has_these_errors():
    rng, n, m, count, noise = np.random.default_rng(0), 12, 6, 4000, 0.1
    x = rng.uniform(-1, 1, n + m)
    kernel = np.exp(-((x[:, None] - x) ** 2))
    law = LAW.of_kernel(kernel, n, signal=1.5, start=0.2, noise_variance=noise)
    values, vectors = np.linalg.eigh(kernel)
    root = vectors * np.sqrt(np.maximum(values, 0))
    target, first = (np.sqrt(s) * rng.normal(size=(count, n + m)) @ root.T for s in (1.5, 0.2))
    y = target[:, :n] + np.sqrt(noise) * rng.normal(size=(count, n))
    flow = ls.FrozenKernel.for_mean_loss(np.broadcast_to(kernel[:n, :n], (count, n, n)), y)
    t = np.array([0.0, 2.0, 50.0])
    cross = np.broadcast_to(kernel[n:, :n], (count, m, n))
    off = flow.predict(t, first[:, :n], cross, first[:, n:]) - target[:, n:]
    left = flow(t, first[:, :n])["f"] - y
    for drawn, mean, std in (
        (np.mean(off**2, axis=-1) + noise, law.test_error(t), law.test_error_std(t)),
        (np.mean(left**2, axis=-1), law.train_error(t), law.train_error_std(t)),
    ):
        z = (drawn.mean(axis=1) - mean) / (std / np.sqrt(count))
        assert np.max(np.abs(z)) <= 4, z
        assert drawn.std(axis=1) == pytest.approx(std, rel=0.1)


def test_bad_arguments_are_named():
    X = np.ones((4, 2))
    cases = [
        (
            lambda: LAW(X, np.eye(3)),
            r"covariance has shape \(3, 3\), so input = 3, but inputs has",
        ),
        (lambda: LAW(X, [[1.0, 0.5], [0.0, 1.0]]), r"covariance - covariance\^T = 0.5 must vanish"),
        (lambda: LAW(X, [[1.0, 2.0], [2.0, 1.0]]), r"covariance has the eigenvalue -0.5, which must be at least 0"),
        (lambda: LAW(X, np.eye(2), ridge=-1.0), r"GeneralizationOfData: ridge = -1.0 must lie in \[0, inf\)"),
        (lambda: LAW(np.full((4, 2), np.nan), np.eye(2)), r"inputs = nan at index \(0, 0\) is not a number"),
        (lambda: LAW(np.ones((3, 4, 2)), np.eye(2)), r"inputs has shape \(3, 4, 2\) but must have axes"),
        (lambda: LAW.of_kernel(np.ones((2, 3)), 1), r"of_kernel: kernel has shape \(2, 3\) but must be square"),
        (lambda: LAW.of_kernel(-np.eye(3), 2), r"of_kernel: kernel has the eigenvalue -1, which must be at least 0"),
        (lambda: LAW.of_kernel(np.eye(3), 3), r"of_kernel: samples = 3 must be an integer from 1 to 2"),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(OverflowError, match=r"GeneralizationOfData: inputs of magnitude 1e\+200 leads beyond"):
        LAW(1e200 * X, np.eye(2))


@pytest.mark.parametrize("count", [12, 30])
@pytest.mark.parametrize("size", [1e-300, 1e-168, 1e160])
def test_standard_deviations_keep_their_digits_at_any_size(count, size):
    X, t = np.random.default_rng(0).normal(size=(count, 20)), [0.0, 1.0, np.inf]

    def stds(signal=0.7, covariance=1.0):
        law = LAW(X, covariance * np.eye(20), signal, 0.4 * signal, 0.3 * signal, 0.1)
        return np.array([law.test_error_std(t), law.train_error_std(t)])

    np.testing.assert_allclose(stds(0.7 * size) / size, stds(), rtol=1e-13)
    np.testing.assert_allclose(stds(covariance=size)[0] / size, stds()[0], rtol=1e-13)


def test_accuracies_are_at_most_1():
    law = LAW(np.random.default_rng(0).normal(size=(30, 20)), np.eye(20), noise_variance=0.25)
    shares = np.array([law.accuracy(np.linspace(0, 9, 200), limit) for limit in np.geomspace(1, 1e3, 30)])
    assert shares.max() <= 1


def test_a_denormal_ridge_is_answered_or_refused_by_name_without_a_warning():
    law = ls.laws.GeneralizationOfData.example(np.random.default_rng(0))._with(ridge=np.asarray(5e-324))
    assert np.isfinite(law.train_error([0.0, 1.0, np.inf])).all()
    with pytest.raises(
        OverflowError, match=r"GeneralizationOfData\.test_error: ridge of magnitude 4.94e-324 leads beyond"
    ):
        law.test_error([0.0, 1.0, np.inf])
