"""Measures of a target under a kernel: identities, every scale of doubles, kernels that are refused."""

import mpmath
import numpy as np
import pytest

import linsolve as ls
from linsolve import arithmetic, kernels

MEASURES = {
    "rkhs_norm": kernels.rkhs_norm,
    "alignment": kernels.alignment,
    "rkhs_norm_bound": kernels.rkhs_norm_bound,
    "cosine_alignment": kernels.cosine_alignment,
    "energy_concentration": lambda kernel, f: kernels.energy_concentration(kernel, f, 1),
}
every_measure = pytest.mark.parametrize("name", MEASURES)


def test_lemma_1_with_equality_on_eigenfunctions_and_alignment_both_ways():
    rng = np.random.default_rng(18)
    J = rng.normal(size=(7, 4))
    K = J @ J.T
    for _ in range(50):
        f = J @ rng.normal(size=4)
        assert kernels.rkhs_norm(K, f) >= kernels.rkhs_norm_bound(K, f) * (1 - 1e-12)
        gradient = np.mean(f[:, None] * J, axis=0)
        assert kernels.alignment(K, f) == pytest.approx(gradient @ gradient, rel=1e-12)
        assert kernels.alignment_from_jacobian(J, f) == pytest.approx(gradient @ gradient, rel=1e-12)
    values, V = np.linalg.eigh(K)
    for value, v in zip(values[3:], V.T[3:], strict=True):
        phi = np.sqrt(7) * v  # of mean square 1, so its alignment is its eigenvalue: value / 7
        assert kernels.alignment(K, phi) == pytest.approx(value / 7, rel=1e-12)
        assert kernels.rkhs_norm(K, phi) == pytest.approx(1 / np.sqrt(value / 7), rel=1e-12)
        assert kernels.rkhs_norm_bound(K, phi) == pytest.approx(kernels.rkhs_norm(K, phi), rel=1e-12)
    assert kernels.rkhs_norm(K, rng.normal(size=7)) == np.inf


def test_energy_and_cosine():
    rng = np.random.default_rng(19)
    values, V = np.array([0.0, 1.0, 2.0, 5.0]), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    K, f = V * values @ V.T, V @ [2.0, 0.0, 3.0, 6.0]
    found = [kernels.energy_concentration(K, f, top) for top in (1, 2, 3, 4)]
    assert found == pytest.approx([6 / 7, np.sqrt(45) / 7, np.sqrt(45) / 7, 1.0], abs=1e-14)
    outer = np.outer(f, f)
    cosine = np.sum(K * outer) / np.sqrt(np.sum(K * K) * np.sum(outer * outer))
    assert kernels.cosine_alignment(K, f) == pytest.approx(cosine, rel=1e-13)


# every scale


def exact(kernel, f):
    """Return the measures of a regular kernel to fifty digits."""
    mp = mpmath.MPContext()
    mp.dps = 50
    K, v, n = mp.matrix(kernel.tolist()), mp.matrix(f.tolist()), len(f)
    form, square = (v.T * K * v)[0], (v.T * v)[0]
    _, vectors = mp.eigsy(K)
    frobenius = mp.sqrt(mp.fsum(x * x for x in K))
    return {
        "rkhs_norm": mp.sqrt((v.T * mp.lu_solve(K, v))[0]),
        "alignment": form / n**2,
        "rkhs_norm_bound": square / mp.sqrt(form),
        "cosine_alignment": form / frobenius / square,
        "energy_concentration": abs((vectors[:, n - 1].T * v)[0]) / mp.sqrt(square),
    }


