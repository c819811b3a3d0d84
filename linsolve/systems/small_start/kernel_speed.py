"""Speed of the features, and with them of the kernel, against that of the loss at a small start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.law import Expansion
from linsolve.core.network import gradient_flow, maps
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.numerics.checked import law_in_range
from linsolve.systems.small_start.small_network import SmallNetwork
from linsolve.systems.small_start.start import check_direction, check_range, refuse

__all__ = ["KernelSpeed", "feature_speed"]


def feature_speed(xp: Any, layers: Sequence[Any], moves: Sequence[Any]) -> tuple[Any, Any]:
    r"""Return :math:`|\nabla F|` and :math:`|d \nabla F/dt|` of the map F of layers that move at given velocities.

    The derivative of F by layer l is :math:`A_l \otimes B_l` with :math:`A_l = W_{>l}`, :math:`B_l = W_{<l}^T`, so that
    :math:`|\nabla F|^2 = \sum_l |A_l|^2 |B_l|^2` and :math:`|d \nabla F/dt|^2 = \sum_l |\dot A_l|^2 |B_l|^2 +
    2 (A_l \cdot \dot A_l)(B_l \cdot \dot B_l) + |A_l|^2 |\dot B_l|^2` in Frobenius norms.
    """
    n_out, n_in = layers[-1].shape[0], layers[0].shape[1]
    above, below = [(xp.eye(n_out), xp.zeros((n_out, n_out)))], [(xp.eye(n_in), xp.zeros((n_in, n_in)))]
    for layer, move in zip(layers[:-1], moves[:-1], strict=True):
        made, moved = below[-1]
        below.append((layer @ made, move @ made + layer @ moved))
    for layer, move in zip(layers[:0:-1], moves[:0:-1], strict=True):
        made, moved = above[-1]
        above.append((made @ layer, moved @ layer + made @ move))
    size = speed = xp.sum(0 * layers[0])
    for (a, da), (b, db) in zip(above[::-1], below, strict=True):
        a2, b2 = xp.sum(a * a), xp.sum(b * b)
        size = size + a2 * b2
        speed = speed + xp.sum(da * da) * b2 + 2 * xp.sum(a * da) * xp.sum(b * db) + a2 * xp.sum(db * db)
    return xp.sqrt(size), xp.sqrt(speed)


class KernelSpeed(Expansion):
    r"""Relative speed of the features over that of the loss, at a small start: :math:`\sigma^{-L}` times a constant.

    For the map F of ``L`` layers :math:`\sigma V_l` on white inputs, with all its components, and the loss
    :math:`\mathcal L = |S - F|^2/2` at rate 1,

    .. math:: \frac{|d \nabla F/dt|}{|\nabla F|} \frac{\mathcal L}{|d \mathcal L/dt|}
        = \sigma^{-L} \frac{|S|^2\, |D^2 F[\nabla g]|}{2\, |\nabla F|\, |\nabla g|^2}\, (1 + O(\sigma^L)), \qquad
        g = \mathrm{tr}(S^T V_L \cdots V_1),

    at :math:`V`: the kernel rotates before the loss decreases.

    Parameters
    ----------
    start : array_like, shape (layer, width, width)
        Layers over ``sigma``; the first ``n_in`` columns of the first and the first ``n_out`` rows of the last are
        used.
    target : array_like, shape (n_out, n_in)
        Target map ``S``.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If there is one layer only, or the gradient vanishes at the start.

    Notes
    -----
    Approximates the network at time 0, exactly. Source: Atanasov, Bordelon, Pehlevan (2022), (11), (60)-(62), which
    bound both speeds from above and state the order; in (11) the loss should stand in the numerator.
    ``linsolve card KernelSpeed`` lists the published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.KernelSpeed(start=np.ones((2, 1, 1)), target=[[1.0]])
    >>> float(law.approximation(np, 0.1)["ratio"].round(9)), float(law.exact(np, 0.1)["ratio"].round(9))
    (25.0, 24.75)
    """

    start: Any = parameter("W", "layers at the start, over sigma", axes=("layer", "width", "width"))
    target: Any = parameter("S", "map to be learned", axes=("n_out", "n_in"))

    approximates: ClassVar[str] = "the network at time 0, from a start of size sigma"
    timed: ClassVar[bool] = False
    orders: ClassVar[Mapping[str, float]] = {"ratio": 3}
    dps = 40

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self)
        check_direction(self)
        depth, width, _ = self.start.shape
        if depth < 2 or max(self.target.shape) > width:
            rule = f"must have at least 2 layers of width {max(self.target.shape)}"
            refuse(self, "start", f"layers of shape {self.start.shape}", rule, "widen it")
        object.__setattr__(self, "orders", {"ratio": depth})

    def _layers(self, xp: Any, small: Any) -> list[Any]:
        """Return the layers."""
        n_out, n_in = self.target.shape
        found = [small * self.start[k] for k in range(self.start.shape[0])]
        return [found[0][:, :n_in], *found[1:-1], found[-1][:n_out, :]]

    def _ratio(self, xp: Any, layers: list[Any], pull: Any) -> dict[str, Any]:
        moves = gradient_flow(xp, layers, maps(layers), pull, [1.0] * len(layers))
        size, speed = feature_speed(xp, layers, moves)
        fall = sum(xp.sum(move * move) for move in moves)
        if arithmetic.readable(fall) and not float(fall) > 0:
            rule, fix = "must have a gradient", "a saddle never moves; change start"
            refuse(self, "start", "layers without gradient", rule, fix)
        return {"ratio": speed / size * xp.sum(pull**2) / (2 * fall)}

    @law_in_range
    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the ratio at leading order."""
        found = self._ratio(xp, self._layers(xp, xp.ones_like(small)), self.target)
        return {name: value / small ** self.start.shape[0] for name, value in found.items()}

    @law_in_range
    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the ratio of the network itself."""
        layers = self._layers(xp, small)
        return self._ratio(xp, layers, self.target - maps(layers)[-1])

    @classmethod
    def applied(cls, given: GivenNetwork) -> NetworkLaw:
        """Return the ratio of a network on white inputs, at equal rates."""
        net = SmallNetwork.of(given, white=True)
        # directions of inputs and outputs without start and target count in the features
        whole = np.zeros((len(given.network.weights[-1]), len(given.network.power)))
        whole[: net.target.shape[0], : net.target.shape[1]] = net.target
        depth, width = net.red.depth, max(*whole.shape, *(max(layer.shape) for layer in net.layers))
        law = cls(start=net.stacked(width), target=whole)
        small = float(np.linalg.norm(net.red.product) / np.linalg.norm(net.target)) ** (1 / depth)

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            value = law.approximation(np, np.ones(()))["ratio"]
            return {"ratio": Estimate(lambda: value, depth, small**depth)}

        return net.law(cls, predict, small=small)

    @classmethod
    def example(cls, rng: np.random.Generator) -> KernelSpeed:
        """Return three layers with 2 outputs on 4 inputs."""
        return cls(start=rng.normal(size=(3, 5, 5)) / np.sqrt(5), target=rng.normal(size=(2, 4)))
