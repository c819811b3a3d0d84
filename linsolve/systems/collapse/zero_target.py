"""Two layers whose product has target zero: the end of training, and scatter coupled to the mean output."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.arithmetic import precision
from linsolve.core.definition import Definition
from linsolve.core.flow import Flow, observable
from linsolve.core.network_arguments import meeting
from linsolve.core.parameters import parameter
from linsolve.systems.collapse.by_host import evaluated_by_host
from linsolve.systems.whitened.factorizations import echelon
from linsolve.systems.whitened.matrix_riccati import moved
from linsolve.systems.whitened.start_frame import Frame
from linsolve.systems.whitened.starts import refuse_impossible

__all__ = ["ZeroTarget"]

LATE = 1e290  # products of times and rates are kept below


class ZeroTarget(Flow):
    r"""Gram matrices of two layers on white inputs whose product has target zero, from any start.

    .. math:: L = |W D|_F^2/2, \qquad \dot W = -\eta_w W D D^T, \quad \dot D = -\eta_d W^T W D,

    ``W`` (C, n), ``D`` (n, N). With ``A = D D^T`` and ``G = W^T W`` on the hidden units, the imbalance
    :math:`\tilde E = \eta_d G - \eta_w A` is conserved, and each Gram matrix obeys its own matrix Riccati equation,

    .. math:: \dot A = -\tilde E A - A \tilde E - 2 \eta_w A^2, \qquad
        \dot G = \tilde E G + G \tilde E - 2 \eta_d G^2,

    .. math:: A = e^{-\tilde E t} D_0 \big[ I + \eta_w D_0^\top \Phi D_0 \big]^{-1} D_0^\top e^{-\tilde E t}, \quad
        \Phi = \tilde E^{-1} (I - e^{-2 \tilde E t}) .

    - The end of training of `NeuralCollapse`, when class means are fitted and constant: ``D = H2``, ``eta_w = m``,
      ``eta_d = mu_s``. There ``D`` tends to zero if and only if :math:`\tilde E` has no negative eigenvalue; with a
      negative one, :math:`\eta_w A` tends to the negative part of :math:`-\tilde E`. Along a null vector of
      :math:`\tilde E` it decays as ``1/(2 t)``.
    - Scatter ``D`` within classes on separate hidden units, and the mean output ``c``: ``W = c^T``, ``eta_w = 1``,
      ``eta_d = mu_s``, also where ``D^T c`` changes its direction.

    Parameters
    ----------
    eta_w, eta_d : array_like, shape batch
        Learning rates of the layers (per unit of time).

    Notes
    -----
    Exact for: any imbalance, any ranks, any ``t >= 0`` and ``t = inf``. ``W`` and ``D`` themselves, and ``D^T D``, have
    no closed form: ``D = e^{-E t} D_0 T`` with an orthogonal factor in ``T`` that depends on the path.

    Sources: Seleznova, thesis (2024), section 3.3, (44)-(50), with the factors of (46)-(49) corrected; the solution is
    derived here. ``linsolve card NeuralCollapse`` lists the published formulas and their verdicts.

    Accuracy: 1e-11 of each field's largest entry against simulated weights; 1e-12 against sixty digits
    (``tests/systems/collapse/test_zero_target.py``).

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> flow = ls.collapse.ZeroTarget(eta_w=4.0, eta_d=1.0)
    >>> traj = flow([0.0, 1.0, np.inf], flow.of([[1.0, 0.5]], [[0.2], [0.1]]))
    >>> traj["loss"].round(6).tolist()
    [0.03125, 0.002809, 0.0]
    """

    eta_w: Any = parameter(r"\eta_w", "learning rate of W", domain="(0, inf)", typical=(1.0, 5.0), default=1.0)
    eta_d: Any = parameter(r"\eta_d", "learning rate of D", domain="(0, inf)", typical=(0.3, 2.0), default=1.0)

    class State(NamedTuple):
        """``W^T W`` and ``D D^T``, each (n, n)."""

        gram_w: Any
        gram_d: Any

    axes: ClassVar = {"gram_w": ("n", "n"), "gram_d": ("n", "n")}

    # states and weights

    def of(self, w: Any, d: Any) -> State:
        """Return the state of weights `w` (C, n) and `d` (n, N), batch axes leading."""
        who = f"{type(self).__name__}.of"
        layers = ("w", w, "outer layer", "C, n"), ("d", d, "inner layer", "n, N")
        w, d = meeting(who, *layers, "hidden units")
        turned = arithmetic.namespace(w, d).matrix_transpose
        return self.State(turned(w) @ w, d @ turned(d))

    @classmethod
    def state(cls, z: Any) -> Any:
        """Return `z` as a State of real arrays; raise if it belongs to no weights."""
        found = super().state(z)
        given = z.values() if hasattr(z, "values") else z
        none = 0 * (found.gram_w + found.gram_d)
        fields = {"gram_w and gram_d": none, "gram_w": found.gram_w, "gram_d": found.gram_d}
        refuse_impossible(cls.__name__, fields, "flow.of(w, d)", given)
        return found

    # the problem

    def loss(self, xp: Any, z: Any) -> Any:
        """Return ``|W D|^2 / 2 = tr(G A) / 2``."""
        return xp.sum(z.gram_w * z.gram_d, axis=(-2, -1)) / 2

    def descent(self, xp: Any, z: Any, gradient: Any) -> Any:
        """Return the velocity of a gradient with respect to both Gram matrices, by the chain rule."""
        w, d = (xp.matrix_transpose(g) + g for g in gradient)
        rates = self.eta_w[..., None, None], self.eta_d[..., None, None]
        return self.State(-rates[0] * (w @ z.gram_w + z.gram_w @ w), -rates[1] * (d @ z.gram_d + z.gram_d @ d))

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return ``-eta (G A + A G)`` for both."""
        g, a = ((v + xp.matrix_transpose(v)) / 2 for v in z)
        return self.State(
            -self.eta_w[..., None, None] * (a @ z.gram_w + z.gram_w @ a),
            -self.eta_d[..., None, None] * (g @ z.gram_d + z.gram_d @ g),
        )

    def step(self, xp: Any, z: Any, h: Any) -> Any:
        """Return the state after one step of gradient descent on the weights."""
        one = xp.eye(z.gram_w.shape[-1], dtype=xp.float64)
        w, d = one - h * self.eta_w[..., None, None] * z.gram_d, one - h * self.eta_d[..., None, None] * z.gram_w
        return self.State(xp.matrix_transpose(w) @ z.gram_w @ w, d @ z.gram_d @ xp.matrix_transpose(d))

    def imbalance(self, xp: Any, z: Any) -> Any:
        """Return ``E = eta_d G - eta_w A``, conserved, shape batch + (n, n)."""
        return self.eta_d[..., None, None] * z.gram_w - self.eta_w[..., None, None] * z.gram_d

    def _size(self, xp: Any, z: Any) -> Any:
        """Return the largest entry of the two terms of the imbalance; its rounding error is relative to it."""
        sizes = (eta * xp.max(xp.abs(a), axis=(-2, -1)) for eta, a in zip((self.eta_d, self.eta_w), z, strict=True))
        return xp.maximum(*sizes)

    # the closed form

    def solution(self, xp: Any, t: Any, z0: Any) -> Any:
        """Return the state; at ``t = 0`` bitwise the start."""
        if arithmetic.is_jax(xp):
            return self.State(*evaluated_by_host(xp, self, t, z0))
        e, size = self.imbalance(xp, z0), self._size(xp, z0)
        batch = np.broadcast_shapes(tuple(e.shape[:-2]))
        t = t + 0 * e[..., 0, 0]
        found = (
            _riccati(xp, t, e, z0.gram_w, self.eta_d, size, batch),
            _riccati(xp, t, -e, z0.gram_d, self.eta_w, size, batch),
        )
        still = (t == 0)[..., None, None]
        return self.State(*(xp.where(still, a, b) for a, b in zip(z0, found, strict=True)))

    def limit(self, xp: Any, z0: Any) -> Any:
        """Return the state at ``t = inf``: the positive parts of ``E/eta_d`` and ``-E/eta_w`` from generic starts."""
        batch = xp.zeros_like(self.eta_w + self.eta_d + z0.gram_w[..., 0, 0] + z0.gram_d[..., 0, 0])
        return self.solution(xp, xp.full_like(batch, xp.inf), z0)

    def invariants(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return the imbalance ``eta_d W^T W - eta_w D D^T``."""
        return {"imbalance": self.imbalance(xp, z)}

    def rates(self, xp: Any, z: Any) -> dict[str, Any]:
        """Return ``dL/dt = -eta_w |W D D^T|^2 - eta_d |W^T W D|^2``."""
        a, g = z.gram_d, z.gram_w
        first, second = (xp.sum((x @ x) * y, axis=(-2, -1)) for x, y in ((a, g), (g, a)))
        return {"loss": -self.eta_w * first - self.eta_d * second}

    # observables

    @observable(bounds="[0, inf)")
    def scatter(self, xp: Any, z: Any) -> Any:
        """Return ``|D|^2``, shape batch."""
        return xp.sum(z.gram_d * xp.eye(z.gram_d.shape[-1], dtype=xp.float64), axis=(-2, -1))

    def definition(self, xp: Any) -> Definition:
        """Return the network of three hidden units, two outputs and four inputs."""
        turned = xp.matrix_transpose
        return Definition(
            weights={"w": (2, 3), "d": (3, 4)},
            rates={"w": self.eta_w, "d": self.eta_d},
            output=lambda w: w["w"] @ w["d"],
            target=xp.zeros((2, 4), dtype=xp.float64),
            state=lambda w: self.State(turned(w["w"]) @ w["w"], w["d"] @ turned(w["d"])),
            observables=lambda w, kernel: {"scatter": xp.sum(w["d"] ** 2, axis=(-2, -1))},
        )

    @classmethod
    def example(cls, rng: np.random.Generator) -> tuple[Flow, Any]:
        """Return two networks of two outputs, three hidden units and four inputs, in binary fractions."""
        flow = cls(eta_w=rng.uniform(1.5, 3.0), eta_d=rng.uniform(0.5, 1.2))
        return flow, flow.of(rng.integers(-24, 25, (2, 2, 3)) / 32, rng.integers(-16, 17, (2, 3, 4)) / 32)


def _riccati(xp: Any, t: Any, e: Any, gram: Any, eta: Any, size: Any, batch: tuple[int, ...]) -> Any:
    """Return ``X`` at times t with ``X' = E X + X E - 2 eta X^2``, by ``P = 2 eta X``: ``P' = E P + P E - P^2``."""
    eta = eta[..., None, None]
    e, start = (xp.broadcast_to(a, (*batch, *a.shape[-2:])) for a in (e, 2 * eta * gram))
    frame = _frame(xp, e, start, size)
    last = LATE / (xp.max(xp.abs(frame.rate), axis=-1) + xp.sum(frame.root**2, axis=(-2, -1)) + 1)
    n = gram.shape[-1]
    return moved(xp, xp.where((t > last) & (t < xp.inf), last, t), frame, n)[1] / (2 * eta)


def _frame(xp: Any, e: Any, start: Any, size: Any) -> Frame:
    """Return the initial state in the eigenbasis of ``E``, as a `Frame` whose other half is empty.

    Eigenvalues below the rounding error of `size` are zero.
    """
    n, turned, noise = e.shape[-1], xp.matrix_transpose, 16 * e.shape[-1] * precision(xp)
    values, basis = xp.linalg.eigh(e)
    top = xp.max(xp.abs(values), axis=-1, keepdims=True)
    rate = xp.where(xp.abs(values) > noise * size[..., None], values, 0 * values)[..., ::-1]
    basis = basis[..., :, ::-1]
    sizes, vectors = xp.linalg.eigh(start)
    kept = sizes > noise * xp.max(xp.abs(sizes), axis=-1, keepdims=True)
    root = vectors * xp.sqrt(xp.where(kept, sizes, 0 * sizes))[..., None, :]
    growing = int(arithmetic.to_numpy(xp.max(xp.sum(xp.astype(rate > 0, xp.float64), axis=-1))))
    none, one = 0 * root, xp.eye(n, dtype=xp.float64) + 0 * root
    q, root = (xp.concat([a, none], axis=-2) for a in (turned(basis) @ root, root))
    q, root = echelon(xp, q, root, max(growing, 1), noise + 0 * rate[..., 0])
    basis = xp.concat([xp.concat([basis, none], axis=-1), xp.concat([none, one], axis=-1)], axis=-2)
    none, rate = 0 * rate[..., 0], xp.concat([rate, -top + 0 * rate], axis=-1)
    return Frame(basis, rate, q, root, none, none, rate)
