"""The tangent kernel against depth, by phase: exact sums, limits, printed formulas, and sampled networks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from linsolve.systems.random_networks import first_step, limits, printed, sampling
from linsolve.systems.random_networks.kernel_moments import log_moments, spread
from linsolve.systems.random_networks.mean_field import phase

__all__ = ["Line", "Sample", "Survey", "deepest_sampled", "survey"]

MAX_RATIO, MAX_LOG = 20, 300  # of depth over width, and of the logarithm of the kernel
EXPLICIT, WEIGHTS = 1000, 5e7  # explicit networks of a depth and all of their weights, at most
SLOPES = {"relu": 0.0, "linear": 1.0}


class Sample(NamedTuple):
    """Sampled means over random networks at some depths, with standard error and exact value."""

    depths: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    exact: np.ndarray

    def scores(self) -> np.ndarray:
        """Return the deviations of the means in standard errors."""
        return (self.mean - self.exact) / self.error


class Line(NamedTuple):
    r"""Networks of one variance of the weights, by depth 1 to L.

    Parameters
    ----------
    weight_variance, gain : float
        :math:`\sigma_w^2` and ``a``.
    found : str
        Phase.
    exact, limit : ndarray
        :math:`E\Theta^2/(E\Theta)^2` at this width, and in the limit of its phase.
    printed, printed_limit : ndarray
        Both by the printed formulas, for ReLU; otherwise empty.
    change : ndarray
        :math:`-E\Delta\Theta/(\eta E\Theta)` by the first step.
    sampled, explicit, stepped : Sample
        The dispersion over networks drawn layer by layer and over explicit ones, and the change over explicit ones.
    """

    weight_variance: float
    gain: float
    found: str
    exact: np.ndarray
    limit: np.ndarray
    printed: np.ndarray
    printed_limit: np.ndarray
    change: np.ndarray
    sampled: Sample
    explicit: Sample
    stepped: Sample


class Survey(NamedTuple):
    """Exact, asymptotic, published and sampled statistics of `linsolve ntk-stats`."""

    width: int
    inputs: int
    slope: float
    networks: int
    sampled_depth: int
    lines: tuple[Line, ...]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything by name, the lines' under their variance."""
        found = {name: np.asarray(getattr(self, name)) for name in self._fields if name != "lines"}
        for line in self.lines:
            key = np.format_float_positional(line.weight_variance, trim="-")  # all digits: no two lines share a name
            for name, value in line._asdict().items():
                parts = value._asdict() if isinstance(value, Sample) else {"": value}
                for part, array in parts.items():
                    found[f"{key} {name} {part}".strip()] = np.asarray(array)
        return found


def deepest_sampled(widths: np.ndarray, c: float, networks: int, error: float = 0.03) -> int:
    r"""Return the greatest depth at which the sampled mean of :math:`\Theta^2` over these networks is reliable.

    Its relative variance grows as :math:`e^{4 c \lambda}`, :math:`\lambda = L/M`: for ReLU :math:`e^{20 \lambda}`, so
    that :math:`e^{20 \lambda}/N` is to be below `error` squared, and never :math:`\lambda \ge 0.3`.
    """
    ratio = np.cumsum(1 / np.append(widths[1:], widths[-1]))
    return int(np.count_nonzero((ratio < 0.3 - 1e-12) & (np.exp(4 * c * ratio) <= error**2 * networks)))


def slope_of(activation: str) -> float:
    """Return the slope at negative arguments of a unit by its name or by a number."""
    if activation in SLOPES:
        return SLOPES[activation]
    try:
        slope = float(activation)
    except ValueError:
        slope = np.nan
    if not abs(slope) <= 1:
        raise ValueError(
            f"ntk-stats: activation = {activation!r} has no exact moments (piecewise linear unit); give relu, linear, "
            "or the slope of a leaky unit at negative arguments, between -1 and 1"
        )
    return slope


def _check(width: int, inputs: int, depth: int, networks: int, seed: int) -> None:
    for name, value, low, high, meaning in (
        ("width", width, 2, 10**9, "units of a hidden layer"),
        ("inputs", inputs, 1, 10**9, "input dimension"),
        ("depth", depth, 2, 10**5, "layers of weights"),
        ("networks", networks, 1000, 10**7, "random networks at each depth"),
        ("seed", seed, 0, math.inf, "seed of random networks"),
    ):
        if value < low:
            raise ValueError(f"ntk-stats: {name} = {value} must be at least {low} ({meaning}); say {low}")
        if value > high:
            raise ValueError(f"ntk-stats: {name} = {value} must be at most {high} ({meaning}); say {high}")
    if depth > MAX_RATIO * width:
        raise ValueError(
            f"ntk-stats: depth = {depth} is more than {MAX_RATIO} times the width (layers of weights); "
            f"give at most {MAX_RATIO * width}"
        )


