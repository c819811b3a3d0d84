"""Phase diagrams of generalization in time: double descent with the optimal stopping time, and grokking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.interpolate import BarycentricInterpolator
from scipy.special import erfinv

from linsolve.plot.style import COLORS
from linsolve.studies.phases.diagrams import Axis, Curve, Diagram, Mark
from linsolve.studies.phases.two_layer import centers
from linsolve.systems.generalization.in_time import GeneralizationInTime
from linsolve.systems.generalization.marchenko_pastur import bulk, mean_decay, weighted_decay
from linsolve.systems.generalization.modes import Mode

__all__ = ["double_descent", "errors_on_grid", "grokking"]

NOISE = 0.25  # variance of the label noise over the mean square of the teacher
POINTS = 64  # Chebyshev points in log time
SHARE = 0.95  # of samples within the tolerance: learned
QUANTILE = 2 * erfinv(SHARE) ** 2  # tolerance over the mean squared error at which the share is reached
DELAYS = {2: "-", 5: (0, (4, 2.5)), 20: (0, (1.2, 1.2))}  # ratios of times, with their line styles
SOURCE = "After Advani, Saxe and Sompolinsky (2020)"


def double_descent(cells: int, rng: np.random.Generator) -> Diagram:
    r"""Return the test error over samples per input and time, for a label noise of a quarter of the signal.

    Boundaries: the optimal stopping time, :math:`\gamma \sigma^2 [S(t) - S(2t)] = D_0 K(2t)`, after which the test
    error rises; and the time after which it is worse than that of the untrained model.
    """
    ratio, t = centers(-1, 1, cells, log=True), centers(-2, 4, cells, log=True)
    found = errors_on_grid(GeneralizationInTime(1.0, ratio, noise_variance=NOISE), t)
    least = np.argmin(found, axis=0)
    line = np.geomspace(ratio[0] / 1.1, ratio[-1] * 1.1, 161)
    stop = GeneralizationInTime(1.0, line, noise_variance=NOISE).optimal_stopping_time()
    return Diagram(
        name="double-descent",
        title="Double descent in time: test error of a linear model",
        x=Axis("x", ratio, r"samples per input  $n/d$", log=True),
        y=Axis("y", t, r"training time  $t$   (units of 1/learning rate)", log=True),
        values=np.log10(found),
        label=r"$\log_{10}$ of the mean squared test error   ($|w_*|^2 = 1$, $\sigma^2 = 1/4$)",
        source="Curves: exact, $\\gamma\\sigma^2[S(t) - S(2t)] = |w_*|^2 K(2t)$ and $E(t) = E(0)$, $\\gamma = d/n$, "
        "$K = -S'$,\n$K(\\tau) = e^{-(1+\\gamma)\\tau} I_1(2\\sqrt{\\gamma}\\tau)/(\\sqrt{\\gamma}\\tau)$. "
        f"Map: averages over the Marchenko-Pastur law, Gaussian inputs.\n{SOURCE}.",
        sides={"optimal stopping": np.arange(cells)[:, None] > least, "untrained": found > 1 + NOISE},
        curves=(
            Curve("optimal stopping time", line, stop, "optimal stopping", {"linewidth": 2.6}),
            Curve(
                "worse than without training (above)",
                *_worse(),
                "untrained",
                {"color": COLORS["black"], "linestyle": (0, (4, 2.5))},
            ),
        ),
        notes=(Mark("signal is learned", 0.25, 0.05), Mark("noise is fitted", 3.3, 300.0)),
    )


def errors_on_grid(law: GeneralizationInTime, t: np.ndarray) -> np.ndarray:
    """Return test errors of a law for an array of samples on a grid of ascending times, shape (times, samples).

    At Chebyshev points of log t, by every second node of the quadrature, which all times share, and interpolated:
    within 1e-6 of `GeneralizationInTime.test_error`.
    """
    low, high = np.log(t[[0, -1]])
    nodes = (low + high) / 2 - (high - low) / 2 * np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)
    middle = np.full(law.samples.shape, np.exp((low + high) / 2))
    found = bulk(np, law.dimension, law.samples, middle)
    weights, values = 2 * found.weights[:, ::2], found.values[:, ::2]
    counted = np.flatnonzero((weights > 1e-10 * weights.max()).any(axis=0))
    kept = slice(counted[0], counted[-1] + 1)
    weights, values, sizes = weights[:, kept], values[:, kept], law._sizes()
    parts = [np.sum(weights * Mode.of(np, values, np.exp(s)).weights(*sizes), axis=-1) for s in nodes]
    interpolant = BarycentricInterpolator(nodes, np.array(parts), axis=0)
    return interpolant(np.log(t)) + law.floor() + law.noise_variance


def _worse() -> tuple[np.ndarray, np.ndarray]:
    """Return samples per input and times at which the test error passes that of the untrained model."""
    gap = np.geomspace(1e-9, NOISE, 60)
    line = np.concatenate([1 - NOISE + gap, (1 + NOISE - gap)[-2::-1]])  # between the values at which the limit passes
    law = GeneralizationInTime(1.0, line, noise_variance=NOISE)
    start = np.log(law.optimal_stopping_time())
    times = _root(lambda s: law.test_moments(np, np.exp(s))[0] - 1, start, start + 30)
    return np.pad(line, 1, mode="edge"), np.pad(times, 1, constant_values=1e9)


def _root(function: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Return the exponential of the zero of a rising function, by bisection."""
    for _ in range(45):
        middle = (low + high) / 2
        above = function(middle) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.exp(low)


