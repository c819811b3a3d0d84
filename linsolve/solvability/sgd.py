"""`sgd`: exact averages of minibatch SGD for a linear model on a data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.arguments import number
from linsolve.core.named_arguments import named_arguments
from linsolve.core.network_arguments import Network, read
from linsolve.core.trajectory import Deferred
from linsolve.numerics.checked import in_range
from linsolve.systems.kernel_regime.loss_spread import loss_deviation, without_spread
from linsolve.systems.kernel_regime.minibatch import (
    Averages,
    Model,
    averages,
    evaluated_steps,
    sampling,
    scaled,
    without_negative,
)

__all__ = ["sgd"]

FINEST = 1e-15  # directions of the samples below it are rounding


@named_arguments("sgd")
def sgd(weights: Any, data: Any, k: Any, *, batch: int, step: float, replacement: bool = False) -> Averages:
    r"""Return the exact averages of minibatch SGD for a linear model on a data set, over all runs.

    .. math:: W' = W - \frac{\mathrm{step}}{m} \sum_{\mu \in B} (W x_\mu - y_\mu) x_\mu^T, \qquad
        L = \frac{1}{2P} \sum_\mu |y_\mu - W x_\mu|^2 ,

    with an independent minibatch B of m of the P samples at each step. The mean of the weights descends L; mean loss
    and covariance of the weights obey the recursion of `linsolve.systems.kernel_regime.minibatch`.

    Parameters
    ----------
    weights : array_like, shape (n_out, n_in) or (n_in,), or a list of one layer
        Initial weights, the same in every run.
    data : pair of array_like
        Samples ``(X, Y)``, shapes (P, n_in) and (P, n_out) or (P,). For a bias append a column of ones to X.
    k : array_like of int, any shape
        Numbers of steps.
    batch : int
        Samples in a minibatch, m; without replacement at most P.
    step : float
        Length of one step, in units of time.
    replacement : bool
        Whether a sample may be drawn more than once into one minibatch.

    Returns
    -------
    Averages
        By name, with leading axes ``k.shape``:

        - ``w1`` and ``map``: mean of the weights, shape (n_out, n_in);
        - ``loss`` and ``train_loss``: mean of :math:`L`, including the part that no weights explain;
        - ``covariance``: of the weights over runs, shape (n_out, n_in, n_out, n_in);
        - ``loss_std``: standard deviation of :math:`L` over runs, for one output and inputs of rank up to 32.

        ``traj.t`` is ``k * step``, ``traj.route`` names the minibatches, and says so if the loss has grown because
        the averages diverge, ``traj.largest_step()`` is the step above which they do.

    Raises
    ------
    ValueError
        If shapes do not fit, entries are not finite, an entry of `k` is not a whole number, the step is not positive,
        the batch is no number of samples, there is more than one layer, or the covariance exceeds the memory (at its
        access).
    OverflowError
        If SGD diverges beyond the range of doubles; the message contains the number of steps until then, and the ratio
        of the step to the largest stable one.

    Notes
    -----
    Exact for: every data set and start, any batch size, with and without replacement within a minibatch, in
    O(P r^2) operations a step for inputs of rank r, for any number of outputs. Not for: epochs that pass through
    shuffled data, whose minibatches depend on each other (without replacement is the nearest case); several layers;
    momentum. The standard deviation of the loss needs the fourth moments of the weights, O(P r^4) operations a step at
    its first access (5 ms at r = 10, half a second at r = 31); for higher ranks and several outputs it is missing.

    Accuracy: equal to the average over all sequences of minibatches to 45 digits on small data sets; within 4 standard
    errors of sampled runs at each of 40 steps (``tests/solvability/test_sgd.py``).

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> traj = ls.sgd([0.0, 0.0], (X, [0.0, 1.0, 3.0]), [0, 10, 1000], batch=2, step=0.3)
    >>> traj.route
    'SGD, exact averages: minibatches of 2 of 3, without replacement'
    >>> traj["w1"].round(3).tolist()[-1], traj["loss"].round(4).tolist()  # L of least squares is 1/36
    ([[-0.167, 1.5]], [1.6667, 0.0631, 0.0318])
    >>> traj["loss_std"].round(4).tolist(), traj["covariance"][-1, 0, :, 0, :].round(4).tolist()
    ([0.0, 0.0177, 0.0044], [[0.0022, 0.0009], [0.0009, 0.0025]])
    >>> round(float(traj.largest_step()), 4)
    0.7201
    """
    who = "sgd"
    network = _single(who, weights, data)
    X, Y = (np.asarray(each, dtype=float) for each in data)
    Y = Y.reshape(len(X), -1)
    draw, counts = sampling(who, len(X), batch, replacement), evaluated_steps(who, k)
    h = number(who, "step", step, meaning="length of a step, in units of time", example=0.01)
    (w0,), span = network.weights, network.span
    unit = 2.0 ** np.round(np.log2(network.power[0]) / 2)  # of the inputs, so that products of them stay doubles
    best = (network.cross @ span / network.power * unit).T
    rows, start = X @ span / unit, span.T @ w0.T * unit - best
    rest = rows @ best - Y if len(X) > span.shape[1] else np.zeros_like(Y)
    length = in_range(who, lambda: np.asarray(h * unit * unit), step=h, X=unit)
    equal = all((v[:1] == v).all() for v in (X, Y))  # samples, and then runs
    phi = draw.factor(np) * (0.0 if equal else 1.0)
    model, start, own = scaled(np, Model(rows, rest, length, phi), start)
    unit = unit * own / model.unit  # of the inputs over that of the residuals: delta is in units of its inverse
    found = averages(who, np, model, start, counts, kept=False)

    def covariance() -> np.ndarray:
        c = averages(who, np, model, start, counts, every=True).covariance
        pairs = np.moveaxis(span @ c @ span.T, -3, -2)
        flat = without_negative(np, pairs.reshape(*counts.shape, w0.size, w0.size))
        return flat.reshape(pairs.shape) / unit / unit

    mean = w0 + np.swapaxes(span @ found.moved, -1, -2) / unit
    loss = np.asarray(np.sum(found.squares, axis=-1) / (2 * len(X)) * model.unit * model.unit)
    values = Deferred(w1=lambda: mean, map=lambda: mean, loss=lambda: loss, train_loss=lambda: loss)
    values |= {"covariance": covariance}
    missing = without_spread(model)
    if not missing:
        values |= {"loss_std": lambda: loss_deviation(who, np, model, start, counts, draw)}
    before = np.sum(model.residual(start) ** 2) / (2 * len(X)) * model.unit * model.unit
    route = f"SGD, exact averages: {draw}{_diverging(model) if (loss > before * (1 + 1e-9)).any() else ''}"
    return Averages(counts * h, route, values, model, h, missing)


def _diverging(model: Model) -> str:
    """Return the end of a route for a step beyond the largest one at which the averages stay bounded."""
    ratio = float(np.max(model.step_ratio()))
    return f"; diverging, the step is {ratio:.7g} times largest_step" if ratio > 1 else ""


def _single(who: str, weights: Any, data: Any) -> Network:
    """Return the checked arguments of a network of one layer."""
    try:
        alone = np.ndim(weights) <= 2
    except ValueError:  # layers of different shapes
        alone = False
    network = read(who, [weights], data, None, False, FINEST, ["weights"]) if alone else None
    network = network or read(who, weights, data, None, False, FINEST)
    if len(network.weights) > 1:
        raise ValueError(
            f"{who}: weights has {len(network.weights)} layers but must have one (averages over minibatches do not "
            "close for products of layers); pass the map W_L ... W_1, or linearize the network: ls.kernels.linearize"
        )
    return network
