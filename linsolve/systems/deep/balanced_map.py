"""The input-output map of a balanced deep linear network: a closed equation for the product of its layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.flow import Flow, observable
from linsolve.core.parameters import parameter
from linsolve.systems.deep.closed_forms import product
from linsolve.systems.mode.deep_mode import OPPOSITE, DeepMode

__all__ = ["BalancedMap"]


class BalancedMap(Flow):
    r"""The map of a balanced deep linear network on white inputs, aligned with its target's singular modes.

    .. math:: L = |S - W|_F^2 / 2, \quad S = \sum_\alpha s_\alpha u_\alpha v_\alpha^T, \qquad
        \tau \dot W = \sum_{\ell=1}^D (W W^T)^{(D-\ell)/D} (S - W) (W^T W)^{(\ell-1)/D} .

    In singular modes of ``W``, with :math:`\mu = |c|^{2/D}`, the entry of ``S - W`` between output mode ``a`` and
    input mode ``b`` is multiplied by :math:`m_{ab} = (\mu_a^D - \mu_b^D) / (\mu_a - \mu_b)`; these are also the
    eigenvalues of the tangent kernel. An aligned map, :math:`W = \sum_\alpha c_\alpha u_\alpha v_\alpha^T`, stays
    aligned, and each :math:`c_\alpha` obeys `DeepMode`.

    Parameters
    ----------
    u : array_like, shape batch + (n_out, mode)
        Output directions, orthonormal columns.
    s : array_like, shape batch + (mode,)
        Singular values of the target; any sign, zero included.
    v : array_like, shape batch + (n_in, mode)
        Input directions, orthonormal columns.
    depth : array_like, shape batch
        Number of layers, real, at least 1.
    tau : array_like, shape batch
        Time constant (units of time), positive: one over the geometric mean of the layers' learning rates.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit. At a call, also for an invalid
        state or time.
    NotExact
        At a call, if ``u`` or ``v`` is not orthonormal, the start is not aligned with them, or a strength starts with
        the sign opposite to its ``s`` at a depth between 1 and 2.
    OverflowError
        At a call, or at the access of an observable, if results leave the range of doubles.

    Notes
    -----
    Exact for: aligned initial maps at every depth, but for strengths of the sign opposite to `s` at depths between 1
    and 2. A strength that is a rounding error of the map counts as 0, and a mode at 0 stays there. Not for: other
    initial maps. The equation above holds for them if the layers are balanced, but no closed form is known at depths
    above 2 (use `linsolve.integrate`; at depth 2 `WhitenedTwoLayer`). `DeepNetwork` returns the layers themselves.

    Sources: Arora, Cohen, Hazan, "On the optimization of deep networks: implicit acceleration by overparameterization"
    (2018), Theorem 1, for the equation; Saxe, McClelland, Ganguli (2014), eqs. (14)-(16), and Atanasov, Bordelon,
    Pehlevan (2022), eq. (39), for the modes. ``linsolve card DeepMode`` lists the published formulas and their
    verdicts.

    Accuracy: that of `DeepMode` for each mode; residual at 40 digits (``tests/systems/deep/test_deep_network.py``).

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve import BalancedMap
    >>> traj = BalancedMap(np.eye(2), [3.0, 1.0], np.eye(2), depth=3)([0.0, 1.0], 0.125 * np.eye(2))
    >>> traj["singular_values"].round(6).tolist()
    [[0.125, 0.125], [2.996559, 0.489348]]
    """

    u: Any = parameter("u", "output directions of the modes", axes=("n_out", "mode"))
    s: Any = parameter("s", "singular values of the target", axes=("mode",))
    v: Any = parameter("v", "input directions of the modes", axes=("n_in", "mode"))
    depth: Any = parameter("D", "number of layers", domain="[1, inf)", typical=(1, 8))
    tau: Any = parameter(r"\tau", "time constant", domain="(0, inf)", default=1.0)

    class State(NamedTuple):
        """The map, ``product``, shape batch + (n_out, n_in)."""

        product: Any

    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {"product": ("n_out", "n_in")}

    @property
    def target(self) -> Any:
        """The map to be learned, shape (n_out, n_in)."""
        return product(arithmetic.namespace(self.s), self.s, self.u, self.v)

    def _strengths(self, xp: Any, z: Any) -> Any:
        """Return the strengths of the modes; one that is a rounding error of the map is 0 and stays 0."""
        found = xp.sum(self.u * (z.product @ self.v), axis=-2)
        if arithmetic.is_object(xp):
            return found
        size = xp.sum(xp.abs(self.u) * (xp.abs(z.product) @ xp.abs(self.v)), axis=-2)
        rounding = sum(z.product.shape[-2:]) * arithmetic.spacing(z.product)
        return xp.where(xp.abs(found) <= rounding * size, xp.zeros_like(found), found)

    def _mode(self) -> DeepMode:
        return DeepMode(self.s, self.depth[..., None], self.tau[..., None])

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``|S - W|^2 / 2``."""
        return xp.sum((product(xp, self.s, self.u, self.v) - z.product) ** 2, axis=(-2, -1)) / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return minus the metric that the layers' weights induce on their product, times the gradient."""
        left, metric, right = self._modes_of(xp, z)
        turned = xp.matrix_transpose
        inside = metric * (turned(left) @ gradient.product @ right)
        return self.State(-(left @ inside @ turned(right)) / self.tau[..., None, None])

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``sum over l of (W W^T)^((D-l)/D) (S - W) (W^T W)^((l-1)/D) / tau``."""
        return self.descent(xp, z, self.State(z.product - product(xp, self.s, self.u, self.v)))

    def _modes_of(self, xp: Any, z: Any) -> tuple[Any, Any, Any]:
        """Return all output modes of the map, the metric ``m``, and all input modes."""
        left, c, right = xp.linalg.svd(z.product, full_matrices=True)
        return left, self._metric(xp, c, *z.product.shape[-2:]), xp.matrix_transpose(right)

    def _metric(self, xp: Any, c: Any, n_out: int, n_in: int) -> Any:
        """Return ``m``, shape lead + (n_out, n_in), from the strengths of the modes, completed by zeros.

        With ``q`` the smaller ``mu`` over the larger, ``m = mu^(D-1) (1 - q^D) / (1 - q)``, which does not cancel.
        """
        size = xp.abs(c)
        out, inner = (xp.concat([size, _zeros(xp, size, n)], axis=-1) for n in (n_out, n_in))
        a, b, depth = out[..., :, None], inner[..., None, :], self.depth[..., None, None]
        high, low = xp.maximum(a, b), xp.minimum(a, b)
        one = xp.ones_like(high)
        equal, share = low == high, low / xp.where(high > 0, high, one)
        none = (share == 0) & (high > 0)  # also where the ratio underflows
        ratio = xp.where(equal | none, one / 2, share)
        log = 2 * xp.log(ratio) / depth
        factor = xp.where(equal, depth * one, xp.where(none, one, xp.expm1(depth * log) / xp.expm1(log)))
        return xp.where(high > 0, xp.pow(high, 2 - 2 / depth + 0 * high), xp.where(depth == 1, one, 0 * one)) * factor

    def conditions(self, xp: Any, z0: Any) -> dict[str, Any]:
        """Return the size of the part of the map that couples modes, ``|u^T u - 1|``, ``|v^T v - 1|``, and lost signs.

        The part is relative to the map. Signs are lost as those of `DeepMode`.
        """
        strengths = self._strengths(xp, z0)
        lost = self._mode().conditions(xp, DeepMode.State(strengths))
        rest = z0.product - product(xp, strengths, self.u, self.v)
        size = xp.sum(z0.product**2, axis=(-2, -1))
        skew = sum(
            xp.sum((xp.matrix_transpose(frame) @ frame - xp.eye(frame.shape[-1])) ** 2, axis=(-2, -1))
            for frame in (self.u, self.v)
        )
        return {
            "misalignment": xp.sqrt(xp.sum(rest**2, axis=(-2, -1)) / xp.where(size > 0, size, xp.ones_like(size))),
            "distance of u and v from orthonormal columns": xp.sqrt(skew),
        } | {name: xp.max(value, axis=-1) for name, value in lost.items()}

    def begun(self, xp: Any, z0: Any) -> tuple[DeepMode, Any, Any]:
        """Return the flow of the modes, their strengths at time 0, and their quantities that do not depend on time."""
        modes, start = self._mode(), DeepMode.State(self._strengths(xp, z0))
        return modes, start, modes.begun(xp, start)

    def shared(self, xp: Any, t: Any, z0: Any, begun: Any = None) -> tuple[Any, Any]:
        """Return the strengths of the modes at times `t` and their distances from the target, by `DeepMode`."""
        modes, start, growth = begun or self.begun(xp, z0)
        return modes.shared(xp, t[..., None], start, growth)

    def solution(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> Any:
        """Return the map at times `t`; at ``t = 0`` bitwise equal to the initial map."""
        c, _ = shared or self.shared(xp, t, z0)
        moved = product(xp, c, self.u, self.v)
        return self.State(xp.where((t == 0)[..., None, None], z0.product + 0 * moved, moved))

    def along(self, xp: Any, t: Any, z0: Any, shared: Any = None) -> dict[str, Any]:
        """Return the loss and the kernel alignment from the modes, each to full relative accuracy."""
        c, gap = shared or self.shared(xp, t, z0)
        metric = self._metric(xp, c, *z0.product.shape[-2:])
        count = c.shape[-1]
        fit = xp.sum(self.s**2 * xp.sum(metric[..., :count, :count] * xp.eye(count), axis=-1), axis=-1)
        return {"loss": xp.sum(gap**2, axis=-1) / 2, "kernel_alignment": _cosine(xp, fit, metric, self.s)}

    # observables

    @observable(bounds="[0, inf)", axes=("singular",))
    def singular_values(self, xp: Any, z: Any) -> Any:
        """Return the singular values of the map, in decreasing order."""
        return xp.linalg.svd(z.product, full_matrices=False)[1]

    @observable(bounds="[0, 1]")
    def kernel_alignment(self, xp: Any, z: Any) -> Any:
        """Return the cosine between the balanced network's tangent kernel on white inputs and the target's ``y y^T``.

        Each layer is weighted with its learning rate, so that the rates cancel.
        """
        left, metric, right = self._modes_of(xp, z)
        seen = xp.matrix_transpose(left) @ product(xp, self.s, self.u, self.v) @ right
        return _cosine(xp, xp.sum(metric * seen**2, axis=(-2, -1)), metric, self.s)

    @classmethod
    def counterexamples(cls, rng: np.random.Generator) -> dict[str, tuple[Flow, Any]]:
        """Return a map that couples modes, one with directions of length two, and one opposite to its target."""
        flow, z0 = cls.example(rng)
        given = flow.parameters()
        lengthened = cls(**given | {"u": 2 * given["u"]})
        between = cls(**given | {"depth": 1.5})
        return {
            "misalignment": (flow, cls.State(z0.product + 0.25)),
            "distance of u and v from orthonormal columns": (lengthened, cls.State(0 * z0.product)),
            OPPOSITE: (between, cls.State(-z0.product)),
        }

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return two modes of a network with five inputs and four outputs, aligned without rounding error."""
        mirror = np.eye(4) - 0.5  # orthogonal, with dyadic entries
        u, v = mirror[:, rng.permutation(4)[:2]], np.vstack([mirror[:, rng.permutation(4)[:2]], np.zeros((1, 2))])
        start = rng.integers(3, 20, 2) / 64.0
        flow = cls(u, rng.uniform(0.5, 2.0, 2), v, depth=float(rng.integers(2, 5)), tau=rng.uniform(0.5, 2.0))
        return flow, cls.State(product(np, start, u, v))


def _zeros(xp: Any, size: Any, count: int) -> Any:
    """Return the zeros that extend the modes to `count`."""
    return xp.zeros((*size.shape[:-1], count - size.shape[-1]), dtype=size.dtype)


def _cosine(xp: Any, fit: Any, metric: Any, s: Any) -> Any:
    size = xp.sqrt(xp.sum(metric**2, axis=(-2, -1))) * xp.sum(s**2, axis=-1)
    return fit / xp.where(size > 0, size, xp.ones_like(size))
