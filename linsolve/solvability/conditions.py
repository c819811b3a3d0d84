"""What each exact solution needs of a network, measured, and the network as its flow where all of it holds."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np

from linsolve.solvability.joint_modes import commutator, joint, unaligned
from linsolve.solvability.matches import DeepMatch, LinearMatch, LineMatch, Match, PlaneMatch, WhiteMatch
from linsolve.solvability.network import Network
from linsolve.solvability.reduction import TOLERANCE, Reduced, norm, whiteness
from linsolve.systems.whitened.imbalance import imbalance
from linsolve.systems.whitened.whitened_two_layer import WhitenedTwoLayer

__all__ = ["Assessment", "Condition", "assess", "weighted_imbalance", "white_state"]


@dataclasses.dataclass(frozen=True)
class Condition:
    """One thing an exact solution needs, or one that is good to know.

    Parameters
    ----------
    name : str
    distance : float
        Relative distance from it; 0 where it holds.
    detail : str
        What was measured.
    needed : bool
        Whether the solution needs it; otherwise it is a finding by the way.
    """

    name: str
    distance: float
    detail: str
    needed: bool = True

    @property
    def ok(self) -> bool:
        """Whether it holds to 1e-9."""
        return bool(self.distance <= TOLERANCE)


@dataclasses.dataclass(frozen=True, eq=False)
class Assessment:
    """One flow, judged for one network.

    Parameters
    ----------
    name : str
        Name of the flow.
    conditions : tuple of Condition
    match : Match or None
        The network as this flow, where it is exact.
    """

    name: str
    conditions: tuple[Condition, ...]
    match: Match | None = None

    @property
    def violated(self) -> tuple[Condition, ...]:
        """What is needed and does not hold."""
        return tuple(c for c in self.conditions if c.needed and not c.ok)


def white_state(red: Reduced) -> WhitenedTwoLayer.State:
    """Return the Gram matrices and the product of two layers."""
    return WhitenedTwoLayer.State(red.product, *red.grams)


def weighted_imbalance(red: Reduced) -> float:
    """Return how far layers are from ``W_l W_l^T / eta_l = W_{l+1}^T W_{l+1} / eta_{l+1}``, the worst pair."""
    worst = 0.0
    for before, after in itertools.pairwise(red.layers):
        size = norm(before) ** 2 + norm(after) ** 2
        if size > 0:
            worst = max(worst, norm(after.T @ after - before @ before.T) / size)
    return worst


def _judged(name: str, conditions: list[Condition], make: Callable[[], Match]) -> Assessment:
    judged = Assessment(name, tuple(conditions))
    if judged.violated:
        return judged
    return dataclasses.replace(judged, match=make())


def _two_layers(red: Reduced) -> Condition:
    return Condition("two layers", abs(red.depth - 2) / red.depth, f"{red.depth} layer{'s' * (red.depth > 1)}")


def _line(network: Network, red: Reduced) -> Assessment:
    power = np.linalg.eigvalsh(red.covariance)
    distance = float(np.sqrt(max(power[:-1].sum(), 0.0) / power.sum()))
    outputs = len(red.cross)
    conditions = [
        _two_layers(red),
        Condition("data on a line", distance, f"share of the inputs' size off the line, {len(power)} directions"),
        Condition("one output", (outputs - 1) / outputs, f"{outputs} output directions in use"),
    ]
    return _judged("TwoLayer", conditions, lambda: LineMatch.of(red, network))


def _white(red: Reduced) -> Assessment:
    distance, kappa = whiteness(red.covariance)
    conditions = [_two_layers(red), Condition("white inputs", distance, f"in their span, nearest to {kappa:.4g} * 1")]
    if red.depth == 2:
        kind = imbalance(np, *white_state(red))
        lam = (float(np.sqrt(kind.total**2 / 4 + kind.spread)) * sign + float(kind.total) / 2 for sign in (1, -1))
        pair = ", ".join(f"{value:.4g}" for value in lam)
        conditions += [
            Condition("two-eigenvalue class", float(kind.distance), f"P J P in the plane of P, J; best {pair}"),
            *_balances(red),
        ]
    return _judged(
        "WhitenedTwoLayer", conditions, lambda: WhiteMatch.of(red, white_state(red), red.cross / kappa, kappa)
    )


def _balances(red: Reduced) -> list[Condition]:
    """Return the distances from balance and lambda-balance, either of which puts a start into the class."""
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
    return _judged("TwoLayer per mode", conditions, lambda: PlaneMatch.of(red, joint(red)))


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
    return _judged("DeepMode", conditions, lambda: DeepMatch.of(red, modes, modes.strength))


def assess(network: Network, red: Reduced) -> list[Assessment]:
    """Return every flow that a network in weights may be, judged; the most detailed first."""
    return [_line(network, red), _white(red), _planes(red), _deep(red)]
