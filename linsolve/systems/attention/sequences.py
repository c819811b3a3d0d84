"""Linear attention on sequences: second moments of the data, exact or sampled, and simulated heads.

The squared error of a linear attention layer depends on its data through a few second moments. From these moments,
`followed` integrates the values, keys and queries of the heads themselves, for any token covariance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

__all__ = ["Moments", "first_time", "followed", "merged_pull", "population", "sampled", "separate_pull"]

BLOCK = 2**13  # sequences that are drawn at once
Pull: TypeAlias = Callable[..., tuple[np.ndarray, ...]]
Event: TypeAlias = Callable[[float, list[np.ndarray]], float]


class Moments(NamedTuple):
    r"""Averages over sequences, with :math:`\beta = \sum_n y_n x_n/N`.

    Parameters
    ----------
    linear : array, shape (d, d)
        :math:`\langle y\, \beta x_q^\top \rangle`.
    quadratic : array, shape (d, d, d, d)
        :math:`\langle \beta_a x_b \beta_c x_e \rangle` with :math:`x = x_q`.
    power : float
        :math:`\langle y^2 \rangle`.
    """

    linear: np.ndarray
    quadratic: np.ndarray
    power: float

    def pull(self, matrix: np.ndarray) -> np.ndarray:
        """Return minus the gradient of the loss with respect to the map."""
        return self.linear - np.einsum("abce,ce->ab", self.quadratic, matrix)

    def loss(self, matrix: np.ndarray) -> np.ndarray:
        """Return half the mean squared error of maps, whose leading axes are batch axes."""
        square = np.einsum("...ab,abce,...ce->...", matrix, self.quadratic, matrix, optimize=True)
        return self.power / 2 - np.einsum("...ab,ab->...", matrix, self.linear) + square / 2


def population(context: float, covariance: np.ndarray) -> Moments:
    """Return the averages over Gaussian tasks, tokens and queries, by the pairings of four Gaussian numbers.

    Two tokens of a context are the same with probability 1/N; then all three pairings of their four entries count.
    """
    pair = np.einsum("ab,ce->abce", covariance, covariance)
    same = pair + np.swapaxes(pair, 1, 2) + np.swapaxes(pair, 1, 3)
    of_beta = np.einsum("abbe->ae", pair + (same - pair) / context)
    return Moments(covariance @ covariance, np.einsum("ac,be->abce", of_beta, covariance), float(np.trace(covariance)))


def sampled(rng: np.random.Generator, count: int, context: int, covariance: np.ndarray) -> Moments:
    """Return the averages over `count` sequences, drawn token by token."""
    d, root = len(covariance), np.linalg.cholesky(covariance)
    linear, quadratic, power = np.zeros((d, d)), np.zeros((d * d, d * d)), 0.0
    for first in range(0, count, BLOCK):
        size = min(BLOCK, count - first)
        tokens, task = rng.normal(size=(size, context + 1, d)) @ root.T, rng.normal(size=(size, d))
        y = np.einsum("pnd,pd->pn", tokens, task)
        beta = np.einsum("pn,pnd->pd", y[:, :-1], tokens[:, :-1]) / context
        query = tokens[:, -1]
        features = (beta[:, :, None] * query[:, None, :]).reshape(size, d * d)
        linear += (y[:, -1] @ features).reshape(d, d)
        quadratic += features.T @ features
        power += float(y[:, -1] @ y[:, -1])
    return Moments(linear / count, quadratic.reshape(d, d, d, d) / count, power / count)


def merged_pull(moments: Moments, value: np.ndarray, key_query: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return minus the gradients of the loss by values (H,) and merged key-query matrices (H, d, d)."""
    pull = moments.pull(np.einsum("h,hab->ab", value, key_query))
    return np.einsum("hab,ab->h", key_query, pull), np.einsum("h,ab->hab", value, pull)


def separate_pull(moments: Moments, value: np.ndarray, key: np.ndarray, query: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return minus the gradients of the loss by values (H,), keys (H, d) and queries (H, d)."""
    pull = moments.pull(np.einsum("h,ha,hb->ab", value, key, query))
    return (
        np.einsum("ha,ab,hb->h", key, pull, query),
        np.einsum("h,ab,hb->ha", value, pull, query),
        np.einsum("h,ha,ab->hb", value, key, pull),
    )


def _flow(moments: Moments, pull: Pull, weights: Sequence[np.ndarray]) -> tuple[Callable, Callable]:
    """Return the functions that split a vector of all weights, and give its velocity at a time."""
    shapes = [np.shape(w) for w in weights]
    cuts = np.cumsum([np.size(w) for w in weights])[:-1]

    def parts(flat: np.ndarray) -> list[np.ndarray]:
        return [piece.reshape(shape) for piece, shape in zip(np.split(flat, cuts), shapes, strict=True)]

    return parts, lambda _, flat: _joined(pull(moments, *parts(flat)))


def _joined(weights: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(w) for w in weights])


def followed(
    moments: Moments, pull: Pull, weights: Sequence[np.ndarray], t: np.ndarray, rtol: float = 1e-10
) -> list[np.ndarray]:
    """Return the weights at increasing times `t`, from time 0 on, by DOP853 along `merged_pull` or `separate_pull`."""
    from scipy.integrate import solve_ivp

    parts, velocity = _flow(moments, pull, weights)
    now, states = _joined(weights), []
    for begin, end in pairwise([0.0, *t]):  # each time ends a step: no interpolation
        if end > begin:
            now = solve_ivp(velocity, (begin, end), now, "DOP853", rtol=rtol, atol=1e-3 * rtol).y[:, -1]
        states.append(now)
    return [np.stack(each) for each in zip(*map(parts, states), strict=True)]


def first_time(
    moments: Moments, pull: Pull, weights: Sequence[np.ndarray], until: float, events: Sequence[Event]
) -> float:
    """Return the first time at which an event, a function of time and weights, falls below 0, at most `until`."""
    from scipy.integrate import solve_ivp

    parts, velocity = _flow(moments, pull, weights)

    def terminal(event: Event) -> Callable[[float, np.ndarray], float]:
        def value(t: float, flat: np.ndarray) -> float:
            return event(t, parts(flat))

        value.terminal, value.direction = True, -1  # type: ignore[attr-defined]
        return value

    stops = [terminal(event) for event in events]
    return float(
        solve_ivp(velocity, (0.0, until), _joined(weights), "DOP853", rtol=1e-8, atol=1e-11, events=stops).t[-1]
    )
