"""A balanced, aligned deep linear network with all its layers, exact at every time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import boolean, integer, number, real_array
from linsolve.numerics.checked import in_range
from linsolve.systems.deep import closed_forms
from linsolve.systems.deep.starts import POSITIVE, WHO, parts_of, refuse_frames, refuse_shapes
from linsolve.systems.mode.deep_mode import DeepMode

__all__ = ["DeepNetwork"]


@dataclasses.dataclass(frozen=True, eq=False)
class DeepNetwork:
    r"""A deep linear network whose layers are balanced and aligned with the singular modes of the data.

    .. math:: L = \frac{1}{2P} \sum_\mu |y^\mu - W_L \cdots W_1 x^\mu|^2 + \mathrm{const}
        = \frac12 \mathrm{tr}\,(S - W) \Sigma (S - W)^T, \qquad \dot W_\ell = -\eta_\ell\, \partial L/\partial W_\ell,

    with :math:`S = \sum_\alpha s_\alpha u_\alpha v_\alpha^T`, inputs of covariance
    :math:`\Sigma = \sum_\alpha \kappa_\alpha v_\alpha v_\alpha^T + \Sigma_\perp` (1 for the white inputs of
    ``data.whiten``). The initial weights are *aligned*, :math:`W_\ell = R_{\ell+1} D_\ell R_\ell^T` with orthonormal
    columns :math:`R_1 = v`, :math:`R_{L+1} = u`, and *balanced*,
    :math:`W_\ell W_\ell^T/\eta_\ell = W_{\ell+1}^T W_{\ell+1} / \eta_{\ell+1}`. Both properties are conserved. In
    :math:`U_\ell = \sqrt{\bar\eta/\eta_\ell}\, W_\ell`, :math:`\bar\eta` the geometric mean of the rates, all layers
    have the same singular values :math:`d_\alpha`, and
    :math:`\dot U_\ell = \bar\eta\, U_{>\ell}^T (S - W) \Sigma\, U_{<\ell}^T` becomes
    :math:`\dot d_\alpha = \bar\eta \kappa_\alpha d_\alpha^{L-1} (s_\alpha - c_\alpha)` for positive modes. The strength
    :math:`c_\alpha = \pm d_\alpha^L` of each mode in the map therefore obeys `DeepMode`, with its own time constant:

    .. math:: \dot c_\alpha = L \bar\eta \kappa_\alpha |c_\alpha|^{2 - 2/L} (s_\alpha - c_\alpha).

    `init` builds a network from modes, `of` from weights; the constructor takes all parts.

    Parameters
    ----------
    u : array, shape (n_out, k)
        Output directions of the modes, orthonormal columns.
    s : array, shape (k,)
        Strengths of the modes in the target; any sign, zero included.
    v : array, shape (n_in, k)
        Input directions, orthonormal columns.
    start : array, shape (k,)
        Strengths in the map at time 0. Modes of strength 0 are stationary, unless the depth is 1.
    rates : array, shape (L,)
        Learning rates of the layers (one over units of time), first layer first.
    hidden : tuple of array, shapes (N_l, k)
        Frames of the hidden layers; the columns of modes with nonzero initial strength are orthonormal.
    variances : array, shape (k,)
        Variances ``kappa`` of the inputs along the modes.

    Notes
    -----
    Exact for: any integer depth, any positive rates, any widths of at least the number of modes with nonzero initial
    strength. Not for: weights that are not balanced or not aligned (`of` raises `NotExact` with their distance).

    Sources: Saxe, McClelland, Ganguli (2014), eqs. (14)-(16); Atanasov, Bordelon, Pehlevan, "Neural networks as kernel
    learners: the silent alignment effect" (2022), eqs. (32)-(43), (53)-(55), with unequal rates.
    ``linsolve card DeepMode`` lists the published formulas and their verdicts.

    Accuracy: layers within 1e-8 of an eighth-order integrator of the raw weights (its own accuracy) at depths 1, 2, 3
    and 5 with unequal rates, white and commuting covariances; kernels within 1e-6 of finite differences
    (``tests/systems/deep/test_deep_network.py``).

    Examples
    --------
    >>> from linsolve import data, deep
    >>> modes = data.modes([[0.0], [1.0], [2.0], [3.0]], [[0.0, 0.0], [1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    >>> network = deep.DeepNetwork.init(modes, 0.01, depth=3, widths=(4, 5), rates=(1.0, 2.0, 0.5))
    >>> [layer.shape for layer in network.layers([0.0, 1.0])]
    [(2, 4, 1), (2, 5, 4), (2, 2, 5)]
    >>> network.strengths([0.0, 1.0, float("inf")]).round(6).tolist()
    [[0.01], [0.097159], [2.5]]
    """

    u: Any
    s: Any
    v: Any
    start: Any
    rates: Any
    hidden: tuple[Any, ...]
    variances: Any

    def __post_init__(self) -> None:
        meanings = {
            "u": "output directions of the modes",
            "s": "strengths of the modes in the target",
            "v": "input directions of the modes",
            "start": "strengths of the modes at time 0",
        }
        for name, meaning in meanings.items():
            self._set(name, real_array(WHO, name, getattr(self, name), meaning=meaning))
        self._set(
            "rates", real_array(WHO, "rates", self.rates, meaning="learning rates of the layers", domain=POSITIVE)
        )
        variances = real_array(WHO, "variances", self.variances, meaning="variances of the inputs", domain=POSITIVE)
        self._set("variances", variances)
        frames = [real_array(WHO, f"hidden[{i}]", r, meaning="frame of a layer") for i, r in enumerate(self.hidden)]
        self._set("hidden", tuple(frames))
        refuse_shapes(self.s, self.start, self.variances, self.rates, self._named_frames())
        refuse_frames(self.start, self._named_frames())

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _named_frames(self) -> list[tuple[str, Any]]:
        return [("v", self.v), *((f"hidden[{i}]", r) for i, r in enumerate(self.hidden)), ("u", self.u)]

    @classmethod
    def init(
        cls,
        modes: tuple[Any, Any, Any],
        start: Any,
        *,
        depth: int,
        widths: int | Sequence[int] | None = None,
        rates: Any = 1.0,
        variances: Any = 1.0,
        rng: np.random.Generator | int | None = None,
    ) -> Self:
        """Return a network aligned with the singular modes of a data set.

        Parameters
        ----------
        modes : (u, s, v)
            Singular modes, as returned by ``data.modes(X, Y)``.
        start : array_like, shape (k,) or ()
            Strengths of the modes in the map at time 0; each layer has the ``depth``-th root.
        depth : int
            Number of layers, at least 1.
        widths : int or sequence of depth - 1 int, optional
            Units of the hidden layers; by default the number of modes with nonzero initial strength.
        rates : array_like, shape (depth,) or ()
            Learning rates of the layers.
        variances : array_like, shape (k,) or ()
            Variances of the inputs along the modes; 1 for the white inputs of ``data.whiten``.
        rng : Generator or int, optional
            Draws the hidden frames uniformly; without it mode k is unit k of each hidden layer.

        Raises
        ------
        ValueError
            If the depth is not an integer, a layer is too narrow for the modes, or a number is out of range.
        """
        return cls(*parts_of(modes, start, depth, widths, rates, variances, rng))

    @classmethod
    def of(
        cls,
        layers: Sequence[Any],
        target: Any,
        *,
        rates: Any = 1.0,
        covariance: Any = None,
        tolerance: float | None = None,
    ) -> Self:
        """Return the network of given weights, if they are balanced and aligned with the data.

        Parameters
        ----------
        layers : sequence of array_like, shapes (N_(l+1), N_l)
            Weights, first layer first.
        target : array_like, shape (n_out, n_in)
            Map to be learned, ``Sigma_yx Sigma_xx^-1``.
        rates : array_like, shape (depth,) or ()
            Learning rates of the layers.
        covariance : array_like, shape (n_in, n_in), optional
            Covariance of the inputs; white by default.
        tolerance : float, optional
            Largest relative distance (see `distances`) at which the weights are replaced by the nearest balanced and
            aligned weights. Modes of smaller strength whose layers disagree are treated as rounding errors. By default
            1e-9, or 64 machine epsilons for weights or a target in single precision.

        Raises
        ------
        NotExact
            If the weights are not balanced or not aligned; the message contains the distance.
        OverflowError
            If the product of the weights is beyond the range of doubles.
        """
        from linsolve.systems.deep.recognition import recognized

        return cls(*recognized(layers, target, rates, covariance, tolerance))

    @property
    def depth(self) -> int:
        """Number of layers."""
        return int(self.rates.shape[0])

    @property
    def flow(self) -> DeepMode:
        """The flow of the modes, with one batch member per mode."""
        xp = arithmetic.namespace(self.s)
        mean = closed_forms.mean_rate(xp, self.rates)
        return DeepMode(self.s, float(self.depth) * xp.ones_like(self.s), 1 / (mean * self.variances))

    @property
    def target(self) -> Any:
        """The map to be learned, shape (n_out, n_in)."""
        return closed_forms.product(arithmetic.namespace(self.s), self.s, self.u, self.v)

    def strengths(self, t: Any) -> Any:
        """Return the strengths of the modes in the map at times `t`, shape t.shape + (k,)."""
        return self.flow(t, DeepMode.State(self.start))["a"]

    def loss(self, t: Any) -> Any:
        """Return the loss minus its minimum, ``sum of kappa (s - c)^2 / 2``, shape t.shape, to full accuracy."""
        traj = self.flow(t, DeepMode.State(self.start))
        return arithmetic.namespace(self.s).sum(self.variances * traj["loss"], axis=-1)

    def layers(self, t: Any) -> list[Any]:
        """Return the weights at times `t`, shapes t.shape + (N_(l+1), N_l), first layer first."""
        frames = [frame for _, frame in self._named_frames()]
        return closed_forms.layers(arithmetic.namespace(self.s), self.strengths(t), frames, self.rates)

    def product(self, t: Any) -> Any:
        """Return the map ``W_L ... W_1`` at times `t`, shape t.shape + (n_out, n_in)."""
        return closed_forms.product(arithmetic.namespace(self.s), self.strengths(t), self.u, self.v)

    def output(self, t: Any, x: Any) -> Any:
        """Return the outputs on inputs `x`, shape (m, n_in), at times `t`, shape t.shape + (m, n_out)."""
        xp = arithmetic.namespace(self.s)
        return self._inputs("x", x) @ xp.matrix_transpose(self.product(t))

    def ntk(self, t: Any, x1: Any, x2: Any = None, *, weighted: bool = True) -> Any:
        r"""Return the tangent kernel between inputs at times `t`; ``inf`` gives the final kernel.

        Parameters
        ----------
        t : array_like, any shape
        x1, x2 : array_like, shapes (m1, n_in), (m2, n_in)
            Inputs; `x2` is `x1` if not given.
        weighted : bool
            Whether each layer is weighted with its learning rate. The weighted kernel,
            ``sum of eta_l <df/dW_l, df'/dW_l>``, drives the outputs, ``df/dt = -(1/P) K (f - y)``; the other one is
            ``sum of <df/dW_l, df'/dW_l>``.

        Returns
        -------
        array, shape t.shape + (m1, m2, n_out, n_out)
            See `closed_forms.ntk`. For one output the last axes have length 1.
        """
        xp = arithmetic.namespace(self.s)
        x1 = self._inputs("x1", x1)
        x2 = x1 if x2 is None else self._inputs("x2", x2)
        shares, c = self._shares(weighted), self.strengths(t)
        return in_range(WHO, lambda: closed_forms.ntk(xp, c, self.u, self.v, shares, x1, x2), x1=x1, x2=x2)

    def layer_kernel(self, t: Any, layer: int, x1: Any, x2: Any = None) -> Any:
        """Return the kernel of the activations after `layer` layers (0: the inputs), shape t.shape + (m1, m2)."""
        meaning = "layers before the activations; 0: the inputs"
        layer = integer(WHO, "layer", layer, meaning=meaning, low=0, high=self.depth)
        x1 = self._inputs("x1", x1)
        x2 = x1 if x2 is None else self._inputs("x2", x2)
        xp = arithmetic.namespace(self.s)
        c, rates = self.strengths(t), self.rates
        return in_range(WHO, lambda: closed_forms.layer_kernel(xp, c, self.v, rates, layer, x1, x2), x1=x1, x2=x2)

    def kernel_alignment(self, t: Any, *, weighted: bool = True) -> Any:
        """Return the cosine between the tangent kernel on white inputs and the target's ``y y^T``, shape t.shape."""
        xp = arithmetic.namespace(self.s)
        shares = self._shares(weighted)
        sizes = self.u.shape[0], self.v.shape[0]
        return closed_forms.kernel_alignment(xp, self.strengths(t), self.s, shares, *sizes)

    def learning_times(self, fraction: float = 0.5) -> Any:
        """Return the times at which the modes reach `fraction` of their target strength, shape (k,); inf if never."""
        fraction = number(WHO, "fraction", fraction, meaning="of a mode's strength", domain="(0, 1)", example=0.5)
        xp = arithmetic.namespace(self.s)
        return self.flow.time_to(xp, DeepMode.State(self.start), loss=((1 - fraction) * self.s) ** 2 / 2)

    def _shares(self, weighted: bool) -> Any:
        weighted = boolean(WHO, "weighted", weighted, meaning="whether layers are weighted with their learning rates")
        return closed_forms.share(arithmetic.namespace(self.s), self.rates, weighted)

    def _inputs(self, name: str, x: Any) -> Any:
        x = real_array(WHO, name, x, meaning="inputs, one in each row")
        if x.ndim != 2 or x.shape[1] != self.v.shape[0]:
            raise ValueError(
                f"{WHO}: {name} has shape {tuple(x.shape)} but needs (m, {self.v.shape[0]}) (inputs, one in each "
                "row); reshape it"
            )
        return arithmetic.cast(arithmetic.namespace(self.s), x)
