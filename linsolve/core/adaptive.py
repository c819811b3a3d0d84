"""Gradient descent whose steps are adapted to the change of gradient and output."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import integer, number, unknown_name
from linsolve.core.flow import Flow
from linsolve.core.integrate import joined, parted
from linsolve.core.named_arguments import named_arguments
from linsolve.core.query import pose

__all__ = ["AdaptivePath", "adaptive_descent"]

HALVINGS = 20  # number of bisections of the interval that contains the largest admissible step
AT_REST = 1e-9  # velocity, relative to its largest value, at which descent ends


class AdaptivePath(NamedTuple):
    """Steps of gradient descent of adapted length.

    Parameters
    ----------
    t : ndarray, shape (steps + 1,)
        Times, the sums of the steps.
    state : State
        Weights at these times, the steps along the first axis.
    by_gradient : ndarray of bool, shape (steps,)
        Whether the change of the gradient limits the step; otherwise that of the output, or the end.

    Examples
    --------
    >>> import linsolve as ls
    >>> path = ls.adaptive_descent(ls.BalancedMode(s=2.0), 0.5, 1.0)
    >>> len(path.t) == len(path.state.a) == len(path.by_gradient) + 1
    True
    """

    t: np.ndarray
    state: Any
    by_gradient: np.ndarray


@named_arguments("adaptive_descent")
def adaptive_descent(
    flow: Flow,
    z0: Any,
    until: float,
    *,
    epsilon: float = 1e-4,
    output: str | None = None,
    change: float = 0.1,
    max_steps: int = 100_000,
) -> AdaptivePath:
    r"""Return gradient descent with the largest steps that change gradient and output little.

    A step from :math:`z_i` to :math:`z_{i+1} = z_i + h v_i`, with the velocity :math:`v`, minus the gradient times
    the learning rates, is admissible if

    .. math:: \frac{|v_i - v_{i+1}|^2}{|v_i| |v_{i+1}|} < \epsilon, \qquad \max |F_i - F_{i+1}| < \delta .

    Each step is the largest one below which all steps are admissible, found by doubling and bisection. For one linear
    mode of rate :math:`\lambda`

    .. math:: h \lambda = x = \frac{\sqrt{\epsilon^2 + 4 \epsilon} - \epsilon}{2},

    9.95e-3 at :math:`\epsilon = 10^{-4}`, and k steps equal the flow at :math:`-k \log(1 - x)/\lambda`: time runs fast
    by the factor :math:`-\log(1 - x)/x \approx 1 + \sqrt\epsilon/2`.

    Parameters
    ----------
    flow : Flow
        One network, without batch axes.
    z0 : State
        Initial weights.
    until : float
        Time at which descent ends; the last step is cut to it. Weights whose velocity has fallen to 1e-9 of its largest
        value stay where they are.
    epsilon : float
        Largest relative change of the gradient, squared.
    output : str, optional
        Observable or field of the state whose largest change is bounded by `change`: ``"F"`` of `LazyTwoLayer`.
    change : float
        Largest change of `output`.
    max_steps : int

    Returns
    -------
    AdaptivePath

    Raises
    ------
    ValueError
        If the flow has batch axes, or an argument is out of range.
    ArithmeticError
        If more than `max_steps` steps are needed.

    Notes
    -----
    Source: Geiger, Spigler, Jacot, Wyart (2020), (8), (9), with :math:`\epsilon = 10^{-4}`, :math:`\delta = 0.1`. The
    source does not print how the step is changed; results depend on it at relative order :math:`\sqrt\epsilon`.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> flow = ls.FrozenKernel(kernel=[[2.0]], y=[1.0])
    >>> path = ls.adaptive_descent(flow, [0.0], 3.0)
    >>> round(float(path.t[1] * 2.0), 7)  # the step times the rate
    0.0099501
    >>> bool(np.abs(path.state.f - flow(path.t, [0.0])["f"]).max() < 2e-3)
    True
    """
    who = "adaptive_descent"
    until = number(who, "until", until, meaning="time at which descent ends", domain="(0, inf)", example=1.0)
    epsilon = number(who, "epsilon", epsilon, meaning="change of the gradient", domain="(0, 1)", example=1e-4)
    change = number(who, "change", change, meaning="change of the output", domain="(0, inf)", example=0.1)
    most = integer(who, "max_steps", max_steps, meaning="of descent", example=100_000)
    problem = pose(flow, 0.0, z0, who)
    if problem.batch:
        rule = "must be one network (steps adapt to it); pick one"
        raise ValueError(f"{who}: z0 has batch shape {problem.batch} but {rule}")
    flow = flow.cast(np)
    names = {**type(flow).declared, **dict.fromkeys(flow.axes)}
    if output is not None and not (isinstance(output, str) and output in names):
        raise ValueError(unknown_name(who, "output", output, names))
    start = [arithmetic.to_numpy(v).astype(float) for v in problem.z0]
    shapes, kind = [v.shape for v in start], type(problem.z0)

    def velocity(z: np.ndarray) -> np.ndarray:
        return joined(flow.velocity(np, kind(*parted(z, shapes))))

    def value(z: np.ndarray) -> np.ndarray:
        if output is None:
            return np.zeros(1)
        state = kind(*parted(z, shapes))
        return np.ravel(getattr(state, output) if output in flow.axes else getattr(flow, output)(np, state))

    path, times, by_gradient, h = [joined(start)], [0.0], [], min(until, 1.0)
    fastest = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # a velocity beyond doubles is refused
        v = velocity(path[0])
        while times[-1] < until:
            z, size = path[-1], float(np.linalg.norm(v))
            if not np.isfinite(size):
                raise OverflowError(
                    f"{who}: z0 leads to squares of the velocity beyond the range of doubles at t = {times[-1]:.6g} "
                    "(initial weights); rescale the problem"
                )
            fastest = max(fastest, size)
            if not size > AT_REST * fastest:
                v, h, limited = 0 * v, until - times[-1], False
            else:
                h, limited = _largest(z, v, h, until - times[-1], velocity, value, value(z), epsilon, change)
            if len(times) > most or times[-1] + h == times[-1]:
                raise ArithmeticError(
                    f"{who}: until = {until:g} is too late (time); {len(times) - 1} steps have reached t = "
                    f"{times[-1]:.6g}; use a larger epsilon, or max_steps"
                )
            path.append(z + h * v)
            v = velocity(path[-1])
            times.append(until if h >= until - times[-1] else times[-1] + h)
            by_gradient.append(limited)
    return AdaptivePath(np.array(times), kind(*parted(np.stack(path), shapes)), np.array(by_gradient, dtype=bool))


def _largest(
    z: np.ndarray,
    v: np.ndarray,
    h: float,
    most: float,
    velocity: Any,
    value: Any,
    f: np.ndarray,
    epsilon: float,
    change: float,
) -> tuple[float, bool]:
    """Return the largest admissible step, at most `most`, and whether the gradient limits it."""

    def breaks(h: float) -> tuple[bool, bool]:
        """Return whether a step changes the gradient and the output too much."""
        later = z + h * v
        w = velocity(later)
        product = float(np.linalg.norm(v) * np.linalg.norm(w))
        turned = not float(np.sum((v - w) ** 2)) < epsilon * product
        return turned, not float(np.abs(value(later) - f).max()) < change

    h = min(h, most)
    while h > 0 and any(breaks(h)):  # an output beyond doubles admits no step
        h /= 2
    if h == most:
        return h, False
    low = h
    while 0 < low < most and not any(breaks(min(2 * low, most))):
        low = min(2 * low, most)
    if low == most:
        return most, False
    high = min(2 * low, most)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if any(breaks(middle)) else (middle, high)
    return low, breaks(high)[0]
