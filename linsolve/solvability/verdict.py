"""Result of `applies`: the exact solutions that hold, the nearest exact case with its error, the conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from linsolve.core.arguments import unknown_name
from linsolve.core.flow import Flow
from linsolve.core.json_text import json_text
from linsolve.core.network_arguments import TOLERANCE
from linsolve.core.notebook import html_table
from linsolve.core.query import NotExact
from linsolve.solvability.branched.fusion import FusionLaw
from linsolve.solvability.conditions import Assessment
from linsolve.solvability.directions import Directions
from linsolve.solvability.generalization import Generalization
from linsolve.solvability.laws import NearLaw
from linsolve.solvability.matches import Match
from linsolve.solvability.neighbors import Neighbor
from linsolve.solvability.trajectory import Departure

__all__ = ["Verdict"]


@dataclasses.dataclass(frozen=True, eq=False)
class Verdict:
    """Exact solutions that hold for a network, `exact` and `flow()`, or the `nearest` exact case with its error.

    ``print(verdict)`` shows the answer, the nearest exact case, and the conditions that fail. ``verdict.report()``
    shows all flows with all their conditions.

    Parameters
    ----------
    widths : tuple of int
        Numbers of units: inputs, hidden layers, outputs.
    assessments : tuple of Assessment
        Every flow with its measured conditions.
    neighbors : tuple of Neighbor
        Nearby exact cases of the flows that are not exact, the smallest measured error first.
    until : float
        Horizon of bounds and measurements, in units of time.
    remarks : tuple of str
        Obstructions, applicable limits, and cases without a known closed form.
    errors : dict
        For each exact flow, the largest error of the outputs (root mean square over samples) up to the horizon,
        relative to the largest output of the integrated network. It is the error of the integrator, except for unstable
        aligned or balanced starts, where rounding errors of the weights grow over time (1e-6 in deep networks whose
        modes are learned at well separated times; each mode agrees to 1e-10).
    tolerance : float
        Relative distance up to which a condition counts as satisfied.
    precision : str
        Coarsest floating-point type of the arguments.
    laws : tuple of NearLaw
        Laws of small starts with smaller measured errors than `nearest`, if no flow is exact.
    departure : Departure, optional
        First time at which gradient descent with the given step differs from gradient flow.
    generalization : Generalization, optional
        Test loss over time on given test samples.
    integrable : bool
        Whether `linsolve.solve` integrates the network if no flow is exact.
    directions : Directions, optional
        Learning times of the directions of the target, for adapters and attention.
    subject : str
        Name of the network for the answer; empty for a linear network.
    fusion : FusionLaw, optional
        Law of unimodal bias, for branches with separate inputs that are not exact.
    parts : dict
        For a network of several parts that share no error, the part of each flow, such as "branch 1"; else empty.
    """

    widths: tuple[int, ...]
    assessments: tuple[Assessment, ...]
    neighbors: tuple[Neighbor, ...]
    until: float
    remarks: tuple[str, ...]
    errors: dict[str, float]
    tolerance: float = TOLERANCE
    precision: str = "float64"
    laws: tuple[NearLaw, ...] = ()
    departure: Departure | None = None
    generalization: Generalization | None = None
    integrable: bool = True
    directions: Directions | None = None
    subject: str = ""
    fusion: FusionLaw | None = None
    parts: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def exact(self) -> tuple[str, ...]:
        """Names of the flows that are exact for this network, the most detailed first."""
        return tuple(a.name for a in self.assessments if a.match is not None)

    @property
    def nearest(self) -> Neighbor | None:
        """The nearby exact case with the smallest measured error, or None if every flow is exact."""
        return self.neighbors[0] if self.neighbors else None

    def _leading(self, names: Iterable[str]) -> list[str]:
        """Return the first name of each part, all of them if the network has no parts."""
        firsts: dict[str, str] = {}
        for name in names:
            firsts.setdefault(self.parts.get(name, name), name)
        return list(firsts.values())

    def match(self, name: str | None = None) -> Match:
        """Return the representation of the network as an exact flow, with its map from the flow's state.

        Parameters
        ----------
        name : str, optional
            Name of a flow; by default the first of `exact`. It is needed for a network of several parts.

        Raises
        ------
        NotExact
            If the named flow, or every flow, is not exact; the message names the conditions and the nearest exact case.
        ValueError
            If there is no flow of that name, or no name for a network of several exact parts.
        """
        known = {a.name: a for a in self.assessments}
        if name is not None and name not in known:
            raise ValueError(unknown_name("applies", "flow", name, known))
        if name is None and len(leading := self._leading(self.exact)) > 1 and self.parts:
            raise ValueError(
                f"applies: flow = None must be the name of one flow ({len(leading)} parts have their own); say "
                f"{' or '.join(map(repr, leading))}"
            )
        chosen = [known[name]] if name is not None else list(self.assessments)
        for each in chosen:
            if each.match is not None:
                return each.match
        failed = "; ".join(
            f"{a.name}: " + ", ".join(f"{c.name} = {c.distance:.3g}" for c in a.violated or a.conditions)
            for a in chosen
        )
        near = self.nearest
        fixes = [
            "linsolve.solve integrates the weights of this network" if self.integrable else "the notes state the fix"
        ]
        if near is not None:
            fixes.insert(0, f"verdict.nearest is {near.name} ({near.projection}), error {near.measured:.3g}")
        elif self.remarks and not self.remarks[0].startswith("linsolve.solve"):
            fixes.insert(0, self.remarks[0].removesuffix("."))
        raise NotExact(
            f"applies: {failed} must vanish (relative distances) for a closed form to hold; {'; '.join(fixes)}"
        )

    def flow(self, name: str | None = None) -> tuple[Flow, Any]:
        """Return an exact flow and its start, ``(flow, z0)``, with the time of the network. See `match`."""
        found = self.match(name)
        return found.flow, found.z0

    @property
    def title(self) -> str:
        """The network in words."""
        return self.subject or f"{'-'.join(map(str, self.widths))} linear network"

    def _answer(self) -> list[str]:
        leading = self._leading(self.exact)
        lines = [f"{self.title}: " + (f"exact as {', '.join(leading)}" if leading else "NOT EXACT")]
        if len(leading) < len(self.exact):
            lines[0] += f" ({len(self.exact) - len(leading)} more flows: verdict.exact)"
        if self.tolerance != TOLERANCE:
            why = f", the precision of {self.precision} numbers" if self.precision != "float64" else ""
            lines.append(f"Conditions hold up to a relative distance of {self.tolerance:.2g}{why}.")
        return lines

    def _conditions(self, each: Assessment) -> list[str]:
        found = []
        for c in each.conditions:
            mark = "ok  " if c.ok else ("FAIL" if c.needed else "    ")
            found.append(f"  {mark} {c.name:<22} {c.distance:8.1e}  {c.detail}")
        return found

    def __str__(self) -> str:
        lines, leading = self._answer(), self._leading(self.exact)
        for each in self.assessments:
            if each.name in leading:
                error = f"differs by {self.errors[each.name]:.1e} from the integrated network"
                lines.append(f"{each.name}: {error} (relative, outputs up to t = {self.until:.4g})")
                lines += [line for line in self._conditions(each) if line.startswith("  ok")]
        if not self.exact:
            lines += [line for each in self._nearest_parts() for line in self._distance(each)]
            lines += [*self._laws(), *self._remedy()]
        return "\n".join([*lines, *self._held_out(), *(f"Note: {remark}" for remark in self.remarks)])

    def _remedy(self) -> list[str]:
        """Return the conditions that fail for the nearest case, or for the flow of the architecture."""
        known, lines = {each.name: each for each in self.assessments}, list[str]()
        near = [known[each.name] for each in self._nearest_parts() if each.name in known]
        if not near and self.subject and self.integrable:
            near = [self.assessments[0]]
        for each in near:
            failed = [line for line in self._conditions(each) if line.startswith("  FAIL")]
            lines += [f"To make it exact as {each.name}, bring to 0:", *failed] if failed else []
        return lines

    def _nearest_parts(self) -> list[Neighbor]:
        """Return the nearest case of each part."""
        if not self.parts:
            return list(self.neighbors[:1])
        found: dict[str, Neighbor] = {}
        for each in self.neighbors:
            found.setdefault(self.parts.get(each.name, each.name), each)
        return list(found.values())

    def _distance(self, near: Neighbor) -> list[str]:
        """Return the name of a nearby case, and the error of using it."""
        share = near.measured / near.scale if near.scale > 0 else near.measured
        bound = f"bound {near.bound.value:.2g}" if near.bound.value < float("inf") else "no bound"
        return [
            f"Nearest exact case: {near.name}, {near.projection or 'as it stands'}",
            f"  error of using it: {near.measured:.2g} ({bound}) on outputs up to {near.scale:.2g}, {share:.1%}, "
            f"rms over samples, up to t = {self.until:.4g}",
        ]

    def _held_out(self) -> list[str]:
        return [str(each) for each in (self.directions, self.fusion, self.generalization) if each is not None]

    def _laws(self) -> list[str]:
        if not self.laws:
            return []
        found = ["Nearer: laws of small starts, not exact; linsolve.laws.NAME.of(weights, data, rates):"]
        for law in self.laws:
            share = law.measured / law.scale if law.scale > 0 else law.measured
            found.append(
                f"  {law.name}: error {law.measured:.2g} on outputs up to {law.scale:.2g}, {share:.1%} "
                f"(estimated {law.estimate:.1g}, O({law.scaling}))"
            )
        return found

    def _repr_html_(self) -> str:
        first, *rest = str(self).split("\n")
        rows = [
            (each.name, "ok" if c.ok else "fails" if c.needed else "", c.name, f"{c.distance:.1e}", c.detail)
            for each in self.assessments
            for c in each.conditions
        ]
        kept = (*self._laws(), *(line for each in self._held_out() for line in each.split("\n")))
        notes = [line for line in rest if line.startswith(("Nearest", "  error", "Note")) or line in kept]
        return html_table(first, ("flow", "", "condition", "distance", "measured"), rows, notes)

    def report(self) -> str:
        """Return the answer, every flow with every condition, every nearby case with its bound, and the remarks."""
        lines = self._answer()
        for each in self.assessments:
            exact = each.match is not None
            note = f"exact; {self.errors[each.name]:.1e} from the integrated network" if exact else "not exact"
            lines += [f"{each.name}: {note}", *self._conditions(each)]
        if not self.exact:
            lines += [*self._nearby(), *self._laws()]
        return "\n".join([*lines, *self._held_out(), *(f"Note: {remark}" for remark in self.remarks)])

    def _nearby(self) -> list[str]:
        near = self.nearest
        if near is None:
            return []
        b = near.bound
        lines = [
            f"Nearby exact cases, error of the outputs (rms over samples) up to t = {self.until:.4g}, relative change:",
            f"  {'measured':>8}  {'bound':>8}  {'outputs':>8}  {'of start':>8}  {'of data':>8}",
        ]
        for n in self.neighbors:
            row = (n.measured, n.bound.value, n.scale, n.moved_start, n.moved_data)
            lines.append("  " + "  ".join(f"{v:8.1e}" for v in row) + f"  {n.name}: {n.projection}")
        lines += [
            f"  bound of the first: Gronwall {b.gronwall:.2e} (finite up to t = {b.reach:.4g}), energy {b.energy:.2e};",
            f"  initial distance {b.start:.2e}, Lipschitz constant <= {b.lipschitz:.3g}, residual <= {b.residual:.2e},",
            f"  growth <= exp({b.growth:.3g})",
        ]
        return lines

    def to_json(self) -> str:
        """Return the verdict as JSON, with null for infinite numbers."""
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
                "bound": n.bound,
            }
            for n in self.neighbors
        ]
        found = {"widths": self.widths, "exact": self.exact, "flows": flows, "until": self.until}
        found |= {"network": self.title, "laws": self.laws, "tolerance": self.tolerance, "precision": self.precision}
        found |= {"departure": self.departure} if self.departure is not None else {}
        if self.generalization is not None:
            found["generalization"] = self.generalization.as_dict()
        found |= {"directions": self.directions} if self.directions is not None else {}
        found |= {"fusion": self.fusion.as_dict()} if self.fusion is not None else {}
        return json_text(found | {"neighbors": near, "remarks": self.remarks})
