"""Conditions of each exact solution, evaluated for a network, and the network as a flow if all of them hold."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np

from linsolve.core.network_arguments import TOLERANCE, Network
from linsolve.core.reduced_network import Reduced, commutator, joint, norm, unaligned, whiteness
from linsolve.solvability.matches import DeepMatch, LinearMatch, LineMatch, Match, PlaneMatch, WhiteMatch
from linsolve.solvability.projections import class_starts, moved, squared, white_state
from linsolve.systems.whitened.imbalance import Imbalance, imbalance, is_lost
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["Assessment", "Condition", "assess", "weighted_imbalance"]


@dataclasses.dataclass(frozen=True)
class Condition:
    """Measured condition of an exact solution.

    Parameters
    ----------
    name : str
    distance : float
        Relative distance from the condition; 0 if it holds.
    detail : str
        The measured quantity.
    needed : bool
        Whether the solution requires the condition; False for information only.
    tolerance : float
        Largest distance at which the condition counts as satisfied.
    """

    name: str
    distance: float
    detail: str
    needed: bool = True
    tolerance: float = TOLERANCE

    @property
    def ok(self) -> bool:
        """Whether the condition holds within its tolerance."""
        return bool(self.distance <= self.tolerance)


@dataclasses.dataclass(frozen=True, eq=False)
class Assessment:
    """A flow and its conditions for a network.

    Parameters
    ----------
    name : str
        Name of the flow.
    conditions : tuple of Condition
    match : Match or None
        The network as this flow, if it is exact.
    """

    name: str
    conditions: tuple[Condition, ...]
    match: Match | None = None

    @property
    def violated(self) -> tuple[Condition, ...]:
        """Required conditions that do not hold."""
        return tuple(c for c in self.conditions if c.needed and not c.ok)


def weighted_imbalance(red: Reduced) -> float:
    """Return the largest relative distance of a pair from ``W_l W_l^T / eta_l = W_{l+1}^T W_{l+1} / eta_{l+1}``."""
    worst = 0.0
    for before, after in itertools.pairwise(red.layers):
        size = norm(before) ** 2 + norm(after) ** 2
        if size > 0:
            worst = max(worst, norm(after.T @ after - before @ before.T) / size)
    return worst


def _assessed(red: Reduced, name: str, conditions: list[Condition], make: Callable[[], Match]) -> Assessment:
    found = Assessment(name, tuple(dataclasses.replace(each, tolerance=red.tolerance) for each in conditions))
    return found if found.violated else dataclasses.replace(found, match=make())


def _two_layers(red: Reduced) -> Condition:
    return Condition("two layers", abs(red.depth - 2) / red.depth, f"{red.depth} layer{'s' * (red.depth > 1)}")


def _line(network: Network, red: Reduced) -> Assessment:
    power = np.linalg.eigvalsh(red.covariance)
    distance = float(np.sqrt(max(power[:-1].sum(), 0.0) / power.sum()))
    outputs = len(red.cross)
    conditions = [
        _two_layers(red),
        Condition("data on a line", distance, f"share of the inputs' size off the line, {len(power)} directions"),
        Condition("one output", (outputs - 1) / outputs, f"{outputs} output direction{'s' * (outputs > 1)} in use"),
    ]
    return _assessed(red, "TwoLayer", conditions, lambda: LineMatch.of(red, network))


def _white(red: Reduced) -> Assessment:
    distance, kappa = whiteness(red.covariance)
    conditions = [_two_layers(red), Condition("white inputs", distance, f"in their span, nearest to {kappa:.4g} * 1")]
    state = None
    if red.depth == 2:
        kind = imbalance(np, *white_state(red))
        power = 4 if is_lost(np, kind.spread) else 2  # of the weights, which must be doubles
        in_range = power == 2 and squared(red.layers)
        state = _solvable(red, float(kind.distance)) if in_range else None
        off = float(kind.distance) if state is not None else max(float(kind.distance), 2 * red.tolerance)
        conditions += [
            Condition(
                "solvable imbalance", off, f"distance of the imbalance from a solvable one (nearest: {_named(kind)})"
            ),
            *([] if in_range else [_range(red, power)]),
            *_balances(red),
        ]
    return _assessed(red, "WhitenedTwoLayer", conditions, lambda: WhiteMatch.of(red, state, red.cross / kappa, kappa))


def _named(nearest: Imbalance) -> str:
    """Return the solvable imbalance nearest to that of a network, in words."""
    total, spread = float(nearest.total), float(nearest.spread)
    if spread == 0:
        return f"lambda = {total:.4g}" if total else "zero"
    pair = (total / 2 + sign * float(np.sqrt(total**2 / 4 + spread)) for sign in (1, -1))
    return f"eigenvalues {', '.join(f'{value:.4g}' for value in pair)}"


def _range(red: Reduced, power: int) -> Condition:
    """Return the violated condition that Gram matrices (power 2), or their squares (power 4), are doubles."""
    least = min(float(np.abs(layer).max()) for layer in red.layers if layer.any())
    what = "Gram matrices" if power == 2 else "squares of Gram matrices"
    return Condition("range of doubles", 1.0, f"a layer of {least:.3g} has {what} beyond doubles; rescale it")


def _solvable(red: Reduced, distance: float) -> WhitenedTwoLayer.State | None:
    """Return the start, or a start in the class of `WhitenedTwoLayer` within the tolerance, or None."""
    if distance <= WhitenedTwoLayer.tolerance:
        return white_state(red)
    if distance > red.tolerance:
        return None
    near = sorted(class_starts(red), key=lambda each: moved(red, each.layers)[1])
    return near[0].state if near and moved(red, near[0].layers)[1] <= 10 * red.tolerance else None


def _balances(red: Reduced) -> list[Condition]:
    """Return the distances from balance and from lambda-balance; either property is sufficient for the class."""
    w1, w2 = red.layers
    size = norm(w1) ** 2 + norm(w2) ** 2
    spread = w2.T @ w2 - w1 @ w1.T
    lam = float(np.trace(spread)) / len(spread)
    off = [norm(spread - value * np.eye(len(spread))) / size if size > 0 else 0.0 for value in (0.0, lam)]
    return [
        Condition("balance", off[0], "U2^T U2 = U1 U1^T; sufficient, not needed", needed=False),
        Condition("lambda-balance", off[1], f"best lambda {lam:.4g}; sufficient, not needed", needed=False),
    ]


def _aligned(red: Reduced) -> list[Condition]:
    return [
        Condition("commuting covariance", commutator(red), "commutator of Sigma_xx and Sigma_yx^T Sigma_yx"),
        Condition(
            "alignment", unaligned(red, joint(red)), "layers and data, off the diagonal of the best common modes"
        ),
    ]


def _planes(red: Reduced) -> Assessment:
    conditions = [_two_layers(red), *(_aligned(red) if red.depth == 2 else [])]
    return _assessed(red, "TwoLayer per mode", conditions, lambda: PlaneMatch.of(red, joint(red)))


def _deep(red: Reduced) -> Assessment:
    if red.depth == 1:
        return Assessment(
            "DeepMode", (Condition("one layer", 0.0, "linear regression: no other condition"),), LinearMatch.of(red)
        )
    conditions = [
        *_aligned(red),
        Condition("balance", weighted_imbalance(red), "W W^T / rate = next W^T W / rate, worst pair of layers"),
    ]
    modes = joint(red)
    return _assessed(red, "DeepMode", conditions, lambda: DeepMatch.of(red, modes, modes.strength))


def assess(network: Network, red: Reduced) -> list[Assessment]:
    """Return every flow that may describe the network, with its conditions, the most detailed first."""
    return [_line(network, red), _white(red), _planes(red), _deep(red)]
