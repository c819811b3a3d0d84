"""The answer of `applies`: which exact solutions hold for a network, how far the others are, what they would cost."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from linsolve.core.arguments import unknown_name
from linsolve.core.flow import Flow
from linsolve.core.query import NotExact
from linsolve.solvability.conditions import Assessment
from linsolve.solvability.matches import Match
from linsolve.solvability.neighbors import Neighbor

__all__ = ["Verdict"]


@dataclasses.dataclass(frozen=True, eq=False)
class Verdict:
    """Which exact solution holds for a network; print it, ask `exact`, `flow()`, `nearest`.

    Parameters
    ----------
    widths : tuple of int
        Units of the network: inputs, hidden layers, outputs.
    assessments : tuple of Assessment
        Every flow with its conditions, measured.
    neighbors : tuple of Neighbor
        Nearby exact cases of the flows that are not exact, the smallest measured error first.
    until : float
        Horizon of bounds and measurements, in units of time.
    remarks : tuple of str
        Obstructions, limits recognized, and what is known to have no closed form.
    errors : dict
        For each exact flow the largest error of the outputs (root mean square over samples) up to the horizon against
        the integrated network, relative to its largest output. It is the integrator's: small everywhere but where an
        aligned or balanced start is unstable, and rounding of the weights grows along the way (deep networks whose
        modes are learned one long after the other: 1e-6 has been seen, where the mode itself agrees to 1e-10).
    """

    widths: tuple[int, ...]
    assessments: tuple[Assessment, ...]
    neighbors: tuple[Neighbor, ...]
    until: float
    remarks: tuple[str, ...]
    errors: dict[str, float]

    @property
    def exact(self) -> tuple[str, ...]:
        """Names of the flows that are exact for this network, the most detailed first."""
        return tuple(a.name for a in self.assessments if a.match is not None)

    @property
    def nearest(self) -> Neighbor | None:
        """The nearby exact case with the smallest measured error, or None where every flow is exact."""
        return self.neighbors[0] if self.neighbors else None

    def match(self, name: str | None = None) -> Match:
        """Return the network as an exact flow, with the way back to its map.

        Parameters
        ----------
        name : str, optional
            A flow; by default the first of `exact`.

        Raises
        ------
        NotExact
            If the flow, or any, is not exact; the message names what is violated and the nearest exact case.
        ValueError
            If there is no such flow.
        """
        known = {a.name: a for a in self.assessments}
        if name is not None and name not in known:
            raise ValueError(unknown_name("applies", "flow", name, known))
        chosen = [known[name]] if name is not None else list(self.assessments)
        for judged in chosen:
            if judged.match is not None:
                return judged.match
        failed = "; ".join(
            f"{a.name}: " + ", ".join(f"{c.name} = {c.distance:.3g}" for c in a.violated or a.conditions)
            for a in chosen
        )
        near = self.nearest
        hint = (
            f"verdict.nearest is {near.name} ({near.projection}), error {near.measured:.3g}" if near else "none is near"
        )
        raise NotExact(
            f"applies: {failed} must vanish (relative distances) for a closed form to hold; {hint}; integrate the "
            "weights numerically for this network"
        )

    def flow(self, name: str | None = None) -> tuple[Flow, Any]:
        """Return an exact flow and its start, ``(flow, z0)``; the flow's time is the network's. See `match`."""
        found = self.match(name)
        return found.flow, found.z0

    def __str__(self) -> str:
        title = "-".join(map(str, self.widths))
        lines = [f"{title} linear network: " + (f"exact as {', '.join(self.exact)}" if self.exact else "NOT EXACT")]
        for judged in self.assessments:
            exact = judged.match is not None
            note = f"exact; {self.errors[judged.name]:.1e} from the integrated network" if exact else "not exact"
            lines.append(f"{judged.name}: {note}")
            for c in judged.conditions:
                mark = "ok  " if c.ok else ("FAIL" if c.needed else "    ")
                lines.append(f"  {mark} {c.name:<22} {c.distance:8.1e}  {c.detail}")
        if not self.exact:
            lines += self._nearby()
        return "\n".join([*lines, *(f"Note: {remark}" for remark in self.remarks)])

    def _nearby(self) -> list[str]:
        near = self.nearest
        if near is None:
            return []
        b = near.bound
        lines = [
            f"Nearby exact cases, error of the outputs (rms over samples) up to t = {self.until:.4g}:",
            f"  {'measured':>8}  {'bound':>8}  {'outputs':>8}  {'start by':>8}  {'data by':>8}",
        ]
        for n in self.neighbors:
            row = (n.measured, n.bound.value, n.scale, n.moved_start, n.moved_data)
            lines.append("  " + "  ".join(f"{v:8.1e}" for v in row) + f"  {n.name}: {n.projection}")
        lines += [
            f"  bound of the first: Gronwall {b.gronwall:.2e} (finite up to t = {b.reach:.4g}), energy {b.energy:.2e};",
            f"  start off by {b.start:.2e}, Lipschitz constant <= {b.lipschitz:.3g}, growth <= exp({b.growth:.3g}), "
            f"residual <= {b.residual:.2e}",
        ]
        return lines

    def to_json(self) -> str:
        """Return the verdict as JSON; what is infinite is null."""
        flows = [
            {
                "name": a.name,
                "exact": a.match is not None,
                "error": self.errors.get(a.name),
                "conditions": [dataclasses.asdict(c) | {"ok": c.ok} for c in a.conditions],
            }
            for a in self.assessments
        ]
        near = [
            {
                "name": n.name,
                "projection": n.projection,
                "start": n.moved_start,
                "data": n.moved_data,
                "measured": n.measured,
                "scale": n.scale,
                "bound": {
                    key: value if abs(value) < float("inf") else None for key, value in n.bound._asdict().items()
                },
            }
            for n in self.neighbors
        ]
        found = {"widths": self.widths, "exact": self.exact, "flows": flows, "until": self.until}
        return json.dumps(found | {"neighbors": near, "remarks": self.remarks}, allow_nan=False)