@pytest.mark.parametrize("seed", range(12))
@every_measure
@pytest.mark.quick(15)
def test_measures_agree_with_fifty_digits_at_every_scale(name, seed):
    """Kernel and target of scales from 1e-300 to 1e300; where the measure is beyond doubles, that is said."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    rows = rng.normal(size=(n, n + 2))
    kernel = rows @ rows.T
    kernel, f = (kernel + kernel.T) / 2, rng.normal(size=n)
    for by_kernel, by_f in rng.choice([1e-300, 1e-200, 1e-80, 1.0, 1e80, 1e200, 1e300], (6, 2)):
        truth = exact(kernel * by_kernel, f * by_f)[name]
        if truth > 1.7e308:
            with pytest.raises(OverflowError, match=f"{name}: (kernel|f) of magnitude .* beyond the range of doubles"):
                MEASURES[name](kernel * by_kernel, f * by_f)
        else:
            found = float(MEASURES[name](kernel * by_kernel, f * by_f))
            assert abs(found - truth) <= 1e-11 * truth + mpmath.mpf(5e-324)


def test_measures_of_the_jacobian_agree_at_every_scale():
    rng = np.random.default_rng(3)
    J, f = rng.normal(size=(4, 6)), rng.normal(size=4)
    usual = float(kernels.alignment_from_jacobian(J, f))
    for a, b in ((150, -150), (-150, 150), (140, 10), (-300, 300), (300, -300), (-70, -70)):
        found = kernels.alignment_from_jacobian(np.ldexp(J, a), np.ldexp(f, b))
        assert float(found) == np.ldexp(usual, 2 * (a + b))
    with pytest.raises(OverflowError, match="alignment_from_jacobian: jacobian of magnitude"):
        kernels.alignment_from_jacobian(np.ldexp(J, 600), f)


def unscaled_cosine(kernel, f):
    """The mutant: squares of kernel and target as they stand, which leave the doubles."""
    size = np.sqrt(np.sum(kernel**2)) * np.sum(f**2)
    return f @ kernel @ f / (size if size > 0 else 1.0)


def unscaled_bound(kernel, f):
    """The mutant: the same for the bound of the norm."""
    form = f @ kernel @ f
    return np.sum(f**2) / np.sqrt(form) if form > 0 else 0.0


@pytest.mark.parametrize(
    ("name", "mutant"), [("cosine_alignment", unscaled_cosine), ("rkhs_norm_bound", unscaled_bound)]
)
def test_measures_that_are_not_scaled_are_rejected(name, mutant):
    kernel, f = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([0.5, -1.0])
    for by_kernel, by_f, right in ((1.0, 1.0, True), (1e-200, 1e-80, False), (1.0, 1e-200, False)):
        truth = exact(kernel * by_kernel, f * by_f)[name]
        assert (abs(float(mutant(kernel * by_kernel, f * by_f)) - truth) <= 1e-11 * truth) == right
        assert abs(float(MEASURES[name](kernel * by_kernel, f * by_f)) - truth) <= 1e-11 * truth


def test_targets_and_kernels_that_vanish():
    zero, one = np.zeros((2, 2)), np.eye(2)
    assert [float(MEASURES[name](zero, [0.0, 1.0])) for name in ("cosine_alignment", "alignment")] == [0.0, 0.0]
    assert [float(MEASURES[name](zero, [0.0, 1.0])) for name in ("rkhs_norm", "rkhs_norm_bound")] == [np.inf, np.inf]
    assert all(float(measure(one, [0.0, 0.0])) == 0.0 for measure in MEASURES.values())
    assert kernels.rkhs_norm([[2.0]], [3.0]) == pytest.approx(3 / np.sqrt(2), rel=1e-15)


def test_measures_in_high_precision():
    xp, rng = arithmetic.precise(40), np.random.default_rng(1)
    rows, f = rng.normal(size=(3, 5)), rng.normal(size=3)
    kernel = rows @ rows.T
    kernel = (kernel + kernel.T) / 2
    for name, measure in MEASURES.items():
        found = arithmetic.to_numpy(measure(xp.asarray(kernel), xp.asarray(f)))
        assert float(found) == pytest.approx(float(measure(kernel, f)), rel=1e-13), name


# kernels that are refused


@every_measure
@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1.0, 1e200])
def test_kernels_with_a_negative_eigenvalue_are_refused_by_it(name, scale):
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    kernel = turn * [1.0, 0.5, -0.25] @ turn.T
    kernel = (kernel + kernel.T) / 2 * scale
    with pytest.raises(ValueError, match=f"{name}: smallest eigenvalue of kernel = -.*, -0.25 of the largest, must"):
        MEASURES[name](kernel, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=f"{name}: smallest eigenvalue of kernel = -.*with none positive"):
        MEASURES[name](-np.eye(3) * scale, [1.0, 2.0, 3.0])
    bad = kernel.copy()
    bad[0, 1] *= 1.5
    with pytest.raises(ValueError, match=rf"{name}: kernel - kernel\^T = .* must vanish"):
        MEASURES[name](bad, [1.0, 2.0, 3.0])


@every_measure
def test_rounding_of_singular_kernels_is_accepted(name):
    rng = np.random.default_rng(4)
    for _ in range(50):
        n, rank = int(rng.integers(2, 8)), int(rng.integers(1, 4))
        rows = rng.normal(size=(n, rank))
        kernel = rows @ rows.T
        assert MEASURES[name]((kernel + kernel.T) / 2, rows @ rng.normal(size=rank)) >= 0


BAD = {
    "length": (lambda: kernels.alignment(np.eye(3), [1.0, 2.0]), "alignment: f has shape .* last axis of 3"),
    "negative": (lambda: kernels.rkhs_norm(-np.eye(2), [1.0, 2.0]), "rkhs_norm: smallest eigenvalue"),
    "top": (
        lambda: kernels.energy_concentration(np.eye(2), [1.0, 2.0], 3),
        "top = 3 must be an integer from 1 to 2",
    ),
    "chain": (lambda: kernels.input_kernel([np.eye(2), np.ones((1, 3))]), "layers have shapes .* chain"),
    "rates": (lambda: kernels.input_kernel([np.ones((1, 2))], rates=[1, 2]), "rates have shape"),
    "jacobian": (
        lambda: kernels.alignment_from_jacobian(np.ones((2, 2)), [1.0]),
        r"f has shape \(1,\) .* last axis of 2",
    ),
    "scalar": (lambda: kernels.rkhs_norm_bound(np.eye(2), 1.0), r"f has shape \(\)"),
    "batches": (lambda: kernels.alignment(np.ones((3, 2, 2)), np.ones((4, 2))), "alignment: batch shapes = kernel"),
    "tolerance": (lambda: kernels.rkhs_norm(np.eye(2), [0, 1], tolerance=np.nan), "tolerance = nan must be a number"),
    "scale": (lambda: kernels.input_kernel([[[1.0]]], scale=np.nan), "input_kernel: scale = nan must be finite"),
    "inputs": (
        lambda: kernels.tangent_kernel(*ls.TwoLayer.example(np.random.default_rng(23)), np.ones(3)),
        r"x has shape \(3,\) but must be \(m, 3\)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_of_the_tools_is_refused(case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()
