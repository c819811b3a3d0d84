"""The model kernel of two phases against its equation of motion, in digits and integrated."""

import numpy as np
import pytest
from mutants.alignment import LAWS
from scipy.integrate import solve_ivp

import linsolve as ls
from linsolve import arithmetic

LAW = ls.laws.TwoPhaseKernel


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_the_law_has_its_orders(seed):
    report = ls.verify(LAW.example(np.random.default_rng(seed)))
    assert report.ok, str(report)


@pytest.mark.parametrize("name", [name for name, mutant in LAWS.items() if issubclass(mutant.law, LAW)])
def test_a_wrong_law_is_rejected(name):
    report = ls.verify(LAWS[name].law.example(np.random.default_rng(LAWS[name].seed)))
    assert LAWS[name].seen_by in report.failed, str(report)


def test_outputs_move_with_the_late_kernel_to_fifty_digits():
    xp = arithmetic.precise(80)
    law = LAW.example(np.random.default_rng(2)).cast(xp)
    small, h, d = (arithmetic.cast(xp, x) for x in (0.1, 0.7, 2.0**-100))
    slope = (law.outputs(xp, small, h + d) - law.outputs(xp, small, h - d)) / (2 * d)
    pull = law.eta * law.late[:, :4] @ (law.y - law.outputs(xp, small, h)[:4])
    assert np.max(arithmetic.to_numpy(xp.abs(slope - pull))) <= 1e-50


@pytest.mark.exhaustive
def test_the_end_does_not_depend_on_how_the_kernel_grows():
    law, small = LAW.example(np.random.default_rng(3)), 0.2
    n = law.y.shape[0]
    for growth in (lambda t: 1.0, lambda t: t + np.sin(t) ** 2):

        def rate(t, f, growth=growth):
            kernel = small * law.early if t <= law.tau else growth(t) * law.late
            return law.eta * kernel[:, :n] @ (law.y - f[:n])

        first = solve_ivp(rate, (0, float(law.tau)), law.f0, "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
        path = solve_ivp(
            lambda t, f: rate(t + float(law.tau) + 1e-15, f), (0, 400), first, "Radau", rtol=1e-9, atol=1e-11
        )  # stiff late
        np.testing.assert_allclose(path.y[:, -1], law.exact(np, small)["function"], atol=1e-6)


def test_limits_of_the_model():
    law = LAW.example(np.random.default_rng(4))
    n = law.y.shape[0]
    found = law.exact(np, 0.0)["function"]
    np.testing.assert_allclose(found, law.approximation(np, 0.0)["function"], atol=1e-12)  # no phase I: regression
    np.testing.assert_allclose(found[:n], law.y, atol=1e-10)
    np.testing.assert_allclose(law.outputs(np, 0.3, 0.0)[:n], law.y - law.exact(np, 0.3)["residual"], atol=1e-12)
    for correction in (law.approximation(np, 0.1)["function with phase I"] - law.approximation(np, 0.1)["function"],):
        assert np.abs(correction[:n]).max() <= 1e-12  # zero on the samples
        assert np.abs(correction[n:]).max() > 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"early": [[1.0, 0.5], [0.0, 1.0]]}, r"early - early\^T = 0.5 must vanish"),
        ({"early": [[1.0, 2.0], [2.0, 1.0]]}, "early has the eigenvalue -1, which must not be negative"),
        ({"late": [[0.0, 0.0], [0.0, 1.0]]}, "late = a kernel of eigenvalue 0 on the samples"),
        ({"y": [1.0, 2.0, 3.0]}, r"y has shape \(3,\) but there are 2 inputs"),
    ],
)
def test_bad_parameters_are_refused(change, message):
    given = {"early": np.eye(2), "late": np.eye(2), "y": [1.0], "f0": [0.0, 0.0]} | change
    with pytest.raises(ValueError, match=f"^TwoPhaseKernel: {message}"):
        LAW(**given)
