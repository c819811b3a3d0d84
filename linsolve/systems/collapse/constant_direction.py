"""Dynamics along the vector 1 over classes: mean feature, mean output, bias, scatter coupled to the mean output."""

from __future__ import annotations

from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.systems.collapse.class_means import plane
from linsolve.systems.collapse.contrasts import averaged, norm, split
from linsolve.systems.collapse.metrics import bounded_ratio, class_grams, trace
from linsolve.systems.mode.biased_mode import BiasedMode
from linsolve.systems.two_layer.hidden_mode import HiddenMode

__all__ = ["ConstantMode", "Scatter", "coupling", "unevenness"]


def _crossed(xp: Any, a: Any) -> Any:
    """Return the norm of the block between the constant direction and contrasts, shape batch."""
    sums = xp.sum(a, axis=-1)
    sums = sums - xp.sum(sums, axis=-1, keepdims=True) / a.shape[-1]
    return xp.sqrt(xp.sum(sums * sums, axis=-1))


def coupling(xp: Any, z: Any, y: Any) -> Any:
    """Return the relative coupling of the constant direction to contrasts, shape batch."""
    means, product = class_grams(xp, z.gram_h, y)[0], averaged(xp, z.product, y)
    w, h = trace(xp, z.gram_w), trace(xp, z.gram_h) * y.shape[0] / y.shape[1]
    both = xp.sqrt(xp.abs(w * h))
    worst = 0 * both
    for block, size in (
        (z.gram_w, w), (means, h), (product, both), (xp.matrix_transpose(product), both),
    ):  # fmt: skip
        worst = xp.maximum(worst, bounded_ratio(xp, _crossed(xp, block), size))
    return worst


def unevenness(xp: Any, z: Any, y: Any) -> Any:
    """Return the standard deviation of the biases in units of the fitted bias 1/C, shape batch."""
    uneven = y.shape[0] * z.b - xp.sum(z.b, axis=-1, keepdims=True)
    return xp.sqrt(xp.sum(uneven * uneven, axis=-1) / y.shape[0])


class ConstantMode:
    """The constant mode as a `BiasedMode` in the plane spanned by ``w = W^T e`` and ``h = H1 e``, ``e = 1/sqrt(C)``.

    For a frozen bias it is a `HiddenMode` with target ``1 - sum b``.

    Parameters
    ----------
    xp : namespace
    rates : tuple
        ``m``, ``mu_g`` and ``eta_b N``.
    z : State
        State of the whole network.
    y : array, shape (C, N)
        Membership.
    used : array of bool, shape batch
        Members of the batch whose mode is evaluated; the others get zero weights.
    """

    def __init__(self, xp: Any, rates: tuple[Any, Any, Any], z: Any, y: Any, used: Any) -> None:
        classes = y.shape[0]
        grams = z.gram_w, averaged(xp, z.product, y), class_grams(xp, z.gram_h, y)[0]
        ww, wh, hh = (
            xp.where(used, xp.sum(g, axis=(-2, -1)) / classes, 0 * xp.astype(used, xp.float64)) for g in grams
        )
        bias = xp.where(used, xp.sum(z.b, axis=-1), xp.ones_like(ww))
        self.classes = classes
        self.idle = not arithmetic.holds(used)
        m, mu, rate = (value + 0 * ww for value in rates)
        self.frozen = rate == 0
        w, h = plane(xp, ww, wh, hh, (m, mu))
        self.mode = BiasedMode(m, mu, xp.where(self.frozen, xp.ones_like(rate), rate))
        one = self.frozen[..., None]
        at_rest = xp.where(self.frozen, xp.ones_like(bias), bias)
        self.start = self.mode.State(xp.where(one, 0 * w, w), xp.where(one, 0 * h, h), at_rest)
        self.held = xp.where(self.frozen, bias, xp.ones_like(bias))
        self.kept = HiddenMode(s=1 - self.held, eta_w=m, eta_h=mu)
        self.kept_start = self.kept.State(xp.where(one, w, 0 * w), xp.where(one, h, 0 * h))

    def excess(self, xp: Any) -> Any:
        """Return by how much the path of the mode exceeds the range of validity of `BiasedMode`."""
        return xp.zeros_like(self.start.B) if self.idle else self.mode.conditions(xp, self.start)["span"]

    def at(self, xp: Any, t: Any) -> tuple[Any, Any, Any, Any]:
        """Return the mode's contribution to an entry of ``W H``, ``W W^T``, ``H^T H`` and b, shape lead + batch."""
        z = self.start if self.idle else self.mode.solution(xp, t, self.start)
        pairs = (z.w, z.h), (z.w, z.w), (z.h, z.h)
        sizes = [xp.sum(a * b, axis=-1) / self.classes for a, b in pairs]
        if self.idle or not arithmetic.holds(self.frozen):
            return *sizes, z.B / self.classes
        kept = self.kept.solution(xp, t, self.kept_start)
        pairs = (kept.w, kept.h), (kept.w, kept.w), (kept.h, kept.h)
        sizes = [size + xp.sum(a * b, axis=-1) / self.classes for size, (a, b) in zip(sizes, pairs, strict=True)]
        return *sizes, xp.where(self.frozen, self.held + 0 * z.B, z.B) / self.classes


