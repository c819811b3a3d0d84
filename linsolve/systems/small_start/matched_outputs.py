"""Two-layer network with several outputs from small initial weights on white inputs, over the whole of training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.law import Expansion
from linsolve.core.network import follow
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.core.reduced_network import norm
from linsolve.systems.small_start.small_network import SmallNetwork, named_losses
from linsolve.systems.small_start.start import check_direction, check_range
from linsolve.systems.whitened.factorizations import echelon, flipped
from linsolve.systems.whitened.matrix_riccati import moved
from linsolve.systems.whitened.riccati_traced import traced_riccati
from linsolve.systems.whitened.start_frame import Frame, Modes

__all__ = ["MatchedOutputs"]

PRODUCT, GRAM = 0.09, 0.3  # relative errors over the imbalance: 0.05 to 0.15, 0.1 to 0.5 in random networks


class MatchedOutputs(Expansion):
    r"""Output and kernel of a two-layer network with several outputs and small initial weights, during all of training.

    For :math:`f = W_2 W_1 x` on white inputs, target ``S``, learning rate 1, let :math:`Q = (W_1^\top; W_2)` and
    :math:`F = \begin{pmatrix} 0 & S^\top \\ S & 0 \end{pmatrix}`. Then, as for balanced initial weights,

    .. math:: Q Q^\top = e^{F t} Q_0 \Bigl[I + Q_0^\top \frac{e^{2 F t} - 1}{2 F} Q_0\Bigr]^{-1} Q_0^\top e^{F t}
        + O(\sigma^2),

    uniformly in time. With several outputs the error is :math:`O(\sigma^2 \log(1/\sigma))`: modes are learned at
    different times, which are a multiple of :math:`\log(1/\sigma)` apart. The blocks of :math:`Q Q^\top` are
    :math:`W_1^\top W_1`, :math:`W_2 W_1` and :math:`W_2 W_2^\top`, hence the tangent kernel.

    Parameters
    ----------
    first : array_like, shape (width, n_in)
        Initial first layer over :math:`\sigma`.
    last : array_like, shape (n_out, width)
        Initial second layer over :math:`\sigma`.
    target : array_like, shape (n_out, n_in)
        Target map ``S``, not zero; any rank.
    phases : array_like, shape (time,)
        Increasing times relative to the transition of the strongest mode, ``2 s t - log(s / sigma^2)``.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If the target is zero, or products of entries overflow.

    Notes
    -----
    Approximates the two-layer network on white inputs; `exact` integrates its weights. The formula is the balanced
    solution of Fukumizu (1998) and Braun et al. (2022), see `WhitenedTwoLayer`, applied to initial weights that are not
    balanced. It is evaluated by the matrix kernel of that flow, to 1e-12 of the largest entry at every time
    (``tests/systems/small_start/test_matched_outputs.py``, to phase 1e4). For one output the error has no logarithm.
    Then the law agrees with `RefinedMatchedSolution` to its order: both keep the part of the first layer that is
    orthogonal to the target.

    Source: Atanasov, Bordelon, Pehlevan (2022), eqs. (27), (28) for one output and section 4.2.
    ``linsolve card MatchedOutputs`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> start = {"first": np.eye(2), "last": np.eye(2)}
    >>> law = ls.laws.MatchedOutputs(**start, target=np.diag([3.0, 1.0]), phases=[0.0, 10.0, 50.0])
    >>> np.diagonal(law.approximation(np, 0.1)["product"], axis1=1, axis2=2).round(4).tolist()
    [[1.5025, 0.0633], [2.9999, 0.6546], [3.0, 1.0]]
    >>> start = ls.WhitenedTwoLayer.of(0.1 * np.eye(2), 0.1 * np.eye(2))  # balanced: here the law is exact
    >>> ls.WhitenedTwoLayer(target=np.diag([3.0, 1.0]))(law.times(np, 0.1), start)["singular_values"].round(4).tolist()
    [[1.5025, 0.0633], [2.9999, 0.6546], [3.0, 1.0]]

    The same law for a network and samples, with learning rates; the second layer is not balanced with the first:

    >>> network = ls.laws.MatchedOutputs.of([0.1 * np.eye(2), 0.05 * np.eye(2)], (np.eye(2), np.diag([3.0, 1.0])))
    >>> traj = network([0.0, 4.0, 20.0])
    >>> traj["map"][:, 0, 0].round(3).tolist(), float(f"{traj.error['map']:.0e}")
    ([0.005, 2.99, 3.0], 0.0002)
    """

    first: Any = parameter("W_1", "first layer at the start, over sigma", axes=("width", "n_in"))
    last: Any = parameter("W_2", "second layer at the start, over sigma", axes=("n_out", "width"))
    target: Any = parameter("S", "map to be learned", axes=("n_out", "n_in"))
    phases: Any = parameter(
        r"2st - \log(s/\sigma^2)", "times relative to the transition of the strongest mode", axes=("time",)
    )

    approximates: ClassVar[str] = "the two-layer network with several outputs on white inputs, from a small start"
    orders: ClassVar[Mapping[str, float]] = {"product": 2, "gram_in": 2, "gram_out": 2}
    scales = (1e-3, 3e-4, 1e-4)
    meaning: ClassVar[str] = "root of the imbalance of the layers over the target"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self)
        check_direction(self)

    def times(self, xp: Any, small: Any) -> Any:
        """Return the times, shape (time,)."""
        s = xp.linalg.svd(self.target, full_matrices=False)[1][0]
        return xp.maximum(self.phases + xp.log(s / small**2), 0 * self.phases) / (2 * s)

    def gram(self, xp: Any, small: Any, t: Any) -> Any:
        """Return ``Q Q^T`` at times `t`, shape (time, n_in + n_out, n_in + n_out)."""
        turned = xp.matrix_transpose
        q0 = small * xp.concat([turned(self.first), self.last], axis=0)
        product, x, z = self._traced(xp, t, q0) if arithmetic.is_jax(xp) else self._followed(xp, t, q0)
        return xp.concat([xp.concat([x, turned(product)], axis=-1), xp.concat([product, z], axis=-1)], axis=-2)

    def _followed(self, xp: Any, t: Any, q0: Any) -> list[Any]:
        """Return the product and the Gram matrices at times `t`."""
        n, whole = self.target.shape[1], q0 @ xp.matrix_transpose(q0)
        later, still = moved(xp, t, self._frame(xp, q0), n), (t == 0)[:, None, None]
        start = whole[n:, :n], whole[:n, :n], whole[n:, n:]
        return [xp.where(still, a, b) for a, b in zip(start, later, strict=True)]

    def _traced(self, xp: Any, t: Any, q0: Any) -> tuple[Any, Any, Any]:
        """Return the product and the Gram matrices for JAX; the formula has no imbalance."""
        n = self.target.shape[1]

        def riccati(xp: Any, clock: Any, targets: Any, starts: Any) -> Any:
            laws = [self._with(target=target) for target in targets]
            found = [law._followed(xp, clock[:, i], starts[i]) for i, law in enumerate(laws)]
            return [np.stack(each, axis=1) for each in zip(*found, strict=True)]

        def posed(target: Any, q: Any) -> tuple[Any, ...]:
            whole, still = q @ xp.matrix_transpose(q), 0 * q[..., 0, 0]
            return target, whole[..., n:, :n], whole[..., :n, :n], whole[..., n:, n:], still, still

        return traced_riccati(xp, riccati, t, self.target, q0, posed=posed)

    def _frame(self, xp: Any, q0: Any) -> Frame:
        """Return the initial weights in the eigenbasis of F; they need not be balanced."""
        turned, modes = xp.matrix_transpose, Modes.of(xp, self.target)
        if q0.shape[1] > q0.shape[0]:  # as many columns as rows are enough
            q0 = turned(xp.linalg.qr(turned(q0))[1])
        k, (n_out, n_in), half = modes.s.shape[0], self.target.shape, xp.sqrt(xp.ones_like(self.target[0, 0]) / 2)
        v, u = modes.v[:, :k] * half, modes.u[:, :k] * half
        columns = [xp.concat([v, u], axis=0), flipped(xp, xp.concat([v, -u], axis=0))]
        if n_in > k:
            columns.insert(1, xp.concat([modes.v[:, k:], xp.zeros((n_out, n_in - k))], axis=0))
        if n_out > k:
            columns.insert(1, xp.concat([xp.zeros((n_in, n_out - k)), modes.u[:, k:]], axis=0))
        basis = xp.concat(columns, axis=1)
        rate = xp.concat([modes.s, 0 * basis[0, 2 * k :], -flipped(xp, modes.s)], axis=0)
        noise = 16 * (n_in + n_out) * arithmetic.precision(xp) * xp.ones_like(half)
        q, root = echelon(xp, turned(basis) @ q0, q0, k, noise)
        return Frame(basis, rate, q, root, 0 * half, 0 * half, rate)

    def _blocks(self, gram: Any) -> dict[str, Any]:
        n = self.target.shape[1]
        return {"product": gram[..., n:, :n], "gram_in": gram[..., :n, :n], "gram_out": gram[..., n:, n:]}

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the three blocks."""
        return self._blocks(self.gram(xp, small, self.times(xp, small)))

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same quantities from the integrated network."""
        start = [float(small) * self.first, float(small) * self.last]
        first, last = follow(start, self.target, self.times(xp, small))
        q = xp.concat([xp.matrix_transpose(first), last], axis=-2)
        return self._blocks(q @ xp.matrix_transpose(q))

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the law of a network with two layers on white inputs; its small parameter is the imbalance."""
        net = SmallNetwork.of(given, depth=2, white=True)
        (first, last), s = net.layers, net.strength
        n_in = net.target.shape[1]

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            law = cls(first, last, net.target, net.phase(given.times, s, np.log(s)))
            gram = law.gram(np, 1.0, law.times(np, 1.0)).reshape(*given.times.shape, *2 * (len(first[0]) + len(last),))
            product, x, z = gram[..., n_in:, :n_in], gram[..., :n_in, :n_in], gram[..., n_in:, n_in:]
            found = {}
            if norm(given.frozen) <= net.red.tolerance * norm(given.network.weights[0]):
                found["map"] = Estimate(lambda: net.whole_map(product), 2, PRODUCT * net.imbalance)
            span_map = net.whole_map(product) @ given.network.span
            for name, value in named_losses(given, lambda: given.loss(span_map)).items():
                found[name] = Estimate(value, 2, PRODUCT * net.imbalance)
            if given.samples is not None:
                bases = net.red.inputs, net.red.outputs
                found["ntk"] = Estimate(
                    lambda: given.ntk_of_grams(*bases, x, z, net.red.clock), 2, GRAM * net.imbalance
                )
            return found

        return net.law(cls, predict, small=np.sqrt(net.imbalance))

    @classmethod
    def example(cls, rng: np.random.Generator) -> MatchedOutputs:
        """Return a network of 10 hidden units with 3 outputs on 6 inputs."""
        u, v = np.linalg.qr(rng.normal(size=(3, 3)))[0], np.linalg.qr(rng.normal(size=(6, 3)))[0]
        return cls(
            first=rng.normal(size=(10, 6)) / np.sqrt(6),
            last=rng.normal(size=(3, 10)) / np.sqrt(10),
            target=u @ np.diag(rng.uniform([0.9, 1.2, 1.5], [1.0, 1.3, 1.6])) @ v.T,
            phases=np.linspace(-4.0, 14.0, 37),
        )
