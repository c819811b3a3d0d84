"""Which exact solution holds for a network of your own, how far the others are, and what they would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from linsolve.solvability.verdict import Verdict

__all__ = ["applies"]


def applies(
    weights: Any, data: Any, rates: Any = None, *, covariances: bool = False, until: float | None = None
) -> Verdict:
    r"""Return which exact solutions hold for a linear network on a data set, and how far the others are.

    .. math:: L = \frac{1}{2P} \sum_\mu |y_\mu - W_L \cdots W_1 x_\mu|^2, \qquad
        \dot W_l = -\eta_l\, \partial L / \partial W_l .

    Parameters
    ----------
    weights : sequence of array_like
        ``W1, ..., WL`` from the first layer, shape (n_1, n_in), to the last, shape (n_out, n_{L-1}) or, for one output,
        (n_{L-1},).
    data : pair of array_like
        Samples ``(X, Y)``, shapes (P, n_in) and (P, n_out) or (P,), taken as they are (a network without biases is not
        centered); with ``covariances=True`` the moments ``(Sigma_xx, Sigma_yx) = (X^T X / P, Y^T X / P)``.
    rates : array_like, shape (L,), optional
        Learning rates, positive; 1 by default. For the loss summed over samples multiply them by P.
    covariances : bool
        What `data` holds.
    until : float, optional
        Horizon of error bounds and measurements, in units of time; by default where the loss that can be removed has
        fallen to 5 %, or at a saddle. At most 1e6 time constants of the fastest mode: the network is integrated so far,
        which takes minutes.

    Returns
    -------
    Verdict
        Its flows run in the network's time.

    Raises
    ------
    ValueError, TypeError
        If shapes do not fit, entries are not finite, moments are none, or rates are not positive.

    Notes
    -----
    A condition holds where its relative distance is at most 1e-9. Directions of the inputs outside the span of the
    data, and those that neither start nor target has, do not count: the first layer is frozen there.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> rng = np.random.default_rng(0)
    >>> u, w = rng.normal(size=3), rng.normal(size=(3, 2))
    >>> verdict = ls.applies([w, u], ([[1.0, 2.0], [2.0, 4.0]], [1.0, 3.0]), rates=[0.5, 2.0])
    >>> verdict.exact[0]
    'TwoLayer'
    >>> flow, z0 = verdict.flow()
    >>> flow(float("inf"), z0)["output"].round(6).item() == flow.y.round(6).item()
    True
    """
    from linsolve.solvability.decision import judge  # the package opens without what only this needs

    return judge(weights, data, rates, covariances, until)
