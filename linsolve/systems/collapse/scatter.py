"""Scatter of features within classes on hidden units of its own: unseen, or seen by the average output alone."""

from __future__ import annotations

from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.systems.collapse.contrasts import averaged, split
from linsolve.systems.collapse.decoupled_modes import plane
from linsolve.systems.collapse.metrics import bounded_ratio, trace
from linsolve.systems.two_layer.hidden_mode import HiddenMode

__all__ = ["Scatter"]


def _size(xp: Any, a: Any) -> Any:
    return xp.sqrt(xp.sum(a * a, axis=(-2, -1)))


class Scatter(NamedTuple):
    r"""Scatter ``D = H - H1 Y`` of features within classes, and the average output ``c = W^T 1/sqrt(C)`` that sees it.

    Where ``W D = 0`` it rests. Where contrasts of outputs do not see it, and neither class means nor contrasts have its
    hidden units, it is a network of one output and target 0, ``c' = -D D^T c``, ``D' = -mu_s c c^T D``: in the
    rates of eq. (25) the ``m`` of ``W' = -m W H2 H2^T`` with ``H2`` one sample a class is 1 here, where ``D`` has all N
    columns. If ``g`` along ``D^T c`` is an eigenvector of ``D^T D`` it remains one: ``c`` and ``d = D g`` are a
    `HiddenMode` with ``s = 0``, rates 1 and ``mu_s``, the rest of D rests. Otherwise ``D^T c`` turns.

    Parameters
    ----------
    gram : array, shape batch + (N, N)
        ``D^T D``.
    along : array, shape batch + (N,)
        ``g``; 0 where ``W D = 0``.
    ww, wh, hh : array, shape batch
        ``|c|^2``, ``c.d`` and ``|d|^2``.
    shared : array, shape batch
        What class means and contrasts of outputs see of the scatter, relative.
    seen : array, shape batch
        What the average output sees.
    turning : array, shape batch
        How far ``D^T c`` is from an eigenvector of ``D^T D``.
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
            bounded_ratio(xp, _size(xp, crossed) * xp.sqrt(xp.full_like(both, m)), features + 0 * both),
            bounded_ratio(xp, _size(xp, outputs - whole), both),
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

    def followed(self, xp: Any, t: Any, used: Any, rate: Any) -> tuple[Any, Any, Any]:
        """Return what ``W H`` and ``W W^T`` have of it, a row and a number for every output, and ``D^T D``.

        Parameters
        ----------
        xp : namespace
        t : array
            Times, shape lead + batch.
        used : array of bool, shape batch
            Where the average output sees it; elsewhere it rests.
        rate : array, shape batch
            ``mu_s``.
        """
        none = xp.zeros_like(self.wh)
        if not arithmetic.to_numpy(used).any():
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