def survey(
    width: int = 100,
    inputs: int | None = None,
    depth: int = 100,
    activation: str = "relu",
    weight_variances: Iterable[float] | None = None,
    networks: int = 50_000,
    seed: int = 0,
) -> Survey:
    r"""Compute dispersion and first change of the kernel by depth, :math:`|x| = 1`, standard weights, biases 0.

    Parameters
    ----------
    width, inputs, depth : int
        Units of a hidden layer, ``M``; dimension of the input, ``M`` by default; largest number of layers of weights.
    activation : str
        "relu", "linear" or a slope at negative arguments.
    weight_variances : iterable of float, optional
        :math:`\sigma_w^2`; by default for gains 0.8, 0.95, 1, 1.05, 1.25.
    networks : int
        Networks drawn at each sampled depth.
    seed : int

    Raises
    ------
    ValueError
        If an argument is invalid, or the units have no exact moments.
    """
    inputs = width if inputs is None else inputs
    _check(width, inputs, depth, networks, seed)
    slope = slope_of(activation)
    second, c = (float(v) for v in spread(slope))
    given = [a / second for a in (0.8, 0.95, 1.0, 1.05, 1.25)] if weight_variances is None else list(weight_variances)
    if not given or not all(0 < v < np.inf for v in given):
        raise ValueError(
            f"ntk-stats: weight_variance = {given} must be positive numbers (variance of the weights times fan-in); "
            f"the edge of chaos is at {1 / second:g}"
        )
    if len(set(given)) < len(given):
        raise ValueError(f"ntk-stats: weight_variance = {given} has a number twice (one line each); remove one")
    far = [v for v in given if depth * abs(np.log(v * second)) + c * depth / width > MAX_LOG]
    if far:
        raise ValueError(
            f"ntk-stats: weight_variance = {far[0]:g} leaves the range of numbers at depth {depth} (variance of the "
            f"weights times fan-in); give less depth or variances nearer to {1 / second:g}"
        )
    widths = np.concatenate([[inputs], np.full(depth - 1, width)]).astype(float)
    sampled_depth = deepest_sampled(widths, c, networks)
    seeds = np.random.default_rng(seed).spawn(len(given))
    lines = tuple(_line(rng, widths, v, slope, networks, sampled_depth) for rng, v in zip(seeds, given, strict=True))
    return Survey(width, inputs, slope, networks, sampled_depth, lines)


def _line(
    rng: np.random.Generator, widths: np.ndarray, variance: float, slope: float, networks: int, sampled_depth: int
) -> Line:
    second, c = (float(v) for v in spread(slope))
    gain, one = variance * second, np.asarray(1.0)
    numbers = (widths, np.asarray(variance), np.asarray(slope), np.ones_like(widths), np.ones_like(widths), one)
    logs = log_moments(np, *numbers)
    exact = np.exp(logs.log_dispersion(np))
    change = np.exp(first_step.log_change(np, *numbers) - logs.log_mean(np))
    ratio, biases, found = np.arange(1, len(widths) + 1) / widths[-1], widths[0] / widths[-1], phase(gain)
    limit = limits.dispersion(np, found, ratio, np.asarray(c), np.asarray(biases))
    as_printed = {
        "ordered": np.ones_like(ratio),
        "edge of chaos": printed.edge_limit(np, ratio, biases),
        "chaotic": printed.weights_limit(np, ratio),
    }
    relu = slope == 0
    draw = _Draw(rng, widths, variance, slope)
    grid = np.linspace(2, sampled_depth, 8) if sampled_depth >= 2 else np.empty(0)
    depths = np.unique(np.round(grid).astype(int))
    counts = {int(d): min(EXPLICIT, int(WEIGHTS / widths[-1] ** 2 / d)) for d in depths}
    few = np.array([d for d in depths if deepest_sampled(widths[:d], c, counts[d], 0.07) == d], dtype=int)
    pairs = [draw.explicit(d, counts[d]) for d in few]
    means = np.exp(logs.log_mean(np))
    return Line(
        variance, gain, found, exact, limit,
        printed.finite(widths, variance) if relu else np.empty(0),
        as_printed[found] if relu else np.empty(0),
        change,
        _dispersions(depths, [draw.layers(d, networks) for d in depths], exact),
        _dispersions(few, [kernel for kernel, _ in pairs], exact),
        _means(few, [step for _, step in pairs], change, means),
    )  # fmt: skip


class _Draw(NamedTuple):
    """Random networks of any depth up to that of `widths`."""

    rng: np.random.Generator
    widths: np.ndarray
    weight_variance: float
    slope: float

    def layers(self, depth: int, count: int) -> np.ndarray:
        """Return tangent kernels, drawn layer by layer."""
        norms = sampling.layer_by_layer(self.rng, count, self.widths[:depth], self.weight_variance, self.slope)
        weights, biases = norms.kernels(1.0, 1.0)
        return weights + biases

    def explicit(self, depth: int, count: int, block: int = 100) -> tuple[np.ndarray, np.ndarray]:
        """Return tangent kernels of explicit networks and their decrease by a first step, over its rate."""
        kernels, falls, one = [], [], np.ones(depth)
        for start in range(0, count, block):
            size = min(block, count - start)
            networks = first_step.draw(self.rng, size, self.widths[:depth], self.weight_variance, self.slope)
            here = networks.evaluate()
            kernels.append(here.kernel(one, one))
            falls.append(here.output * first_step.tangent(networks, here, one, one))
        return np.concatenate(kernels), np.concatenate(falls)


def _dispersions(depths: np.ndarray, kernels: list[np.ndarray], exact: np.ndarray) -> Sample:
    """Return mean squares over squared means, with the error of the ratio to first order."""
    found, errors = [], []
    for kernel in kernels:
        scaled = kernel / kernel.mean()
        ratio = np.mean(scaled**2)
        found.append(ratio)
        errors.append(np.std(scaled**2 - 2 * ratio * scaled, ddof=1) / np.sqrt(len(scaled)))
    return Sample(depths, np.array(found), np.array(errors), exact[depths - 1])


def _means(depths: np.ndarray, falls: list[np.ndarray], change: np.ndarray, means: np.ndarray) -> Sample:
    """Return means of the fall of the kernel over the exact mean of the kernel."""
    found = np.array([fall.mean() for fall in falls]) / means[depths - 1]
    errors = np.array([fall.std(ddof=1) / np.sqrt(len(fall)) for fall in falls]) / means[depths - 1]
    return Sample(depths, found, errors, change[depths - 1])
