"""The Lanczos process against fifty digits: its bound holds, and it steps aside where it does not converge."""

import array_api_strict
import mpmath
import numpy as np
import pytest

import linsolve as ls
from benchmarks.accuracy_frozen_kernel import Reference, draw
from linsolve.numerics.lanczos import Krylov, krylov

mp = mpmath.MPContext()
mp.dps = 50
N = 300
# eigenvalues of a diagonal kernel, whose answer is known to any number of digits at any size
SPECTRA = {
    "smooth": N / np.arange(1.0, N + 1) ** 2,
    "flat": np.linspace(0.5, 1.0, N),
    "few": np.repeat([8.0, 2.0, 0.5, 0.0], N // 4),
    "sixteen decades": np.logspace(3, -13, N),
    "one above a bulk": np.r_[1e4, np.linspace(0.1, 1.0, N - 1)],
    "dense at zero": np.linspace(0.0, 1.0, N) ** 2,
    "singular": np.r_[np.linspace(1.0, 2.0, N // 2), np.zeros(N // 2)],
}
TIMES = np.array([0.0, 1e-3, 1.0, 30.0, 1e3])


def vector(seed=0):
    return np.random.default_rng(seed).normal(size=N)


def exact(values, t, v):
    """Return exp(-lam t) v and its integral, rounded to doubles once."""

    def integral(x, s):
        return -mp.expm1(-x * s) / x if x else s

    pairs = [[(mp.mpf(x), mp.mpf(s), mp.mpf(c)) for x, c in zip(values, v, strict=True)] for s in t]
    decayed = [[float(mp.exp(-x * s) * c) for x, s, c in row] for row in pairs]
    return np.array(decayed), np.array([[float(integral(x, s) * c) for x, s, c in row] for row in pairs])


def size(v):
    return np.linalg.norm(v, axis=-1)


def bound_holds(found, values, t, v):
    """Whether the error is within the bound that is stated; the check that mutants must fail."""
    return bool(np.all(size(found.decayed - exact(values, t, v)[0]) <= found.error))


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.quick(3)
def test_error_stays_within_its_bound_and_the_tolerance(name):
    values, v = SPECTRA[name], vector()
    t = TIMES / values.max()
    found = krylov(np, np.diag(values), t, v)
    decayed, integral = exact(values, t, v)
    assert found.converged
    assert bound_holds(found, values, t, v)
    assert np.all(size(found.decayed - decayed) <= 1e-12 * size(v))
    assert np.all(size(found.integral - integral) <= t * found.error)
    assert found.steps < N


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("most", [3, 10, 40])
@pytest.mark.quick(7)
def test_bound_holds_in_spaces_that_are_too_small(name, most):
    values, v = SPECTRA[name], vector(1)
    t = TIMES / values.max()
    found = krylov(np, np.diag(values), t, v, most=most)
    assert bound_holds(found, values, t, v)
    if not found.converged:
        assert found.steps == most
        assert np.max(found.error) > 1e-13 * size(v)


def test_bound_is_not_far_above_the_error():
    values, v, t = SPECTRA["flat"], vector(), np.array([10.0])
    found = krylov(np, np.diag(values), t, v, most=8)
    error = size(found.decayed - exact(values, t, v)[0])
    assert 1e-9 < error < found.error < 30 * error


def unguarded(values, t, v, most):
    """The mutant: the same space, its estimate ignored and rounding alone stated."""
    found = krylov(np, np.diag(values), t, v, most=most)
    scale = values.max() * t
    return found._replace(error=32 * 2.0**-52 * (1 + scale) * size(v), converged=True)


def of_a_larger_space(values, t, v, most):
    """The mutant: the bound of a space larger by four taken for the space itself."""
    found = krylov(np, np.diag(values), t, v, most=most)
    return found._replace(error=krylov(np, np.diag(values), t, v, most=most + 4).error)


@pytest.mark.parametrize("mutant", [unguarded, of_a_larger_space])
@pytest.mark.parametrize(("name", "late"), [("flat", 10.0), ("sixteen decades", 30.0), ("smooth", 100.0)])
def test_mutants_that_ignore_the_estimate_are_rejected(mutant, name, late):
    values, v = SPECTRA[name], vector()
    t = np.array([late]) / values.max()
    assert not bound_holds(mutant(values, t, v, 8), values, t, v)
    assert bound_holds(krylov(np, np.diag(values), t, v, most=8), values, t, v)


def test_limit_is_the_inverse_or_not_claimed():
    v = vector()
    found = krylov(np, np.diag(SPECTRA["flat"]), np.array(np.inf), v)
    assert found.converged
    assert size(found.decayed) == 0
    assert size(found.integral - v / SPECTRA["flat"]) <= 1e-13 * size(v)
    assert not krylov(np, np.diag(SPECTRA["sixteen decades"]), np.array(np.inf), v).converged


@pytest.mark.parametrize("scale", [1e-150, 1e140])
def test_any_scale_of_kernel_and_vector(scale):
    values, v = SPECTRA["smooth"], vector()
    for a, b in ((scale, 1.0), (1.0, scale), (1 / scale, scale)):
        t = 5 / values.max() / a
        found = krylov(np, np.diag(values * a), np.array(t), v * b)
        assert size(found.decayed / b - np.exp(-values * a * t) * v) <= 1e-12 * size(v)


def test_nothing_to_follow():
    found = krylov(np, np.eye(3), TIMES, np.zeros(3))
    assert found.converged
    assert not found.decayed.any()
    none = krylov(np, np.zeros((3, 3)), TIMES, np.ones(3))
    assert none.steps == 1
    assert np.array_equal(none.decayed, np.ones((5, 3)))


def test_space_closes_after_as_many_steps_as_eigenvalues():
    assert krylov(np, np.diag(SPECTRA["few"]), TIMES, vector()).steps <= 5


def test_runs_on_strict_arrays():
    xp, values, v = array_api_strict, SPECTRA["smooth"], vector()
    there = krylov(xp, xp.asarray(np.diag(values)), xp.asarray(TIMES), xp.asarray(v))
    here = krylov(np, np.diag(values), TIMES, v)
    assert there.steps == here.steps
    assert size(np.asarray(there.decayed) - here.decayed).max() <= 1e-13 * size(v)
    assert isinstance(there, Krylov)


# one target of the kernel regime


@pytest.mark.parametrize(("share", "slope"), [(5 / 8, 0.0), (1.0, 3.0)])
@pytest.mark.parametrize("n", [20, pytest.param(40, marks=pytest.mark.exhaustive)])
def test_one_target_agrees_with_fifty_digits(n, share, slope):
    d = draw(np.random.default_rng(5), round(share * n), slope, n)
    ref = Reference(d)
    mp = ref.mp
    t = np.array([0.0, 1e-3, 0.3, 4.0, 60.0]) / (float(ref.top) * d.eta)
    found = ls.FrozenKernel.one_target(d.flow.kernel, d.y, t, d.f0, d.eta)
    rows = d.test @ d.jacobian.T
    there = d.test[:, 0] - found.dual @ rows.T
    assert found.route == "Lanczos"
    for i, s in enumerate(t):
        r, change = ref.residual(mp.mpf(s)), ref.J.T * ref.change(mp.mpf(s))
        assert float(ref.error(found.residual[i], r)) <= found.error[i]
        assert float(ref.error(found.f[i], ref.y + r)) <= found.error[i] + 1e-15 * float(mp.norm(ref.y))
        goal = np.array([float(x) for x in mp.matrix(d.test[:, 0].tolist()) - ref.test * change])
        assert size(there[i] - goal) <= 1e-12 * (size(d.test[:, 0]) + np.linalg.norm(rows) * size(found.dual[i]))
    assert np.array_equal(found.f[0], d.f0)


def kernel_of(values, seed=3):
    q = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))[0]
    kernel = (q * values) @ q.T
    return (kernel + kernel.T) / 2


def test_hard_spectra_fall_back_to_the_eigendecomposition():
    kernel, y, t = kernel_of(SPECTRA["dense at zero"]), vector(), np.array([1.0, 1e4])
    assert not krylov(np, kernel, t, -y).converged
    found = ls.FrozenKernel.one_target(kernel, y, t, 0 * y)
    flow = ls.FrozenKernel(kernel, y)
    assert (found.route, found.steps) == ("eigh", 0)
    assert np.array_equal(found.f, flow(t, 0 * y)["f"])
    assert np.isnan(found.error).all()
    assert np.max(size(found.f + found.dual @ kernel)) <= 1e-10 * size(y)


def test_agrees_with_the_flow_where_it_does_not_fall_back():
    kernel, y, f0 = kernel_of(SPECTRA["smooth"]), vector(1), vector(2)
    t = np.logspace(-3, 2, 7)
    found, traj = ls.FrozenKernel.one_target(kernel, y, t, f0, 0.7), ls.FrozenKernel(kernel, y, 0.7)(t, f0)
    assert found.route == "Lanczos"
    assert np.max(size(found.f - traj["f"])) <= 1e-12 * size(f0 - y)
    assert np.max(size(found.residual - traj["residual"])) <= 1e-12 * size(f0 - y)


FALLBACKS = {
    "backward in time": lambda k, y: (k, y, [-0.1, 1.0]),
    "not symmetric to the last bit": lambda k, y: (np.where(np.eye(len(y), k=1) > 0, k * (1 + 2.0**-50), k), y, [1.0]),
    "out of steps": lambda k, y: (k, y, [1e6]),
}


@pytest.mark.parametrize("name", FALLBACKS)
def test_falls_back_to_what_the_flow_gives(name):
    kernel, y, t = FALLBACKS[name](kernel_of(SPECTRA["smooth"][:30]), vector()[:30])
    found = ls.FrozenKernel.one_target(kernel, y, t, 0 * y, most=20)
    assert found.route == "eigh"
    assert np.array_equal(found.f, ls.FrozenKernel(kernel, y)(t, 0 * y)["f"])


@pytest.mark.parametrize("held", [np.ndarray.tolist, lambda k: k.astype(object)], ids=["list", "objects"])
def test_one_target_takes_every_container_of_a_kernel(held):
    kernel, y = kernel_of(SPECTRA["smooth"][:30]), vector()[:30]
    found, same = (ls.FrozenKernel.one_target(k, y, [1.0], 0 * y) for k in (held(kernel), kernel))
    assert found.route == "Lanczos"
    assert np.array_equal(found.f, same.f)


def test_one_target_on_strict_arrays():
    xp, kernel, y, t = array_api_strict, kernel_of(SPECTRA["smooth"]), vector(), np.array([0.0, 1.0])
    here = ls.FrozenKernel.one_target(kernel, y, t, 0 * y)
    there = ls.FrozenKernel.one_target(xp.asarray(kernel), xp.asarray(y), xp.asarray(t), xp.asarray(0 * y))
    assert (there.route, there.steps) == ("Lanczos", here.steps)
    assert size(np.asarray(there.f) - here.f).max() <= 1e-13 * size(y)


def test_a_missing_symmetry_is_seen_wherever_it_is():
    kernel, y = kernel_of(SPECTRA["smooth"]), vector()
    for place in ((0, 299), (299, 0), (20, 10), (299, 298)):
        other = kernel.copy()
        other[place] *= 1 + 2.0**-50
        assert ls.FrozenKernel.one_target(other, y, 1.0, 0 * y).route == "eigh"
    assert ls.FrozenKernel.one_target(kernel, y, 1.0, 0 * y).route == "Lanczos"


SQUARE = np.array([[2.0, 1.0], [1.0, 2.0]])
REFUSED = {
    "negative": ((np.diag([1.0, -0.2]), np.ones(2), 1.0, np.zeros(2)), {}, "smallest eigenvalue of kernel = -0.2"),
    "nan": ((SQUARE * np.nan, np.ones(2), 1.0, np.zeros(2)), {}, "kernel = nan"),
    "inf": ((np.full((2, 2), np.inf), np.ones(2), 1.0, np.zeros(2)), {}, "kernel = inf"),
    "batch": ((SQUARE, np.ones((3, 2)), 1.0, np.zeros(2)), {}, "one target"),
    "sizes": ((SQUARE, np.ones(3), 1.0, np.zeros(3)), {}, "one target"),
    "rate": ((SQUARE, np.ones(2), 1.0, np.zeros(2), -1.0), {}, "eta"),
    "tolerance": ((SQUARE, np.ones(2), 1.0, np.zeros(2)), {"tolerance": 0.0}, "tolerance = 0.0"),
    "most": ((SQUARE, np.ones(2), 1.0, np.zeros(2)), {"most": 0}, "most = 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    args, options, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        ls.FrozenKernel.one_target(*args, **options)


def test_infinite_time():
    y = vector()[:30]
    found = ls.FrozenKernel.one_target(kernel_of(np.linspace(1, 2, 30)), y, np.inf, 0 * y)
    assert found.route == "Lanczos"
    assert size(found.f - y) <= 1e-14 * size(y)
