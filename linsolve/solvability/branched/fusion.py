"""Late fusion of two branches: conditions of the law `UnimodalBias`, its times, and those of the integrated weights."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.query import NotExact
from linsolve.solvability.branched.branches import Branches
from linsolve.solvability.conditions import Condition
from linsolve.systems.gated.unimodal_bias import UnimodalBias

__all__ = ["FusionLaw", "fusion_law"]

SMALL = 0.03  # power of the size of the start that the law leaves out, beside logarithms of it


class FusionLaw(NamedTuple):
    """Law of unimodal bias for two branches from a small start.

    Parameters
    ----------
    conditions : tuple of Condition
    order : tuple of int
        Numbers of the branches in the order in which they are learned; empty if the law does not hold.
    times : tuple of float
        Times of the law at which the branches are learned, in units of time.
    integrated : tuple of float
        The same of the integrated weights.
    limit : float
        Ratio of the times in the limit of small starts.
    size : float
        Size of the start, in the unit of the weights, the root of the correlation over the power of the inputs.
    powers : tuple of float
        Powers of `size` to which the times of both branches are exact.
    law : UnimodalBias or None
        The law, whose unit of time is `clock`: its times are ``law.times(size)`` times `clock`.
    clock : float
        Unit of time of the law.
    """

    conditions: tuple[Condition, ...]
    order: tuple[int, ...] = ()
    times: tuple[float, ...] = ()
    integrated: tuple[float, ...] = ()
    limit: float = float("nan")
    size: float = float("nan")
    powers: tuple[float, ...] = ()
    law: UnimodalBias | None = None
    clock: float = 1.0

    @property
    def holds(self) -> bool:
        """Whether all conditions hold."""
        return all(each.ok for each in self.conditions)

    def __str__(self) -> str:
        """Return the times, or the conditions that fail, in a sentence."""
        if not self.holds:
            failed = ", ".join(f"{c.name} ({c.distance:.2g}: {c.detail})" for c in self.conditions if not c.ok)
            return f"Law of late fusion, UnimodalBias, does not hold: {failed}."
        parts = [
            f"branch {k} is learned at t = {time:.5g} (integrated: {raw:.5g}, error O(size^{power:.2g}))"
            for k, time, raw, power in zip(self.order, self.times, self.integrated, self.powers, strict=True)
        ]
        ratio = f"ratio {self.times[1] / self.times[0]:.4g}, {self.limit:.4g} in the limit of small starts"
        return f"Law of late fusion, UnimodalBias, from a start of size {self.size:.2g}: {'; '.join(parts)}; {ratio}."

    def as_dict(self) -> dict[str, Any]:
        """Return the times and the conditions for JSON."""
        conditions = [dataclasses.asdict(c) | {"ok": c.ok} for c in self.conditions]
        return {"name": "UnimodalBias", "holds": self.holds, "conditions": conditions} | (
            {"order": self.order, "times": self.times, "integrated": self.integrated}
            | {"limit": self.limit, "size": self.size, "powers": self.powers}
            if self.holds
            else {}
        )


def fusion_law(net: Branches) -> FusionLaw | None:
    """Return the law of a network of branches with separate inputs, None for branches that read the same inputs."""
    branches, outputs = net.branches, net.outputs.shape[1]
    if len({each.wire.columns for each in branches}) < 2:
        return None
    found = [
        Condition("two branches", abs(len(branches) - 2) / len(branches), f"{len(branches)} branches"),
        Condition("one context", (net.count - 1) / net.count, f"{net.count} context{'s' * (net.count > 1)}"),
        Condition("one output", (outputs - 1) / outputs, f"{outputs} output{'s' * (outputs > 1)}"),
    ]
    if not all(each.ok for each in found):
        return FusionLaw(tuple(found))
    covariance, cross = net.covariance[0], net.cross[0, 0]
    sizes = [float(np.linalg.norm(cross[each.columns])) for each in branches]
    first, second = (branches[k] for k in np.argsort(sizes)[::-1])
    ratio = min(sizes) / (max(sizes) or 1.0)
    detail = f"smaller correlation with the output over the larger: {ratio:.6g}"
    found.append(Condition("unequal correlations", float(ratio >= 1 - 1e-9), detail))
    order = [*range(*first.wire.columns), *range(*second.wire.columns)]
    layers = [(net.scales[1] * each.heads[0, 0], net.scales[0] * each.first) for each in (first, second)]
    size = max(float(np.abs(w).max()) for pair in layers for w in pair)
    try:
        size /= float(np.sqrt(max(sizes) / np.linalg.eigvalsh(covariance)[-1]))
        (last_a, first_a), (last_b, first_b) = [(last / size, first / size) for last, first in layers]
        law = UnimodalBias(
            last_a, first_a, last_b, first_b, covariance=covariance[np.ix_(order, order)], correlation=cross[order]
        )
        powers = tuple(law.orders.values())
        detail = f"size {size:.2g} of the start to the power {min(powers):.2g}, left out of the times"
        found.append(Condition("small start", size ** min(powers), detail, tolerance=SMALL))
        if not all(each.ok for each in found):
            return FusionLaw(tuple(found))
        times, integrated = law.times(size), law.simulated(size)
    except (NotExact, ValueError, ArithmeticError) as refused:
        found.append(Condition("range of the law", 1.0, str(refused)))
        return FusionLaw(tuple(found))
    clock = net.clock
    return FusionLaw(
        tuple(found), (first.number, second.number), tuple(t / clock for t in times),
        tuple(t / clock for t in integrated), law.limit, size, powers, law, 1 / clock,
    )  # fmt: skip
