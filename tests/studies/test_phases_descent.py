"""Learning rates of gradient descent: curves against eigenvalues of the simulated step, the map against the curves."""

import dataclasses

import numpy as np
import pytest
import sympy

import linsolve as ls
from linsolve import phases
from linsolve.studies.phases.descent import outcome


@pytest.fixture(scope="module")
def drawn():
    return phases.diagram("descent", 61)


def balanced(x, scaled):
    """Return a step of ``u <- u (1 - 2 h (u^2 - 1))`` in ``x = u^2``, with the sharpness 4 of its minimum."""
    return x * (1 - scaled / 2 * (x - 1)) ** 2


def test_changes_of_the_map_are_on_the_curves(drawn):
    assert set(drawn.misfit()) == {"stays", "comes to rest", "2-cycle", "bounded"}
    assert max(drawn.misfit().values()) <= 1
    moved = [c._replace(x=1.3 * c.x) if c.boundary == "stays" else c for c in drawn.curves]
    assert dataclasses.replace(drawn, curves=moved).misfit()["stays"] > 2


@pytest.mark.parametrize("imbalance", [0.0, 0.5, 3.0, 40.0])
def test_the_edge_of_stability_is_where_a_multiplier_of_the_step_is_minus_one(imbalance):
    flow = ls.TwoLayerOrder(y=1.0)
    P = (np.sqrt(1 + imbalance) + 1) / 2
    z = flow.State(P, imbalance / 4 / P, 0.0)
    scaled = 2 / np.sqrt(1 + imbalance)

    def step(p, q):
        found = flow.step(np, flow.State(p, q, 0.0), scaled / 4)
        return np.array([found.P, found.Q])

    d = 1e-6
    columns = [(step(P + d * a, z.Q + d * b) - step(P - d * a, z.Q - d * b)) / (2 * d) for a, b in ((1, 0), (0, 1))]
    assert np.linalg.eigvals(np.stack(columns, axis=1)).real.min() == pytest.approx(-1, abs=1e-8)


def test_the_two_cycle_loses_its_stability_at_the_golden_line(drawn):
    scaled = next(c.x[0] for c in drawn.curves if c.boundary == "2-cycle")
    x = 1.2
    for _ in range(200_000):  # attracts slowly
        x = balanced(x, scaled - 1e-4)
    d = 1e-6
    low, high = (balanced(balanced(x + sign * d, scaled), scaled) for sign in (-1, 1))
    assert balanced(x, scaled) != pytest.approx(x, abs=0.1)
    assert (high - low) / (2 * d) == pytest.approx(-1, abs=1e-2)


def test_regions_of_single_runs():
    scaled = np.array([1.0, 1.9, 2.2, 2.5, 3.3, 4.3, 1.0])
    imbalance = np.array([0.5, 0.5, 0.5, 0.5, 0.1, 0.1, 30.0])
    assert outcome(scaled, imbalance).tolist() == [0, 1, 2, 3, 4, 5, 5]


def test_machine_code_finds_the_same_regions():
    rng = np.random.default_rng(0)
    scaled, imbalance = rng.uniform(0, 4.4, 40), 10 ** rng.uniform(-2, 2, 40)
    plain, fast = (outcome(scaled, imbalance, engine) for engine in ("plain", "compiled"))
    assert plain.tolist() == fast.tolist()
    assert len(set(plain.tolist())) >= 5


def stepped(e, T, mu):
    """Return residual and half kernel, times the step, after a step of ``p (1 - e)``, ``q (1 + e)``."""
    A, B = (T + e + mu) / 2, (T - e - mu) / 2
    A, B = A * (1 - e) ** 2, B * (1 + e) ** 2
    return A - B - mu, A + B


def test_the_edge_of_divergence_is_an_invariant_line():
    """The distance from ``T = 2 + mu e/2`` is multiplied by ``1 + mu e + e^2``, which is positive for ``mu < 2``."""
    e, T, mu = sympy.symbols("e T mu")
    after, kernel = stepped(e, T, mu)
    gap, gap_after = 2 + mu * e / 2 - T, 2 + mu * after / 2 - kernel
    assert sympy.expand(gap_after - gap * (1 + mu * e + e**2)) == 0
    on_line = sympy.expand(after.subs(T, 2 + mu * e / 2))
    assert sympy.expand(on_line - (e**3 - 3 * e)) == 0  # 2 sin(phi) -> 2 sin(-3 phi)
    wrong = 2 + mu * after / 3 - kernel
    assert sympy.expand(wrong - (2 + mu * e / 3 - T) * (1 + mu * e + e**2)) != 0


def test_runs_below_the_line_stay_in_a_triangle_and_those_above_diverge():
    rng = np.random.default_rng(1)
    mu, e, share = rng.uniform(0.1, 1.99, 500), rng.uniform(-2, 2, 500), rng.uniform(0, 1, 500)
    low, high = np.abs(e + mu), 2 + mu * e / 2  # corners at e = -2, 2 and -mu
    T = low + share * (high - low)
    with np.errstate(all="ignore"):
        for _ in range(2000):
            e, T = stepped(e, T, mu)
            assert np.abs(e).max() <= 2 + 1e-9
            assert np.max(T - mu * e / 2) <= 2 + 1e-9
        e, T = np.full(500, 1e-4), 2.01 + 0.01 * share  # next to minima beyond the line
        for _ in range(4000):
            e, T = stepped(e, T, mu)
    assert not np.isfinite(T).any()


def test_the_picture_defines_its_symbols(drawn):
    for name in ("f = ", "A, B = ", r"\rho = ", "e = ", "x_k = "):
        assert f"${name}" in drawn.source
    assert drawn.x.label.startswith("$X$ = ")


def test_the_symbols_are_those_of_a_step_of_the_weights():
    u, w, y, rate = np.array([0.7, -0.2]), np.array([0.4, 0.9]), 1.3, 0.2
    e, rho = u @ w - y, 2 * rate
    left, right = (lambda a, b: np.sum((a + b) ** 2) / 4), (lambda a, b: np.sum((a - b) ** 2) / 4)
    assert left(u, w) - right(u, w) == pytest.approx(u @ w)
    moved = u - rate * 2 * e * w, w - rate * 2 * e * u  # the gradient of (u w - y)^2
    assert left(*moved) == pytest.approx(left(u, w) * (1 - rho * e) ** 2)
    assert right(*moved) == pytest.approx(right(u, w) * (1 + rho * e) ** 2)
