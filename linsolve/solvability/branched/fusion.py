"""Late fusion of two branches: conditions of the law `UnimodalBias`, its times, and those of the integrated weights."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from linsolve.core.query import NotExact
from linsolve.solvability.branched.branches import Branches
from linsolve.solvability.branched.fusion_conditions import Fusion, counts, small
from linsolve.solvability.conditions import Condition
from linsolve.systems.gated.unimodal_bias import UnimodalBias

__all__ = ["FusionLaw", "fusion_law"]


class FusionLaw(NamedTuple):
    """Law of unimodal bias for two branches from a small start.

    The first branch is learned when the loss has lost half of what this branch alone can remove, the second one when it
    has then lost half of the rest that both can remove.

    Parameters
    ----------
    conditions : tuple of Condition
    order : tuple of int
        Numbers of the branches in the order in which they are learned; empty unless both are, in the order of their
        correlations with the output.
    times : tuple of float
        Times of the law at which the branches are learned, in units of time; empty if the law does not hold.
    integrated : tuple of float
        The same of the integrated weights; given with `order`, also for a start that is too large for the law.
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
            failed = ", ".join(f"{c.name} ({c.detail})" for c in self.conditions if not c.ok)
            learned = zip(self.order, self.integrated, strict=True)
            parts = [f"branch {k} is learned at t = {time:.5g} (integrated)" for k, time in learned]
            return f"Law of late fusion, UnimodalBias, does not hold: {'; '.join([failed, *parts])}."
        parts = [
            f"branch {k} is learned at t = {time:.5g} (integrated: {raw:.5g}, error O(size^{power:.2g}))"
            for k, time, raw, power in zip(self.order, self.times, self.integrated, self.powers, strict=True)
        ]
        ratio = f"ratio {self.times[1] / self.times[0]:.4g}, {self.limit:.4g} in the limit of small starts"
        return f"Law of late fusion, UnimodalBias, from a start of size {self.size:.2g}: {'; '.join(parts)}; {ratio}."

    def as_dict(self) -> dict[str, Any]:
        """Return the times and the conditions for JSON."""
        conditions = [dataclasses.asdict(c) | {"ok": c.ok} for c in self.conditions]
        found = {"name": "UnimodalBias", "holds": self.holds, "conditions": conditions}
        names = ("order", "times", "integrated", "limit", "size", "powers")
        return found | ({name: getattr(self, name) for name in names} if self.order else {})


def fusion_law(net: Branches) -> FusionLaw | None:
    """Return the law of a network of branches with separate inputs, None for branches that read the same inputs."""
    if len({each.wire.columns for each in net.branches}) < 2:
        return None
    found = counts(net)
    if not _hold(found):
        return FusionLaw(tuple(found))
    two = Fusion.of(net)
    for conditions in (two.on_data, two.on_start):
        found += conditions()
        if not _hold(found):
            return FusionLaw(tuple(found))
    try:
        return _timed(two, found)
    except (NotExact, ValueError, ArithmeticError) as refused:
        if _hold(found):
            found.append(Condition("range of the law", 1.0, str(refused)))
        return FusionLaw(tuple(found))


def _hold(conditions: list[Condition]) -> bool:
    return all(each.ok for each in conditions)


def _timed(two: Fusion, found: list[Condition]) -> FusionLaw:
    """Return the law with its times, of the integrated weights alone if the start is too large; extend `found`."""
    size, clock = two.size, two.net.clock
    (last_a, first_a), (last_b, first_b) = [(last / size, first / size) for last, first in two.layers]
    law = UnimodalBias(last_a, first_a, last_b, first_b, covariance=two.covariance, correlation=two.correlation)
    powers = tuple(law.orders.values())
    found.append(small(size, min(powers)))
    integrated = tuple(t / clock for t in law.simulated(size))
    found.append(two.ahead(integrated[0]))
    if not found[-1].ok:
        return FusionLaw(tuple(found))
    times = tuple(t / clock for t in law.times(size)) if _hold(found) else ()
    order = two.first.number, two.second.number
    return FusionLaw(tuple(found), order, times, integrated, law.limit, size, powers, law, 1 / clock)