class Scatter(NamedTuple):
    r"""Scatter ``D = H - H1 Y`` of features within classes, and the mean output ``c = W^T 1/sqrt(C)`` coupled to it.

    Where ``W D = 0`` the scatter is constant. Otherwise, on hidden units orthogonal to those of class means and
    contrasts of outputs, it is a network of one output and target 0, ``c' = -D D^T c``, ``D' = -mu_s c c^T D`` (eq.
    (25) with all N columns in ``D``, hence without its ``m``). If ``g`` along ``D^T c`` is an eigenvector of ``D^T D``,
    it remains one: ``c`` and ``d = D g`` are a `HiddenMode` with ``s = 0``, rates 1 and ``mu_s``, and the rest of D is
    constant. Otherwise the direction of ``D^T c`` changes: ``D D^T`` and ``c c^T`` then are a `ZeroTarget`, but
    ``D^T D``, which the state needs, has no closed form.

    Parameters
    ----------
    gram : array, shape batch + (N, N)
        ``D^T D``.
    along : array, shape batch + (N,)
        ``g``; 0 where ``W D = 0``.
    ww, wh, hh : array, shape batch
        ``|c|^2``, ``c.d`` and ``|d|^2``.
    shared : array, shape batch
        Relative size of the products of the scatter with class means and with contrasts of outputs.
    seen : array, shape batch
        Relative size of the product of the scatter with the mean output.
    turning : array, shape batch
        Relative distance of ``D^T c`` from the nearest eigenvector of ``D^T D``.
    """

    gram: Any
    along: Any
    ww: Any
    wh: Any
    hh: Any
    shared: Any
    seen: Any
    turning: Any

    @classmethod
    def of(cls, xp: Any, z: Any, y: Any) -> Scatter:
        """Return the scatter of a state; `y` is the membership, shape (C, N)."""
        turned = xp.matrix_transpose
        rows, outputs = split(xp, z.gram_h, y)[0], split(xp, z.product, y)[0]
        gram = split(xp, turned(rows), y)[0]
        gram = (gram + turned(gram)) / 2
        classes, m = y.shape[0], y.shape[1] // y.shape[0]
        features = trace(xp, z.gram_h)
        both = xp.sqrt(xp.abs(trace(xp, z.gram_w) * features))
        whole = xp.sum(outputs, axis=-2, keepdims=True) / classes
        crossed = averaged(xp, turned(rows), y)
        shared = xp.maximum(
            bounded_ratio(xp, norm(xp, crossed) * xp.sqrt(xp.full_like(both, m)), features + 0 * both),
            bounded_ratio(xp, norm(xp, outputs - whole), both),
        )
        row = whole[..., 0, :] * xp.sqrt(xp.full_like(both, classes))[..., None]
        wh = xp.sqrt(xp.sum(row * row, axis=-1))
        along = bounded_ratio(xp, row, wh[..., None] + 0 * row)
        image = xp.sum(gram * along[..., None, :], axis=-1)
        hh = xp.sum(image * along, axis=-1)
        rest = image - hh[..., None] * along
        turning = bounded_ratio(xp, xp.sqrt(xp.sum(rest * rest, axis=-1)) * wh, features * both)
        ww = xp.sum(z.gram_w, axis=(-2, -1)) / classes
        return cls(gram, along, ww + 0 * wh, wh, hh + 0 * wh, shared, bounded_ratio(xp, wh, both), turning)

    def at(self, xp: Any, t: Any, used: Any, rate: Any) -> tuple[Any, Any, Any]:
        """Return the parts of ``W H`` (a row) and ``W W^T`` (a number), equal for every output, and ``D^T D``.

        Parameters
        ----------
        xp : namespace
        t : array
            Times, shape lead + batch.
        used : array of bool, shape batch
            Members whose mean output is coupled to the scatter; in the others it is constant.
        rate : array, shape batch
            ``mu_s``.
        """
        none = xp.zeros_like(self.wh)
        if not arithmetic.holds(used):
            return 0 * self.along, none, self.gram
        ww, wh, hh = (xp.where(used, v, none) for v in (self.ww, self.wh, self.hh))
        rate = rate + none
        mode = HiddenMode(s=none, eta_w=xp.ones_like(none), eta_h=rate)
        later = mode.solution(xp, t, mode.State(*plane(xp, ww, wh, hh, (mode.eta_w, rate))))
        ww, wh, change = (
            xp.sum(a * b, axis=-1) for a, b in ((later.w, later.w), (later.w, later.h), (later.h, later.h))
        )
        turn = (change - hh)[..., None, None] * (self.along[..., :, None] * self.along[..., None, :])
        return wh[..., None] * self.along, ww, self.gram + turn
