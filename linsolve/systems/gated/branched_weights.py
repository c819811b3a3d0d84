"""Raw weights of two-layer branches whose outputs are added, gated by contexts; late fusion has one context."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from linsolve.core.flow import Flow
from linsolve.core.network import layer_scales
from linsolve.core.parameters import parameter

__all__ = ["BranchedWeights", "Wire", "branched_weights"]


class Wire(NamedTuple):
    """Inputs and contexts of a branch.

    Parameters
    ----------
    columns : tuple of int
        First column of the inputs that the branch reads, and the column after the last.
    contexts : tuple of int
        Contexts in which the branch acts.
    headed : bool
        Whether the branch has one head for each of its contexts; else one for all of them.
    """

    columns: tuple[int, int]
    contexts: tuple[int, ...]
    headed: bool


class BranchedWeights(Flow):
    r"""Gradient flow of the weights of gated branches, for `integrate` and `first_zero`; see `branched_weights`.

    .. math:: L = \tfrac12 \sum_k \mathrm{tr}\,(S_k - M_k) \Sigma_k (S_k - M_k)^\top, \qquad
        M_k = \sum_b g_{bk} W_2^{bk} W_1^b E_b ,

    where :math:`E_b` selects the inputs of branch b, and :math:`g_{bk}` is 1 in the contexts in which it acts.

    Parameters
    ----------
    target : array_like, shape (context, n_out, n_in)
        Regression of the outputs on all inputs in each context, :math:`S_k`.
    covariance : array_like, shape (context, n_in, n_in)
        Second moments of the inputs in each context times its frequency, :math:`\Sigma_k`.
    rates : array_like, shape (2,)
        Learning rates of first layers and heads.
    """

    target: Any = parameter("S", "regression in each context", axes=("context", "n_out", "n_in"))
    covariance: Any = parameter(r"\Sigma", "second moments of the inputs", axes=("context", "n_in", "n_in"))
    rates: Any = parameter(r"\eta", "learning rates of the layers", axes=("layer",), domain="(0, inf)")

    wires: ClassVar[tuple[Wire, ...]] = ()

    def __reduce__(self) -> Any:
        # the class of these wires is made on demand, and has no name in the module
        return branched_weights, (self.wires, self.target, self.covariance, self.rates)

    def weight_scales(self, z0: Any, most: float) -> list[float]:
        """Return the size of each field of the state, for `integrate`: at most `most`; see `layer_scales`."""
        goal, pairs = float(np.abs(self.target).max()), zip(z0[::2], z0[1::2], strict=True)
        return [size for pair in pairs for size in layer_scales(pair, goal, most)]

    def _paths(self, z: Any) -> Iterator[tuple[Any, Any, tuple[Any, ...], bool]]:
        """Yield first layer, heads, the place of the branch in the maps of all contexts, and whether it has heads."""
        for k, (columns, contexts, headed) in enumerate(self.wires):
            first, last = z[2 * k], z[2 * k + 1]
            # a slice is several times as fast as a list
            run = contexts == tuple(range(contexts[0], contexts[-1] + 1))
            rows: Any = slice(contexts[0], contexts[-1] + 1) if run else list(contexts)
            place = (..., rows, slice(None), slice(*columns))
            yield first[..., None, :, :], last if headed else last[..., None, :, :], place, headed

    def _added(self, found: Any, z: Any, sign: float) -> Any:
        """Add the maps of all branches to `found` in place, shape batch + (context, n_out, n_in)."""
        for first, last, place, _ in self._paths(z):
            found[place] += sign * (last @ first)
        return found

    def maps(self, z: Any) -> np.ndarray:
        """Return the map of each context, shape batch + (context, n_out, n_in)."""
        return np.asarray(self._added(np.zeros(z[0].shape[:-2] + self.target.shape), z, 1.0))

    def _gap(self, z: Any) -> Any:
        """Return the distance of the maps from the regressions."""
        batch, target = z[0].shape[:-2], self.target
        return self._added(np.broadcast_to(target, batch + target.shape).copy(), z, -1.0)

    def loss(self, xp: Any, z: Any) -> Any:
        """Return the loss minus that of the regressions."""
        gap = self._gap(z)
        return np.sum((gap @ self.covariance) * gap, axis=(-3, -2, -1)) / 2

    def velocity(self, xp: Any, z: Any) -> Any:
        """Return minus the gradient of the loss times the rates."""
        pull, moves, rates = self._gap(z) @ self.covariance, list[Any](), self.rates
        for first, last, place, headed in self._paths(z):
            rho = pull[place]
            if not headed and rho.shape[-3] > 1:
                rho = np.sum(rho, axis=-3, keepdims=True)
            turn, move = rho @ np.swapaxes(first, -1, -2), np.swapaxes(last, -1, -2) @ rho
            move = np.sum(move, axis=-3) if headed else move[..., 0, :, :]
            moves += [rates[0] * move, rates[1] * (turn if headed else turn[..., 0, :, :])]
        return self.State(*moves)


@cache
def _wired(wires: tuple[Wire, ...]) -> type[BranchedWeights]:
    """Return the flow of these branches, whose State has the fields first_1, last_1, first_2, ..."""
    axes: dict[str, tuple[str, ...]] = {}
    for k, wire in enumerate(wires, start=1):
        axes[f"first_{k}"] = (f"width_{k}", f"n_in_{k}")
        axes[f"last_{k}"] = (f"context_{k}",) * wire.headed + ("n_out", f"width_{k}")
    state: Any = namedtuple("State", axes)  # type: ignore[misc]
    state.__reduce__ = lambda self: (_state, (wires, tuple(self)))  # type: ignore[method-assign, arg-type]
    about = {"State": state, "axes": axes, "__doc__": BranchedWeights.__doc__, "wires": wires}
    return type("BranchedWeights", (BranchedWeights,), about)


def _state(wires: tuple[Wire, ...], fields: tuple[Any, ...]) -> Any:
    """Return a state of these branches, for `pickle`."""
    return _wired(wires).State(*fields)  # type: ignore[attr-defined]


def branched_weights(wires: Sequence[Wire], target: Any, covariance: Any, rates: Any = (1.0, 1.0)) -> Any:
    """Return the gradient flow of the weights of gated branches.

    Parameters
    ----------
    wires : sequence of Wire
        Inputs and contexts of each branch.
    target, covariance, rates : array_like
        As for `BranchedWeights`.

    Returns
    -------
    BranchedWeights
        Its state has the fields ``first_1, last_1, first_2, ...``: first layers, shape (width, n_in of the branch), and
        heads, shape (n_out, width) or, for one head a context, (contexts of the branch, n_out, width).

    Examples
    --------
    >>> import linsolve as ls
    >>> from linsolve.systems.gated.branched_weights import Wire, branched_weights
    >>> shared, private = Wire((0, 1), (0, 1), True), Wire((0, 1), (0,), False)
    >>> flow = branched_weights([shared, private], [[[2.0]], [[2.0]]], [[[0.5]], [[0.5]]])
    >>> start = flow.State([[0.2]], [[[0.1]], [[0.1]]], [[0.1]], [[0.1]])
    >>> flow.maps(ls.integrate(flow, 40.0, start).state).round(6).ravel().tolist()
    [2.0, 2.0]
    """
    return _wired(tuple(wires))(target=target, covariance=covariance, rates=rates)
