"""Conditions of the law of late fusion, on the samples and on the start of two branches, with the change that helps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linsolve.core.integrate import integrate
from linsolve.core.reduced_network import norm
from linsolve.solvability.branched.branches import Branch, Branches
from linsolve.solvability.conditions import Condition
from linsolve.systems.gated.unimodal_bias import LEAST

__all__ = ["Fusion", "counts", "small"]

SMALL = 0.03  # power of the size of the start that the law leaves out, beside logarithms of it
ROUNDING = 1e-12  # correlations and growing parts below it, relative to their terms, are rounding


def counts(net: Branches) -> list[Condition]:
    """Return the conditions on the numbers of branches, contexts and outputs."""
    branches, outputs = len(net.branches), net.outputs.shape[1]
    return [
        Condition("two branches", abs(branches - 2) / branches, f"the network has {branches}, must have 2"),
        Condition("one context", (net.count - 1) / net.count, f"the samples have {net.count}, must have 1"),
        Condition("one output", (outputs - 1) / outputs, f"Y has {outputs}, must have 1"),
    ]


def small(size: float, power: float) -> Condition:
    """Return the condition on the size of the start, of which the law leaves out a power."""
    left = size**power
    detail = f"start {size:.2g}: size^{power:.2g} = {left:.2g} must be at most {SMALL:g}"
    if left > SMALL:
        detail += f"; multiply all weights by {0.9 * SMALL ** (1 / power) / size:.2g}"
    return Condition("small start", left, detail, tolerance=SMALL)


class Fusion(NamedTuple):
    """Two branches, the one that is correlated more with the output first, and their moments in this order."""

    net: Branches
    first: Branch
    second: Branch
    covariance: np.ndarray
    correlation: np.ndarray

    @classmethod
    def of(cls, net: Branches) -> Fusion:
        """Return the branches of a network of two."""
        cross = net.cross[0, 0]
        first, second = sorted(net.branches, key=lambda each: -norm(cross[each.columns]))
        order = [*range(*first.wire.columns), *range(*second.wire.columns)]
        return cls(net, first, second, net.covariance[0][np.ix_(order, order)], cross[order])

    @property
    def cut(self) -> int:
        """Number of inputs of the first branch."""
        return self.first.first.shape[1]

    @property
    def sizes(self) -> tuple[float, float]:
        """Lengths of the correlations with the output."""
        return norm(self.correlation[: self.cut]), norm(self.correlation[self.cut :])

    @property
    def layers(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Last and first layer of each branch, scaled to equal learning rates."""
        scales = self.net.scales
        return [(scales[1] * each.heads[0, 0], scales[0] * each.first) for each in (self.first, self.second)]

    @property
    def left(self) -> np.ndarray:
        """Correlation of the second branch with the residual of the first, over the correlation of the first."""
        unit, y = self.covariance / norm(self.covariance), self.correlation / self.sizes[0]
        own, cross = unit[: self.cut, : self.cut], unit[: self.cut, self.cut :]
        return np.asarray(y[self.cut :] - np.linalg.solve(own, y[: self.cut]) @ cross)

    def on_data(self) -> list[Condition]:
        """Return the conditions on the samples; one that fails ends the list."""
        found = []
        for condition in (self._correlated, self._unequal, self._independent, self._separate):
            found.append(condition())
            if not found[-1].ok:
                break
        return found

    def _correlated(self) -> Condition:
        scale = np.sqrt(np.trace(self.covariance)) * norm(self.net.outputs) / np.sqrt(len(self.net.outputs))
        share = self.sizes[0] / scale if scale > 0 else 0.0
        detail = f"largest correlation of X and Y = {share:.2g}, must not vanish; without it no branch learns: change Y"
        return Condition("correlated with Y", float(not share > ROUNDING), detail)

    def _unequal(self) -> Condition:
        ratio = self.sizes[1] / self.sizes[0]
        detail = f"|X^T Y| of branch {self.second.number} over that of branch {self.first.number} = {ratio:.6g}"
        return Condition("unequal correlations", float(ratio >= 1 - 1e-9), f"{detail}, must be below 1")

    def _independent(self) -> Condition:
        values = np.linalg.eigvalsh(self.covariance / norm(self.covariance))
        share = max(float(values[0] / values[-1]), 0.0)
        detail = f"smallest eigenvalue of X^T X over the largest = {share:.2g}, must be at least {LEAST:g}"
        ok = share >= LEAST
        return Condition("independent inputs", float(not ok), detail if ok else f"{detail}; {self._remedy()}")

    def _remedy(self) -> str:
        """Return the change of the inputs after which the smallest eigenvalue may be large enough."""
        samples, inputs = self.net.inputs.shape
        if samples < inputs:
            return f"{samples} sample{'s' * (samples > 1)} cannot span {inputs} inputs: give more samples"
        unit, cut = self.covariance / norm(self.covariance), self.cut
        tops = [float(np.linalg.eigvalsh(part)[-1]) for part in (unit[:cut, :cut], unit[cut:, cut:])]
        scale = np.repeat(1 / np.sqrt(tops), [cut, len(unit) - cut])
        values = np.linalg.eigvalsh(unit * np.outer(scale, scale))
        if values[0] >= LEAST * values[-1]:
            weak = (self.first, self.second)[int(np.argmin(tops))].number
            return f"multiply X of branch {weak} by {np.sqrt(max(tops) / min(tops)):.2g}: its inputs are smaller"
        return "leave inputs out that others nearly determine, or that are much smaller"

    def _separate(self) -> Condition:
        share, one, other = norm(self.left), self.first.number, self.second.number
        detail = (
            f"correlation of branch {other} with what branch {one} leaves of Y, over that of branch {one} with Y = "
            f"{share:.2g}, must be at least {LEAST:g}"
        )
        ok = share >= LEAST
        fix = f"; branch {other} adds nothing to branch {one}: leave it out"
        return Condition("separate information", float(not ok), detail if ok else detail + fix)

    def on_start(self) -> list[Condition]:
        """Return the conditions under which both branches are learned: none starts at 0 or without a growing part."""
        ahead, behind = self.correlation[: self.cut], self.correlation[self.cut :]
        turns = len(behind) == 1 and behind @ self.left <= 0  # its correlation changes its sign on the plateau
        found = []
        for branch, (last, first), along in zip(
            (self.first, self.second), self.layers, (ahead, self.left if turns else behind), strict=True
        ):
            size = max(float(np.abs(w).max()) for w in (last, first))
            grown = 0.0 if size == 0 else float(np.abs(last + first @ (along / (norm(along) or 1.0))).max()) / size
            detail = "the part of the start that grows, over the start"
            if size == 0:
                detail = "it starts at 0 and never learns: start it at small random weights"
            elif not grown > ROUNDING:
                detail = "it only decays at first, W2 = -W1 n along n = X^T Y: change its sign"
            name = f"growing start of branch {branch.number}"
            found.append(Condition(name, float(not grown > ROUNDING), detail))
        return found

    @property
    def size(self) -> float:
        """Size of the start, in the root of the correlation over the power of the inputs."""
        power = float(np.linalg.eigvalsh(self.covariance)[-1])
        return max(float(np.abs(w).max()) for pair in self.layers for w in pair) / float(np.sqrt(self.sizes[0] / power))

    def ahead(self, time: float) -> Condition:
        """Return the condition that at a time the first branch has removed the larger share of its loss by itself."""
        net, flow = self.net, self.net.flow()
        layers = list(integrate(flow, [time], flow.State(*net.start)).state)
        shares = {}
        for k, branch in enumerate(net.branches):
            x, y = net.inputs[:, branch.columns], net.outputs[:, 0]
            best = np.linalg.lstsq(x, y, rcond=None)[0]
            own = x @ np.ravel(layers[2 * k + 1][0] @ layers[2 * k][0])
            whole = norm(y) ** 2 - norm(y - x @ best) ** 2
            shares[branch.number] = (norm(y) ** 2 - norm(y - own) ** 2) / whole if whole > 0 else 0.0
        one, other = self.first.number, self.second.number
        late = not shares[one] > shares[other]
        detail = f"branch {one}, which is correlated more with Y, is learned before branch {other}"
        if late:
            detail = f"branch {other} starts so much larger that it is learned first: start both alike"
        return Condition("order of the correlations", float(late), detail)
