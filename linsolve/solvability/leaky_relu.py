r"""Leaky ReLU networks that train as linear networks.

Let :math:`\phi(z) = g z + (1 - g) |z|`, :math:`g = (1 + \alpha) / 2`, and :math:`f(x) = W_2 \phi(W_1 x)`. If each
hidden unit :math:`(w, u)` has a mirrored unit :math:`(-w, -u)`, the absolute values cancel in the output,
:math:`f(x) = g W_2 W_1 x`. If each sample :math:`(x, y)` has a mirrored sample :math:`(-x, -y)`, the residual e is odd,
:math:`\langle e |w \cdot x| \rangle = 0` and :math:`\langle e \cdot u\, \mathrm{sign}(w \cdot x)\, x \rangle = 0`, so
that

.. math:: \dot W_1 = \eta_1 g\, W_2^T \langle (y - f) x^T \rangle, \qquad
    \dot W_2 = \eta_2 g\, \langle (y - f) x^T \rangle W_1^T .

All units obey one linear equation. Mirrored units stay mirrored, the network stays odd, and its weights are at every
time those of the linear network. :math:`\sqrt g\, W_l` are the weights of a linear network with the learning rates
:math:`g \eta_l`. Steps of gradient descent, of momentum and of sign-equivariant optimizers such as Adam preserve the
mirrored units in the same way. Units on a line, :math:`c_i (w, u)`, also cancel if :math:`\sum c_i |c_i| = 0`, except
for Adam.

The slope at 0 is :math:`\phi'(0) = g`. Programs that take :math:`\alpha` there have other gradients for units and
samples with :math:`w \cdot x = 0` exactly: a ReLU network with :math:`W_1 = 0` does not learn with the slope 0. A start
with such a pair is therefore refused. A trained output bias moves with the mean residual, which vanishes at all times
if the means of inputs and targets are 0.

With a second hidden layer of mirrored units, the gradient has a term of size :math:`(1 - g)^2`, a product of two even
functions, which is not 0: the network stays odd, but not linear.

Source: Zhang, Saxe & Latham, "When are bias-free ReLU networks effectively linear networks?" (TMLR 2025).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np

from linsolve.core.arguments import rounded_up
from linsolve.core.integrate import joined
from linsolve.core.network import gradient_flow, maps
from linsolve.core.network_arguments import Network
from linsolve.core.network_observables import kronecker
from linsolve.core.query import NotExact
from linsolve.core.reduced_network import norm
from linsolve.core.trajectory import Deferred
from linsolve.solvability.activation import Activation
from linsolve.solvability.conditions import Condition
from linsolve.solvability.deviation import ROUNDING
from linsolve.solvability.leaky_network import gradients, tangent_kernel
from linsolve.solvability.mirrors import Mirror, mirror
from linsolve.solvability.problem import Problem
from linsolve.solvability.trajectory import NetworkTrajectory
from linsolve.solvability.verdict import Verdict

__all__ = ["Reduction"]

ROUNDED = 1e-5  # distance that rounding to single precision explains
NEAR = 0.1  # units this near to each other's mirror image are meant to be a pair
BLOCK = 10_000_000  # entries of the signals of a block of samples

Samples = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Reduction:
    """A leaky ReLU network, and the conditions under which it trains as a linear network.

    Parameters
    ----------
    unit : Activation
    network : Network
        Its weights and learning rates.
    samples : (X, Y)
    """

    unit: Activation
    network: Network
    samples: Samples

    @classmethod
    def of(cls, who: str, unit: Activation | None, network: Network, data: Any, covariances: bool) -> Reduction | None:
        """Return the reduction of checked arguments, None without nonlinear hidden units."""
        if unit is None or len(network.weights) == 1:
            return None
        if covariances:
            raise ValueError(
                f"{who}: activation = {unit.given} needs samples, not second moments (their symmetry is measured); "
                "pass (X, Y)"
            )
        X, Y = (np.asarray(each, dtype=float) for each in data)
        return cls(unit, network, (X, Y.reshape(len(X), -1)))

    @property
    def kind(self) -> str:
        """Name of the network for a title."""
        return f"{self.unit}, linear of gain {self.unit.gain:.4g}" if self.holds else str(self.unit)

    def linear(self, network: Network) -> Network:
        """Return the linear network with the same function, in scaled weights at scaled learning rates."""
        depth = len(network.weights)
        scale = self.unit.gain ** ((depth - 1) / depth)
        return network._replace(weights=tuple(scale * w for w in network.weights), rates=scale**2 * network.rates)

    @cached_property
    def measured(self) -> list[tuple[Condition, str]]:
        """Every condition with its distance, and the change that mends it."""
        depth = len(self.network.weights)
        more = "; the second learns even functions of its inputs" if depth > 2 else ""
        one = Condition("one hidden layer", abs(depth - 2) / depth, f"hidden layers: {depth - 1}{more}")
        units = self._units() if depth == 2 else ()
        parts = [(one, "use one hidden layer"), *units, self._data(), *self._biases(), *self._kink()]
        return [(dataclasses.replace(each, tolerance=self.network.tolerance), fix) for each, fix in parts]

    @property
    def holds(self) -> bool:
        """Whether the network trains as a linear network."""
        return all(each.ok for each, _ in self.measured)

    def _joint(self) -> np.ndarray:
        """Return the rows (w, u) of the hidden units, each layer of norm 1."""
        first, last = self.network.weights
        return np.concatenate([first / (norm(first) or 1.0), last.T / (norm(last) or 1.0)], axis=1)

    def _gram(self) -> np.ndarray:
        """Return the smaller Gram matrix of the units, whose rank they keep."""
        joint = self._joint()
        return joint @ joint.T if len(joint) < joint.shape[1] else joint.T @ joint

    def _units(self) -> Iterator[tuple[Condition, str]]:
        joint = self._joint()
        far = mirror(joint, np.zeros((len(joint), 1)), self.network.tolerance)
        image = "hidden unit W1[{}] has no mirrored unit (-w, -u)"
        detail = "each hidden unit (w, u) has its mirrored unit (-w, -u)"
        yield (
            Condition("mirrored units", far.distance, self._off(far, image, "units") or detail),
            self._nearly(far) or "start from numpy.concatenate([W1, -W1]), numpy.concatenate([W2, -W2], axis=1)",
        )

    @staticmethod
    def _nearly(far: Mirror) -> str:
        """Return the change of a unit that is nearly the mirrored unit of another, "" if none is near."""
        if far.other is None or far.distance > NEAR:
            return ""
        i, j = far.point, far.other
        return f"set W1[{j}] = -W1[{i}] and W2[:, {j}] = -W2[:, {i}]"

    def _data(self) -> tuple[Condition, str]:
        far = mirror(*self.samples, self.network.tolerance, least=self.network.tolerance)
        image = "sample X[{}] has no mirrored sample (-x, -y)"
        detail = self._off(far, image, "samples") or "each sample (x, y) has its mirrored sample (-x, -y)"
        fix = "train on numpy.concatenate([X, -X]), numpy.concatenate([Y, -Y])"
        return Condition("mirrored samples", far.distance, detail), fix

    def _off(self, far: Mirror, image: str, counted: str) -> str:
        """Return the sentence on the point that is farthest from symmetry, "" within the tolerance."""
        if far.distance <= self.network.tolerance:
            return ""
        if far.distance == 1:
            return image.format(far.point)
        if far.other is None:
            return f"the {counted} on the line of {counted[:-1]} {far.point} do not cancel"
        return f"{image.format(far.point)}; the nearest is {'W1' if counted == 'units' else 'X'}[{far.other}]"

    def _biases(self) -> Iterator[tuple[Condition, str]]:
        *hidden, last = self.network.biases or (None,)
        if any(each is not None for each in hidden):
            size = max(float(np.abs(each).max()) for each in hidden if each is not None)
            detail = f"hidden units have trained biases, up to {size:.3g}; they move even from 0"
            yield Condition("no hidden bias", 1.0, detail), "leave the biases of the hidden layers out"
        if last is not None:
            off = max(_relative_mean(each) for each in self.samples)
            centered = Condition("zero means", off, "a trained output bias moves with the mean of the residual")
            mend = "train on numpy.concatenate([X, -X]), numpy.concatenate([Y, -Y]), or leave the output bias out"
            yield centered, mend
            size = norm(last)
            share = size / (size + norm(self.samples[1]) / np.sqrt(len(self.samples[1]))) if size > 0 else 0.0
            yield Condition("zero output bias", share, "an output bias of 0 stays 0"), "start the output bias at 0"

    def _kink(self) -> Iterator[tuple[Condition, str]]:
        """Yield the share of samples at 0 of the unit with most of them; biases of the hidden units are not linear."""
        counts = self._kinks
        if len(self.network.weights) == 2 and all(each is None for each in self.network.biases[:-1]):
            unit = int(np.argmax(counts))
            detail = "no unit has a sample with w . x = 0"
            if counts[unit]:
                detail = (
                    f"hidden unit {unit} is at 0 for {counts[unit]} of {len(self.samples[0])} samples, where its slope "
                    f"counts as g = {self.unit.gain:.4g}; gradient descent with the slope {self.unit.alpha:g} differs"
                )
            fix = "add small random numbers to the units, with opposite signs to their mirrored units"
            yield Condition("no sample on a kink", float(counts[unit]) / len(self.samples[0]), detail), fix

    @cached_property
    @np.errstate(over="ignore", invalid="ignore")
    def _kinks(self) -> np.ndarray:
        """Number of samples x, other than 0, with w . x = 0, of each hidden unit (w, u) other than (0, 0)."""
        first, second = self.network.weights[:2]
        learns = first.any(axis=1) | second.any(axis=0)
        return learns * sum(np.sum(X[X.any(axis=1)] @ first.T == 0, axis=0) for X, _ in self._blocks())

    def _blocks(self) -> Iterator[Samples]:
        """Yield the samples in blocks whose signals fit into the memory."""
        X, Y = self.samples
        count = -(-len(X) * max(self.network.widths) // BLOCK)
        return zip(np.array_split(X, count), np.array_split(Y, count), strict=True)

    @np.errstate(over="ignore", invalid="ignore")
    def gradient(self) -> Condition:
        """Return the distance of the initial gradient from that of the linear network."""
        net, depth = self.network, len(self.network.weights)
        gain, made = self.unit.gain ** (depth - 1), maps(net.weights)
        pull = net.cross - gain * ((made[-1] @ net.span) * net.power) @ net.span.T
        linear = joined(gradient_flow(np, net.weights, made, pull, [gain] * depth))
        blocks = (joined(gradients(np, self.unit, net.weights, X, Y)) for X, Y in self._blocks())
        gap, size = norm(sum(blocks) / len(self.samples[0]) - linear), norm(linear)
        detail = f"initial, distance from the linear network of gain {gain:.4g}"
        distance = gap / max(gap, size) if gap != 0 else 0.0
        return Condition("gradient", distance if np.isfinite(distance) else 1.0, detail, needed=False)

    def notes(self) -> Iterator[str]:
        """Yield the consequences of the conditions, or the conditions that fail."""
        if not self.holds:
            for each, fix in self.measured:
                if not each.ok:
                    yield f"not linear: {each.name}, relative distance {each.distance:.2g}: {each.detail}; {fix}."
            return
        yield (
            f"{self.unit}: the units and the samples are mirrored. The network stays odd, and its weights are at every "
            f"time those of the linear network of gain g = {self.unit.gain:.4g}, also under gradient descent, momentum "
            "and, for pairs of units, sign-equivariant optimizers such as Adam. The flow has the weights sqrt(g) W."
        )
        far = max(each.distance for each, _ in self.measured)
        if far > ROUNDING:
            yield f"{self.unit}: mirrored up to {far:.2g}; the distance from the linear network has no bound."
        rank, wanted = (int(np.linalg.matrix_rank(each)) for each in (self._gram(), self.network.cross))
        if rank < wanted:
            yield (
                f"rank: mirrored units of rank {rank} learn at most {rank} of {wanted} directions, and the network "
                "ends at a saddle; rounding errors break the symmetry of a simulation, which leaves the saddle."
            )
        if self._kinks.any():
            yield (
                f"kinks: hidden units are at 0 for {self._kinks.sum()} pairs of unit and sample. Their slope there "
                f"counts as g; gradient descent with the slope {self.unit.alpha:g} differs."
            )

    def refuse(self, who: str) -> None:
        """Raise NotExact unless the network trains as a linear network."""
        failed = [(each, fix) for each, fix in self.measured if not each.ok]
        if not failed:
            return
        (first, fix), *others = failed
        far = max(each.distance for each, _ in failed)
        fix += f", or accept the error, which has no bound, by tolerance={rounded_up(far)}" if far <= ROUNDED else ""
        also = f"; also {', '.join(f'{each.name} ({each.distance:.2g})' for each, _ in others)}" if others else ""
        raise NotExact(
            f"{who}: activation = {self.unit.given} needs {first.name}, relative distance {first.distance:.2g}{also} "
            f"({first.detail}; the network is not linear); {fix}"
        )

    def judged(self, verdict: Verdict) -> Verdict:
        """Return the verdict on the linear network as one on this network."""
        conditions = (*(each for each, _ in self.measured), *(() if self.network.biases else (self.gradient(),)))
        assessed = tuple(
            dataclasses.replace(each, conditions=(*conditions, *map(_on_odd_functions, each.conditions)))
            for each in verdict.assessments
        )
        remarks = (*self.notes(), *verdict.remarks)
        subject = f"{'-'.join(map(str, verdict.widths))} {self.kind}"
        return dataclasses.replace(
            verdict, assessments=assessed, remarks=remarks, laws=(), subject=subject, integrable=self.holds
        )

    def restored(self, traj: NetworkTrajectory, problem: Problem) -> NetworkTrajectory:
        """Return the trajectory of the linear network in the weights of this network, with its own tangent kernel."""
        inner, root, rates = traj.values, np.sqrt(self.unit.gain), self.network.rates
        values = Deferred(**{name: partial(inner.__getitem__, name) for name in inner})
        values["w1"], values["w2"] = (lambda: inner["w1"] / root), (lambda: inner["w2"] / root)

        def ntk() -> np.ndarray:
            X, shape = problem.refuse_large_kernel(), problem.times.shape
            first, last = (values[name].reshape(-1, *values[name].shape[-2:]) for name in ("w1", "w2"))
            found = np.stack([tangent_kernel(self.unit, w, u, X, rates) for w, u in zip(first, last, strict=True)])
            if any(each is not None for each in self.network.biases):
                found = found + rates[1] * kronecker(np.ones((len(X),) * 2), np.eye(len(self.network.cross)))
            return found.reshape(shape + found.shape[1:])

        values["ntk"] = ntk

        def route() -> str:
            return f"{traj.route}; linear network of gain {self.unit.gain:.4g}"

        notes = (*self.notes(), *traj.notes)
        return dataclasses.replace(traj, route=route, notes=notes, values=values, kind=self.kind)


def _relative_mean(values: np.ndarray) -> float:
    """Return the norm of the mean of the rows, relative to their root mean square."""
    size = float(np.abs(values).max())
    scaled = values / (size or 1.0)
    return norm(scaled.mean(axis=0)) / (norm(scaled) / np.sqrt(len(values)) or 1.0)


def _on_odd_functions(each: Condition) -> Condition:
    """Return a condition of the linear network; its kernel is the odd part of that of the leaky ReLU network."""
    return dataclasses.replace(each, detail=each.detail.replace("tangent kernel", "tangent kernel on odd functions"))
