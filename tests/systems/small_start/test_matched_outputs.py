"""`MatchedOutputs` against its formula in many digits, from the start to phase 1e4."""

import mpmath
import numpy as np
import pytest
from selection import quick

import linsolve as ls

MP = mpmath.MPContext()
SMALL = 2.0**-10
PHASES = np.array([-40.0, -5.0, 0.0, 5.0, 20.0, 30.0, 40.0, 50.0, 100.0, 1e3, 1e4])


def formula(law, t):
    """Return ``e^(Ft) Q0 [I + Q0^T (e^(2Ft) - 1)/(2F) Q0]^-1 Q0^T e^(Ft)`` with the digits that it loses."""
    n_out, n_in = law.target.shape
    with MP.workdps(60 + int(2 * np.linalg.norm(law.target, 2) * t)):
        f = MP.zeros(n_in + n_out)
        f[n_in:, :n_in], f[:n_in, n_in:] = MP.matrix(law.target.tolist()), MP.matrix(law.target.T.tolist())
        rates, basis = MP.eigsy(f)
        q = basis.T * MP.matrix(np.vstack([law.first.T, law.last]).tolist()) * MP.mpf(SMALL)
        t, tiny = MP.mpf(t), MP.mpf(10) ** -40
        grown = [t if abs(r) < tiny else MP.expm1(2 * r * t) / (2 * r) for r in rates]
        inner = MP.eye(q.cols) + q.T * MP.diag(grown) * q
        moved = basis * MP.diag([MP.exp(r * t) for r in rates]) * q
        return np.array((moved * MP.inverse(inner) * moved.T).tolist(), dtype=float)


def rotated(sign):
    """Return a rotated orthogonal start in binary fractions: the target is reached for `sign` 1, a saddle for -1."""
    turn = np.array([[1.0, 1.0], [-1.0, 1.0]])
    return {"first": turn, "last": turn.T @ np.diag([1.0, sign]) @ turn.T @ turn / 2, "target": np.diag([3.0, 1.0])}


def generic(seed, width, n_in, n_out):
    rng = np.random.default_rng(seed)
    first, last = rng.normal(size=(width, n_in)) / 2, rng.normal(size=(n_out, width)) / 2
    return {"first": first, "last": last, "target": rng.normal(size=(n_out, n_in))}


def low_rank(start):
    start["target"] = np.outer(start["target"][:, 0], start["target"][0])
    return start


STARTS = {
    "rotated": rotated(1.0),
    "rotated, parity against": rotated(-1.0),
    "generic": generic(0, 5, 4, 3),
    "more outputs": generic(1, 5, 2, 4),
    "many hidden units": generic(2, 9, 3, 2),
    "one hidden unit": generic(3, 1, 4, 3),
    "one input, one output": generic(4, 3, 1, 1),
    "target of rank one": low_rank(generic(5, 5, 4, 3)),
    "start of rank one": {
        "first": np.outer([1.0, 2.0, -1.0], [1.0, 0.5, 1.0]), "last": np.outer([2.0, 1.0], [0.0, 0.0, 0.0]),
        "target": np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]),
    },
    "equal modes": generic(6, 3, 3, 3) | {"target": 1.5 * np.eye(3)},
    "one layer only": generic(7, 5, 4, 3) | {"last": np.zeros((3, 5))},
}  # fmt: skip


@pytest.mark.parametrize("name", quick(STARTS, 6))
@pytest.mark.quick(2)
def test_within_1e_12_of_the_formula_in_many_digits(name):
    law = ls.laws.MatchedOutputs(**STARTS[name], phases=PHASES)
    times = law.times(np, SMALL)
    assert times[0] == 0
    found = law.gram(np, SMALL, times)
    for k, t in enumerate(times):
        expected = formula(law, t)
        assert np.max(np.abs(found[k] - expected)) <= 1e-12 * np.max(np.abs(expected)), PHASES[k]


@pytest.mark.parametrize("name", STARTS)
def test_no_time_is_too_late(name):
    law = ls.laws.MatchedOutputs(**STARTS[name], phases=[1e4, 1e8, 1e12])
    early, late, last = law.gram(np, SMALL, law.times(np, SMALL))
    np.testing.assert_allclose(early, late, atol=1e-3)
    np.testing.assert_allclose(late, last, atol=1e-7)  # slowest where a direction without a mode decays as 1/t


def test_nothing_comes_of_nothing():
    law = ls.laws.MatchedOutputs(first=np.zeros((2, 2)), last=np.zeros((3, 2)), target=np.ones((3, 2)), phases=PHASES)
    assert not law.gram(np, SMALL, law.times(np, SMALL)).any()
