r"""Low-rank adaptation of a linear map as a linear network, and its answers as those of `LoRA`.

The outputs :math:`W_0 x + c\, W_L \cdots W_1 x` have the errors of the network with layers :math:`c^{1/L} W_l`,
targets :math:`y - W_0 x` and learning rates :math:`c^{2/L} \eta_l`, at every time and also under gradient descent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from linsolve.core.arguments import known_array, number, refuse_shape
from linsolve.core.network_arguments import EPS, Network, read
from linsolve.solvability.conditions import Assessment
from linsolve.solvability.equivalent import Equivalent, Probes
from linsolve.solvability.held_out import read_test
from linsolve.solvability.matches import Match, WhiteMatch
from linsolve.solvability.trajectory import NetworkTrajectory
from linsolve.solvability.verdict import Verdict
from linsolve.systems.lora.low_rank_adaptation import LoRA

__all__ = ["LoRAMatch", "adapted"]

LARGEST = 1e100  # output of the frozen map, as of the data


class LoRAMatch(Match):
    """`LoRA`, in the directions of the data that learn; its map is that of the update, ``c B A``."""

    @classmethod
    def of(cls, match: WhiteMatch, base: np.ndarray, scale: float, rates: np.ndarray) -> LoRAMatch:
        """Return the match of adapters from that of the equivalent network."""
        inputs = match.inputs if match.axes is None else match.inputs @ match.axes
        network: Any = match.flow
        frozen, root = match.outputs.T @ base @ inputs, float(np.sqrt(rates[1] / rates[0]))
        tau = network.tau * scale * root
        flow = LoRA(network.target + frozen, frozen, scale=scale, ratio=rates[1] / rates[0], tau=tau)
        y, x, z = match.z0
        return cls("LoRA", flow, LoRA.State(y / scale, x / scale / root, z * root / scale), inputs, match.outputs)

    def product(self, state: Any) -> np.ndarray:
        """Return the update ``c B A``."""
        return np.asarray(self.flow.scale * state.product)  # type: ignore[attr-defined]


def adapted(
    who: str, weights: Any, data: Any, rates: Any, covariances: Any, tolerance: Any, bias: Any, test: Any,
    names: Any, base: Any, scale: Any,
) -> Equivalent:  # fmt: skip
    """Return the network without frozen map and scale whose layers and errors move in the same way."""
    network = read(who, weights, data, rates, covariances, tolerance, names)
    if bias is not None:
        raise ValueError(
            f"{who}: bias does not go with base or scale (trained biases of adapters); subtract a frozen bias from Y"
        )
    c = (
        1.0
        if scale is None
        else number(who, "scale", scale, meaning="factor c of the update", domain="[1e-12, 1e12]", example=2.0)
    )
    frozen = _frozen(who, base, network)
    depth = len(network.weights)
    layers = [c ** (1 / depth) * np.asarray(w) for w in weights]  # keeps the precision of the weights
    held_out = None
    if test is not None:
        X, Y = read_test(who, test, network)
        held_out = X, Y - X @ frozen.T
    inputs, outputs = (np.asarray(each) for each in data)
    outputs = outputs - _frozen_outputs(who, inputs, frozen, outputs, bool(covariances))
    return Equivalent(
        layers, (inputs, outputs), c ** (2 / depth) * network.rates, bool(covariances), held_out, names,
        _singular(network, frozen),
        lambda verdict: _verdict(verdict, network, frozen, c),
        lambda traj: _trajectory(traj, frozen, c, depth),
    )  # fmt: skip


def _frozen(who: str, base: Any, network: Network) -> np.ndarray:
    shape = network.widths[-1], network.widths[0]
    if base is None:
        return np.zeros(shape)
    found = known_array(who, "base", base, meaning="frozen map")
    if found.ndim == 1 and shape[0] == 1:
        found = found[None]
    refuse_shape(who, "base", found, shape, meaning="frozen map W0, outputs by inputs", fix="transpose or reshape it")
    return found


def _frozen_outputs(who: str, inputs: Any, frozen: Any, outputs: Any, covariances: bool) -> np.ndarray:
    """Return the outputs of the frozen map, or their second moment with the inputs, in the shape of the targets."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = frozen @ inputs if covariances else inputs @ frozen.T
    if not np.abs(found).max() <= LARGEST:
        raise ValueError(
            f"{who}: base reaches {np.abs(frozen).max():.3g}, and its outputs exceed {LARGEST:g} (frozen map); rescale "
            "it and the data"
        )
    return np.asarray(found.reshape(outputs.shape))


def _singular(network: Network, frozen: np.ndarray) -> Probes:
    """Return the singular directions of the change ``S - W0`` on the span of the data."""
    change = (network.cross @ network.span) / network.power - frozen @ network.span
    u, s, vh = np.linalg.svd(change, full_matrices=False)
    rounding = 16 * max(frozen.shape) * EPS * float(np.linalg.norm(frozen, 2))
    kept = s > max(max(network.tolerance, 1e-12) * s[0], rounding)
    probes = np.einsum("ik,kj->kij", u[:, kept], vh[kept] @ network.span.T)
    return Probes("singular value of the change", s[kept], probes, s[kept])


def _verdict(verdict: Verdict, network: Network, frozen: np.ndarray, scale: float) -> Verdict:
    def renamed(match: Match | None) -> Any:
        return LoRAMatch.of(match, frozen, scale, network.rates) if isinstance(match, WhiteMatch) else match

    def assessment(each: Assessment) -> Assessment:
        name = "LoRA" if each.name == "WhitenedTwoLayer" else each.name
        return dataclasses.replace(each, name=name, match=renamed(each.match))

    errors = {"LoRA" if name == "WhitenedTwoLayer" else name: error for name, error in verdict.errors.items()}
    near = tuple(dataclasses.replace(each, match=renamed(each.match)) for each in verdict.neighbors)
    depth = len(network.weights)
    power = "" if depth == 1 else f"^(1/{depth})"
    remark = (
        f"frozen map and scale {scale:g}: errors and outputs are those of the update; flows other than LoRA hold for "
        f"the layers scale{power} W on the targets y - W0 x."
    )
    return dataclasses.replace(
        verdict,
        assessments=tuple(assessment(each) for each in verdict.assessments),
        neighbors=near,
        errors=errors,
        remarks=(remark, *verdict.remarks),
        subject=f"frozen map and {'-'.join(map(str, network.widths))} linear update",
    )


def _trajectory(traj: NetworkTrajectory, frozen: np.ndarray, scale: float, depth: int) -> NetworkTrajectory:
    """Return the trajectory with the adapters themselves, and the map of base and update."""
    inner, root = traj.values, scale ** (1 / depth)

    def layer(name: str) -> Callable[[], np.ndarray]:
        return lambda: inner[name] / root

    values = inner | {name: layer(name) for name in (f"w{i}" for i in range(1, depth + 1))}
    values["map"] = lambda: inner["map"] + frozen
    values["singular_values"] = lambda: np.linalg.svd(inner["map"] + frozen, compute_uv=False)
    kind, notes = "linear update of a frozen map", traj.notes
    if traj.flow is not None:
        notes += ("the closed form is that of the equivalent network, layers scale^(1/L) W on the targets y - W0 x.",)

    def route() -> str:
        return str(traj.route).replace("WhitenedTwoLayer", "LoRA")

    return dataclasses.replace(traj, values=values, route=route, notes=notes, kind=kind)
