"""Lazy training of several hidden layers: kernel, weights and time when the target is small against the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve.core.arguments import integer
from linsolve.core.law import Statistic
from linsolve.core.parameters import parameter
from linsolve.systems.small_start.deep_feature import ScaledOutput
from linsolve.systems.small_start.start import refuse

__all__ = ["DeepLazyFluctuations", "DeepLazyRegime", "Jet", "kernel_jet"]


class Jet(NamedTuple):
    r"""Output and kernel of layers, with derivatives along :math:`\dot V_l = \partial f / \partial V_l`.

    Parameters
    ----------
    output : array, shape batch
    kernel, slope, curvature : array, shape batch
        :math:`K = |\nabla f|^2` and its first two derivatives along that flow.
    back : array, shape batch + (width, 1)
        Velocity of the gradient with respect to the signal of the first layer.
    """

    output: Any
    kernel: Any
    slope: Any
    curvature: Any
    back: Any


class GaussianLayer:
    """Random square layer with entries of variance ``1/n``, drawn only in the directions that it is applied to.

    The component of a product along known rows or columns is theirs; the rest is independent of all that is known.
    Hence products have exactly the joint law of those of a drawn matrix, at a cost of ``n`` instead of ``n^2``.

    Parameters
    ----------
    rng : numpy.random.Generator
    count, n : int
        Layers, and width.
    """

    def __init__(self, rng: np.random.Generator, count: int, n: int) -> None:
        self.rng, self.shape = rng, (count, n, 1)
        self.right: list[tuple[Any, Any]] = []  # orthonormal vectors with their images
        self.left: list[tuple[Any, Any]] = []  # the same of the transpose

    def transposed(self) -> GaussianLayer:
        """Return the transpose, which shares all that is known."""
        other = GaussianLayer(self.rng, *self.shape[:2])
        other.right, other.left = self.left, self.right
        return other

    def __matmul__(self, x: Any) -> Any:
        """Return the product with vectors, shape (count, n, 1)."""
        found = np.zeros(self.shape)
        for known, image in self.right:
            along = _dot(known, x)
            found, x = found + along * image, x - along * known
        size = np.sqrt(_dot(x, x))
        new = x / np.where(size > 0, size, 1.0)
        image = self.rng.standard_normal(self.shape) / np.sqrt(self.shape[1])
        for known, back in self.left:
            image = image + known * (_dot(back, new) - _dot(known, image))
        self.right.append((new, image))
        return found + size * image


def kernel_jet(layers: Sequence[Any]) -> Jet:
    r"""Return output and kernel with two derivatives, for layers of one input and one output.

    With the signals :math:`f_{l+1} = V_l f_l`, :math:`f_1 = 1`, and gradients :math:`b_{l-1} = V_l^T b_l`, the flow is
    :math:`\dot V_l = b_l f_l^T`, :math:`K = \sum_l |b_l|^2 |f_l|^2`, and

    .. math:: \dot f_{l+1} = V_l \dot f_l + b_l |f_l|^2, \qquad
        \ddot f_{l+1} = V_l \ddot f_l + 3 b_l f_l \cdot \dot f_l + \dot b_l |f_l|^2,

    and in the same way backward.

    Parameters
    ----------
    layers : sequence of array or GaussianLayer, shapes batch + (n_1, 1), ..., batch + (1, n_L)
        First layer first.
    """
    turned = [v.transposed() if isinstance(v, GaussianLayer) else np.swapaxes(v, -1, -2) for v in layers]
    forward, backward = _signals(layers), _signals(turned[::-1])[::-1]
    first = _first(layers, forward, backward), _first(turned[::-1], backward[::-1], forward[::-1])[::-1]
    second = (
        _second(layers, forward, backward, *first),
        _second(turned[::-1], backward[::-1], forward[::-1], first[1][::-1], first[0][::-1])[::-1],
    )
    kernel: Any = 0.0
    slope: Any = 0.0
    curvature: Any = 0.0
    for f, b, df, db, ddf, ddb in zip(forward, backward, *first, *second, strict=True):
        ff, bb = _dot(f, f), _dot(b, b)
        dff, dbb = 2 * _dot(f, df), 2 * _dot(b, db)
        kernel, slope = kernel + ff * bb, slope + dff * bb + ff * dbb
        curvature = curvature + 2 * (
            (_dot(df, df) + _dot(f, ddf)) * bb + dff * dbb + ff * (_dot(db, db) + _dot(b, ddb))
        )
    output = (layers[-1] @ forward[-1])[..., 0, 0]
    return Jet(output, kernel[..., 0, 0], slope[..., 0, 0], curvature[..., 0, 0], first[1][0])


def _dot(a: Any, b: Any) -> Any:
    return np.sum(a * b, axis=-2, keepdims=True)


def _signals(layers: Sequence[Any]) -> list[Any]:
    """Return the signals before each layer."""
    found = [np.ones_like(layers[0][..., :1, :1])]
    for layer in layers[:-1]:
        found.append(layer @ found[-1])
    return found


def _first(layers: Sequence[Any], f: list[Any], b: list[Any]) -> list[Any]:
    """Return the velocities of the signals."""
    found = [np.zeros_like(f[0])]
    for layer, here, gradient in zip(layers[:-1], f, b, strict=False):
        found.append(layer @ found[-1] + gradient * _dot(here, here))
    return found


def _second(layers: Sequence[Any], f: list[Any], b: list[Any], df: list[Any], db: list[Any]) -> list[Any]:
    """Return the accelerations of the signals."""
    found = [np.zeros_like(f[0])]
    for k, layer in enumerate(layers[:-1]):
        found.append(layer @ found[-1] + 3 * b[k] * _dot(f[k], df[k]) + db[k] * _dot(f[k], f[k]))
    return found


class DeepLazyRegime(ScaledOutput):
    r"""Lazy training with two and more hidden layers, ``small`` :math:`= G \ll 1`, for any draw of the weights.

    With the network, ``G``, ``rho`` and the layers :math:`V_l` of `DeepFeatureRegime`, let :math:`K_0`, :math:`\dot K`
    and :math:`\ddot K` be the kernel at the start and its derivatives along :math:`\dot V_l = \partial f / \partial
    V_l`, :math:`K' = \dot K / K_0`, :math:`K'' = \ddot K / K_0^2 - K'^2 / K_0`, and :math:`g = G \operatorname{sgn} y`.
    On a line the weights move along one curve, on which the output is the parameter, so that

    .. math:: \frac{\Delta \Theta}{\Theta_0} = \frac{K'}{K_0} g + \frac{K''}{2 K_0} g^2 + O(G^3), \qquad
        \frac{|w - w_0|}{\sqrt h} = \frac{G}{\sqrt{K_0}} \Bigl(1 - \frac{K'}{4 K_0} g + O(G^2)\Bigr),

    .. math:: \rho^2 t_{1/2} = \frac{1}{K_0} \Bigl[\frac{\log 2}{2} - \frac{K'}{K_0} g \Bigl(\frac{\log 2}{2} - 1 +
        \frac{1}{\sqrt 2}\Bigr) + O(G^2)\Bigr],

    for the loss :math:`(F - y)^2 / (2 \alpha^2)`. For random weights of width ``h``, :math:`K_0 = L + 1`, :math:`K'` is
    of order :math:`h^{-1/2}` and :math:`K''` of order 1 (`DeepLazyFluctuations`): at fixed ``h`` the change of the
    kernel is linear in :math:`1/\alpha`, at infinite width quadratic, and the two meet at :math:`\alpha \sim |y|/\rho`.

    Parameters
    ----------
    start : array_like, shape (layer, width, width)
        :math:`V_l`, ``L + 1`` layers; the first column of the first and the first row of the last are used.
    target, rates
        ``[1]`` or ``[-1]``, the sign of ``y``; rates 1.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If there are fewer than three layers, or the start is at a point where the output has no gradient.

    Notes
    -----
    Approximates the network with numerically integrated weights. Not for: one hidden layer, see `LazyRegime` and
    `LazyTraining`, which hold at any ``G``.

    Source: Geiger, Spigler, Jacot, Wyart (2020), after (18), and (29).

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> law = ls.laws.DeepLazyRegime(start=[[[1.0]], [[1.0]], [[1.0]]], target=[1.0], rates=[1.0] * 3)
    >>> found = law.approximation(np, 0.01)
    >>> {name: round(float(value), 6) for name, value in found.items()}  # 3 V^4, V^3 = 1.01
    {'kernel change': 0.013356, 'weights': 0.005754, 'half time': 0.115286}
    >>> {name: round(float(value), 6) for name, value in law.exact(np, 0.01).items()}
    {'kernel change': 0.013356, 'weights': 0.005754, 'half time': 0.115287}
    """

    symbol: ClassVar[str] = "G"
    meaning: ClassVar[str] = "gap to be learned over the start"
    names: ClassVar[tuple[str, ...]] = ("kernel change", "weights", "half time")
    orders: ClassVar[Mapping[str, float]] = dict.fromkeys(names, 2)
    scales: ClassVar[tuple[float, ...]] = (0.04, 0.02, 0.01)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "orders", dict.fromkeys(self.names, 2))
        if not float(self.jet.kernel) > 0:
            refuse(self, "start", "layers whose output has no gradient", "must have one", "the network stays; draw it")

    @property
    def jet(self) -> Jet:
        """Output and kernel at the start, with two derivatives."""
        return kernel_jet(self.layers_at_start(1.0))

    def approximation(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return kernel change, change of the weights and half time."""
        jet, G, half = self.jet, float(small), np.log(2) / 2
        slope = jet.slope / jet.kernel**2  # K'/K_0
        second = (jet.curvature / jet.kernel**2 - jet.kernel * slope**2) / jet.kernel
        g = G * float(self.target[0])
        values = (
            slope * g + second * g**2 / 2,
            G / jet.kernel**0.5 * (1 - slope * g / 4),
            (half - slope * g * (half - 1 + 0.5**0.5)) / jet.kernel,
        )
        return dict(zip(self.names, map(xp.asarray, values), strict=True))

    def exact(self, xp: Any, small: Any) -> dict[str, Any]:
        """Return the same quantities of the trained network."""
        kernel, moved, half = self._trained(float(small) ** (1 / self.start.shape[0]))
        return dict(zip(self.names, map(xp.asarray, (kernel / float(self.jet.kernel) - 1, moved, half)), strict=True))

    @classmethod
    def example(cls, rng: np.random.Generator) -> DeepLazyRegime:
        """Return two hidden layers of width 4 and a target of either sign."""
        return cls(start=rng.normal(size=(3, 4, 4)) / 2, target=rng.choice([-1.0, 1.0], 1), rates=[1.0] * 3)


class DeepLazyFluctuations(Statistic):
    r"""Averages of lazy training over random weights, for any number ``L`` of hidden layers, at large width ``h``.

    With :math:`K'`, :math:`K''` of `DeepLazyRegime` and :math:`\varphi = f_0 / (\rho \sqrt h)` the output at the start,

    .. math:: \Bigl\langle \frac{K''}{2 K_0} \Bigr\rangle = \frac{L (L+2)}{3 (L+1)}, \qquad
        h \Bigl\langle \frac{K'^2}{K_0^2} \Bigr\rangle = \frac{16\, v_L}{(L+1)^4}, \quad
        v_L = \frac{L (L+1) (L+2) (4 L^3 + 10 L^2 + 7 L - 1)}{120},

    .. math:: h \langle K' \varphi \rangle = \frac{2}{3} L (L + 2), \qquad
        \frac{h}{y^2} \frac{\rho^2}{\rho_\perp^2} \operatorname{Var} F_\perp = \frac{L (2 L + 1)}{6 (L + 1)},

    where :math:`F_\perp` is the trained output at a point orthogonal to the data, of length :math:`\rho_\perp`. Hence
    the change of the kernel is :math:`G^2 L (L+2) / (3 (L+1))` at infinite width, and at fixed width a fluctuation of
    standard deviation :math:`4 \sqrt{v_L / h}\, G / (L+1)^2`; :math:`v_1, v_2, \dots = 1, 17, 109, 443, 1372`.

    Parameters
    ----------
    hidden : int
        ``L``, from 1.
    h : int
        Width of the sampled networks: the relative error of the law is ``O(1/h)``.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If the number of hidden layers or the width is not a positive integer.

    Notes
    -----
    At large width, products of Gaussian layers are free, and the averages are numbers of non-crossing pairings. With
    :math:`P` a product of ``p`` and, beginning with the same layers, :math:`Q` of ``q`` layers, :math:`h^{-1}
    \mathrm{tr}\, P P^T Q Q^T \to \min(p, q) + 1`; the first and last formulas are sums of such terms. The count of
    pairings is a polynomial of degree 6 in :math:`v_L`, which holds at ``L = 1, ..., 9``
    (``tests/systems/small_start/test_deep_lazy.py``).

    Approximates averages over standard Gaussian weights. Source: Geiger, Spigler, Jacot, Wyart (2020), (17) and after
    (18), which state the powers.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> {name: round(float(v), 4) for name, v in ls.laws.DeepLazyFluctuations(hidden=1).prediction(np).items()}
    {'kernel': 0.5, 'kernel slope squared': 1.0, 'slope times output': 2.0, 'output across': 0.25}
    """

    hidden: Any = parameter("L", "number of hidden layers", domain="[1, 1000]", default=2.0)
    h: Any = parameter("h", "width", domain="[2, 10000]", default=2000.0)

    approximates: ClassVar[str] = "averages over random starts of networks of several hidden layers, as alpha grows"
    unapplied: ClassVar[str] = "an average over random starts; DeepLazyRegime takes the layers of one network"
    draws: ClassVar[int] = 300

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, meaning, most in (("hidden", "hidden layers", 1000), ("h", "width", 10000)):
            value = float(getattr(self, name))
            if value == round(value):
                value = int(value)
            integer(type(self).__name__, name, value, meaning=meaning, low=1, high=most, example=2)

    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return the averages, those of order ``1/h`` times ``h``."""
        L = self.hidden
        count = L * (L + 1) * (L + 2) * (4 * L**3 + 10 * L**2 + 7 * L - 1) / 120
        return {
            "kernel": L * (L + 2) / (3 * (L + 1)),
            "kernel slope squared": 16 * count / (L + 1) ** 4,
            "slope times output": 2 * L * (L + 2) / 3,
            "output across": L * (2 * L + 1) / (6 * (L + 1)),
        }

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Draw networks and return the same quantities of each."""
        L, h = int(self.hidden), int(self.h)
        shape, size = (count, h, 1), np.sqrt(h)
        inner = [GaussianLayer(rng, count, h) for _ in range(L - 1)]
        first, last = rng.standard_normal(shape) / size, rng.standard_normal((count, 1, h)) / size
        jet = kernel_jet([first, *inner, last])
        slope = jet.slope / jet.kernel
        second = jet.curvature / jet.kernel**2 - slope**2 / jet.kernel
        across = np.sum(jet.back**2, axis=(-2, -1)) / jet.kernel**2
        return {
            "kernel": second / (2 * jet.kernel),
            "kernel slope squared": h * (slope / jet.kernel) ** 2,
            "slope times output": h * slope * jet.output,
            "output across": across,
        }

    @classmethod
    def example(cls, rng: np.random.Generator) -> DeepLazyFluctuations:
        """Return two or three hidden layers."""
        return cls(hidden=rng.integers(2, 4))
