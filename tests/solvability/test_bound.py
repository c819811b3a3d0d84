"""Rigor of the error bound: every term is needed at a point where the others do not suffice."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from linsolve.solvability.bound import _others, _rate, _spread, after_interval

GRID = [0.0, 0.1, 10.0]


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_spread_bounds_the_change_of_a_product(depth):
    # scalar layers of sizes s that grow by rho/sqrt(L) each: the extreme case for depth up to 2
    for rho, size in itertools.product([1e-3, 2.0], itertools.product(GRID, repeat=depth)):
        size = np.array(size)
        for weights in (np.ones(depth), np.eye(depth)[0], 1 / (size + 1e-3)):
            change = rho * weights / np.linalg.norm(weights)
            true = np.prod(size + change) - np.prod(size)
            assert true <= _spread(size, rho) * (1 + 1e-12) + 1e-300


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_every_order_of_the_spread_counts(depth, order):
    """With L - k layers of size s >> rho and k of size 0, the change is s^(L-k) (rho/sqrt(k))^k, one term alone."""
    if order > depth:
        return
    size = np.array([1e6] * (depth - order) + [0.0] * order)
    rho = 1.0
    true = 1e6 ** (depth - order) * (rho / np.sqrt(order)) ** order
    assert true <= _spread(size, rho) * (1 + 1e-12)
    assert _spread(size, rho) <= true * (1 + 1e-3)  # no other term makes up for it


@pytest.mark.parametrize("depth", [2, 3, 4, 5])
def test_others_is_the_largest_row_sum_of_the_products_that_two_layers_leave_out(depth):
    rng = np.random.default_rng(depth)
    for size in (*rng.uniform(0, 3, (20, depth)), *np.eye(depth), np.ones(depth), 10.0 ** rng.uniform(-3, 3, depth)):
        rows = np.zeros((depth, depth))
        for i, m in itertools.permutations(range(depth), 2):
            rows[i, m] = np.prod([size[k] for k in range(depth) if k not in (i, m)])
        assert _others(size) == pytest.approx(rows.sum(axis=1).max(), rel=1e-12)
        assert np.linalg.norm(rows, 2) <= _others(size) * (1 + 1e-12)


def scalar_flow(weights, target, power, times):
    """Integrate scalar layers under loss power (target - product)^2 / 2."""

    def rate(_, w):
        gap = power * (target - np.prod(w))
        return [gap * np.prod(np.delete(w, i)) for i in range(len(w))]

    return solve_ivp(rate, (0.0, times[-1]), weights, "DOP853", times, rtol=1e-12, atol=1e-14).y.T


def marched(near, target, power, model_target, rho, times):
    """Return the bound on the distance from the trajectory `near` of scalar layers with target `model_target`."""
    found = [rho]
    gaps = np.abs(power * (target - np.prod(near, axis=1)))
    pulls = [np.sqrt(sum(np.prod(np.delete(w, i)) ** 2 for i in range(len(w)))) for w in near]
    residual = power * abs(model_target - target) * np.array(pulls)
    for i, span in enumerate(np.diff(times)):
        size = np.maximum(np.abs(near[i]), np.abs(near[i + 1]))
        now = float(max(gaps[i : i + 2])), float(max(residual[i : i + 2]))
        mu = partial(_rate, size=size, gap=now[0], top=power)
        found.append(after_interval(found[-1], float(span), now[1], mu))
    return np.array(found)


CASES = {
    # weights of the network and of the neighbor, target, model's target, power, horizon
    "the residual alone moves the two apart": ([0.7, 0.4], [0.7, 0.4], 1.0, 1.3, 1.0, 0.5),
    "the gap makes a saddle unstable": ([1e-4, 1e-4], [0.0, 0.0], 2.0, 2.0, 1.0, 2.0),
    "the gap at depth three": ([0.5, 0.5, 1e-4], [0.5, 0.5, 0.0], 2.0, 2.0, 1.5, 1.5),
    "the distance alone makes the other layers large": ([0.3, 0.3, 0.3], [0.0, 0.0, 0.0], 2.0, 2.0, 1.0, 1.0),
    # near a minimum of the loss, where the gap vanishes, the network still moves away along the valley
    "the distance alone at a minimum": (None, None, 0.5, 0.5, 1.0, 0.4),
}


def valley(target, size=1.0, rho=0.3):
    """Return a start near the minimum (size, target / size) from which the distance to it grows fastest."""
    low = np.array([size, target / size])
    angles = np.linspace(0, 2 * np.pi, 20001)
    starts = low + rho * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    gap = target - starts.prod(axis=1)
    growth = gap * ((starts - low) * starts[:, ::-1]).sum(axis=1)
    assert growth.max() > 0
    return starts[growth.argmax()], low


@pytest.mark.parametrize("case", CASES)
def test_a_step_bounds_the_distance_of_two_trajectories(case):
    start, other, target, model_target, power, end = CASES[case]
    if start is None:
        start, other = valley(target=target)
    times = np.linspace(0.0, end, 129)
    network = scalar_flow(start, target, power, times)
    near = scalar_flow(other, model_target, power, times)
    distance = np.linalg.norm(network - near, axis=1)
    assert distance.max() > distance[0] * (1 + 1e-6)  # the two do move apart
    bound = marched(near, target, power, model_target, float(distance[0]), times)
    assert np.all(distance <= bound * (1 + 1e-9))
    finite = np.isfinite(bound)
    assert finite[1:10].all()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.quick(6)
def test_the_bound_holds_for_random_pairs(seed):
    rng = np.random.default_rng(seed)
    depth = int(rng.integers(2, 5))
    start = rng.normal(size=depth)
    other = start + 10.0 ** rng.uniform(-4, -1) * rng.normal(size=depth)
    target = rng.normal()
    model_target = target + 10.0 ** rng.uniform(-4, -1) * rng.normal()
    power, times = 10.0 ** rng.uniform(-1, 1), np.linspace(0.0, 0.2, 129)
    network, near = scalar_flow(start, target, power, times), scalar_flow(other, model_target, power, times)
    distance = np.linalg.norm(network - near, axis=1)
    bound = marched(near, target, power, model_target, float(distance[0]), times)
    assert np.all(distance <= bound * (1 + 1e-9))


@pytest.mark.parametrize(("gap", "residual"), [(2.0, 0.0), (0.0, 0.5), (2.0, 0.5), (4.0, 1e-3)])
def test_a_step_of_constant_growth_is_exact(gap, residual):
    """The solution of ``rho' = gap rho + residual``."""
    grown = np.exp(gap)
    exact = 0.1 * grown + residual * ((grown - 1) / gap if gap else 1.0)
    mu = partial(_rate, size=np.zeros(2), gap=gap, top=0.0)
    assert after_interval(0.1, 1.0, residual, mu) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("size", [(1.0, 1.0), (0.5, 0.2, 0.1)])
def test_a_step_allows_for_the_growth_of_the_distance_within_it(size):
    """No smaller than the solution of ``rho' = mu(rho) rho + residual``, where mu grows with the distance."""
    size, span, residual = np.array(size), 0.4, 0.1

    def rate(_, rho):
        grown = size + rho[0]
        return [_others(grown) * (0.3 + np.prod(grown) - np.prod(size)) * rho[0] + residual]

    exact = solve_ivp(rate, (0.0, span), [0.2], rtol=1e-10, atol=1e-12).y[0, -1]
    assert exact > 0.2
    found = after_interval(0.2, span, residual, partial(_rate, size=size, gap=0.3, top=1.0))
    assert exact <= found <= 3 * exact