def grokking(cells: int, rng: np.random.Generator) -> Diagram:
    r"""Return the delay of test accuracy behind train accuracy over samples per input and tolerance, without noise.

    A set is learned when 95 % of its squared errors are within the tolerance :math:`\epsilon`: at
    :math:`D_0 K(2t) = \epsilon/3.84` for the training set, :math:`D_0 S(2t) = \epsilon/3.84` for new samples.
    Boundaries: delays of equal ratio r, :math:`K(2t) = S(2rt)`; and the floor :math:`D_0 (1 - n/d) = \epsilon/3.84`,
    below which the test set is never learned; :math:`3.84 = 1.96^2` is the 95 % limit of a squared Gaussian.
    """
    ratio, tolerance = centers(-0.15, 0.45, cells, log=True), centers(-5, 0, cells, log=True)
    t, d = np.geomspace(1e-3, 1e12, 400), np.array(1.0)
    level = np.log(tolerance / QUANTILE)
    delay = np.array([_delay(d, n, t, level) for n in ratio]).T
    floor = np.append(1 - np.geomspace(1e-7, 0.9, 200), 0.1)[::-1]
    never = np.isnan(delay)
    with np.errstate(invalid="ignore"):
        sides = {f"{r}": (delay > np.log10(r)) | never for r in DELAYS} | {"never": never}
    return Diagram(
        name="grokking",
        title="Grokking: 95 % test accuracy after 95 % train accuracy",
        x=Axis("x", ratio, r"samples per input  $n/d$", log=True),
        y=Axis("y", tolerance, r"tolerance  $\epsilon$   (squared error that counts as correct, over $D_0$)", log=True),
        values=delay,
        label=r"$\log_{10}\; t_{test}/t_{train}$",
        source="Curves: exact, $K(2t) = S(2rt) = \\epsilon/(3.84\\,D_0)$ and $1 - n/d = \\epsilon/(3.84\\,D_0)$; "
        "$3.84 = 1.96^2$,\nthe 95 % limit of a Gaussian. Map: inverses of $K$ and $S$, interpolated. No label noise; "
        "$\\gamma = d/n$,\n$D_0 = E|w(0) - w_*|^2$. After Levi, Beck and Bar-Sinai (2024).",
        sides=sides,
        curves=(
            *(
                Curve(f"$t_{{test}} = {r}\\, t_{{train}}$", *_equal(r), f"{r}", {"linestyle": style})
                for r, style in DELAYS.items()
            ),
            Curve(
                "never (left):  $1 - n/d = \\epsilon/(3.84\\,D_0)$", floor, (1 - floor) * QUANTILE, "never",
                {"color": COLORS["vermilion"], "linewidth": 2.6},
            ),
        ),
        notes=(Mark("never", 0.84, 1e-3),),
    )  # fmt: skip


def _delay(d: np.ndarray, n: float, t: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return the logarithm of the ratio of the times at which S and K fall to a level; nan if S never does."""
    samples = np.array(n)
    with np.errstate(divide="ignore"):
        test, train = (np.log(kernel(np, d, samples, 2 * t)) for kernel in (mean_decay, weighted_decay))
    kept = [np.append(True, (curve[1:] < curve[:-1]) & np.isfinite(curve[1:])) for curve in (test, train)]
    found = [
        np.interp(-level, -curve[k], np.log10(t[k]), right=np.nan) for curve, k in zip((test, train), kept, strict=True)
    ]
    return found[0] - found[1]


def _equal(ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Return samples per input and tolerances at which the two times have a given ratio."""
    t, d = np.geomspace(1e-4, 1e4, 160), np.array(1.0)

    def too_many(s: np.ndarray) -> np.ndarray:
        """Return K(2t) - S(2 r t), which rises with the logarithm of the number of samples; 1 where both underflow."""
        test = mean_decay(np, d, np.exp(s), 2 * ratio * t)
        return np.where(test > 0, weighted_decay(np, d, np.exp(s), 2 * t) - test, 1.0)

    samples = _root(too_many, np.full(t.shape, np.log(1e-3)), np.full(t.shape, np.log(30.0)))
    return samples, weighted_decay(np, d, samples, 2 * t) * QUANTILE
