"""The phase diagrams of random networks at the start: order and chaos, and the dispersion of the tangent kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.plot.style import COLORS
from linsolve.studies.phases.diagrams import Axis, Curve, Diagram, Mark
from linsolve.studies.phases.two_layer import centers
from linsolve.systems.random_networks import limits, mean_field
from linsolve.systems.random_networks.kernel_moments import moments, spread

__all__ = ["chaos", "dispersion"]

SELEZNOVA = "Seleznova (2024)"
WIDTH = 2000  # of the networks of the map of dispersions: all corrections to the limit are of the order of 1/WIDTH
LEVELS = (1.2, 1.5, 3, 10, 30)


def chaos(cells: int, rng: np.random.Generator) -> Diagram:
    """Return the growth of a small distance of two inputs per deep layer, and the edge of chaos where it is 1."""
    weights, biases = centers(0.25, 3.0, cells), centers(0.0, 1.0, cells)
    plane = weights[None, :], biases[:, None]
    erf, relu = (spreading(mean_field.ACTIVATIONS[name], *plane) for name in ("erf", "relu"))
    edge = mean_field.edge_of_chaos(np, np.linspace(0.0, 4.0, 400) ** 2)
    return Diagram(
        name="chaos",
        title="Order and chaos of infinitely wide networks at the start",
        x=Axis("x", weights, r"variance of the weights times fan-in  $\sigma_w^2$", log=False),
        y=Axis("y", biases, r"variance of the biases  $\sigma_b^2$", log=False),
        values=np.log(erf),
        label=r"erf: ln of the growth of small squared distances by a layer",
        source="Curves: exact, $\\chi_1 = \\sigma_w^2\\,E\\phi'^2 = 1$; for erf "
        "$\\sigma_w^2 = \\pi\\sqrt{1 + 4q}/4$ and "
        "$\\sigma_b^2 = q - \\sigma_w^2\\,(2/\\pi)\\,\\arcsin\\,(2q/(1 + 2q))$.\n"
        "Map: covariances of two inputs of cosine $1 - 10^{-8}$ in the 401st iterated layer.\n"
        f"After {SELEZNOVA}, section 3.1 and appendix E.2, corrected.",
        sides={"erf": erf > 1, "relu": relu > 1},
        curves=(
            Curve(r"edge of chaos, erf units (from $\sigma_w^2 = \pi/4$)", *edge, "erf"),
            Curve(
                r"edge of chaos, ReLU: $\sigma_w^2 = 2$",
                np.full(2, 2.0),
                np.array([0.0, 1.0]),
                "relu",
                {"linestyle": (0, (4, 2.5)), "color": COLORS["purple"]},
            ),
        ),
        notes=(Mark("ordered", 0.85, 0.6), Mark("chaotic", 2.5, 0.15)),
        diverging=True,
    )


def spreading(unit: mean_field.Activation, weight_variance: Any, bias_variance: Any, layers: int = 400) -> np.ndarray:
    """Return the growth of a small squared distance of two inputs in one layer, after many iterated layers."""
    q = weight_variance + bias_variance
    for _ in range(layers):
        q = weight_variance * unit.averages(np, q, q, q)[0] + bias_variance
    near = q * (1 - 1e-8)
    return weight_variance * (unit.averages(np, q, q, q)[0] - unit.averages(np, q, q, near)[0]) / (q - near)


def dispersion(cells: int, rng: np.random.Generator) -> Diagram:
    """Return the dispersion of ReLU networks of constant width over depth and gain, and the levels of its limit."""
    ratio, gain = centers(0.0, 1.0, cells), centers(0.99, 1.01, cells)
    depths = np.maximum(np.round(ratio * WIDTH).astype(int), 1)
    found = moments(np.full((cells, depths[-1]), WIDTH), 2 * gain).log_dispersion(np)[:, depths - 1]
    return Diagram(
        name="dispersion",
        title=r"Dispersion of the tangent kernel,  $E\Theta^2/(E\Theta)^2$",
        x=Axis("x", ratio, r"depth over width  $\lambda = L/M$", log=False),
        y=Axis("y", gain, r"gain of a layer  $a = \sigma_w^2\,E\phi'^2 = \sigma_w^2/2$", log=False),
        values=found / np.log(10),
        label=r"$\log_{10}\,E\Theta^2/(E\Theta)^2$",
        source=f"Curves: exact limit of great depth and width at fixed $L \\ln a$. Map: exact sums over layers,\n"
        f"ReLU, $M = n_0 = {WIDTH}$, $|x| = 1$, standard weights: the edge of chaos, $a = 1$, is as wide\nas $1/L$. "
        f"After {SELEZNOVA}, section 3.2, theorems 3.1 and 3.2, corrected.",
        sides={f"{level:g}": found > np.log(level) for level in LEVELS},
        curves=tuple(curve for level in LEVELS for curve in level_curves(level)),
        notes=(Mark("chaotic", 0.68, 1.0075), Mark("ordered", 0.68, 0.9943)),
    )


def level_curves(level: float) -> tuple[Curve, ...]:
    """Return the curves on which the limit has this dispersion, for `WIDTH`, with the places of their names."""
    nu, one = np.sinh(np.linspace(-np.arcsinh(60.0), np.arcsinh(60.0), 801)), np.ones(801)
    _, c = spread(np.asarray(0.0))
    low, high = 0 * one, 2.0 * one
    for _ in range(60):
        middle = (low + high) / 2
        above = limits.crossover(np, middle, c, one, nu) > level
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    nu, ratio = nu[high < 2], high[high < 2]
    gain = np.exp(nu / (ratio * WIDTH))
    name, label = f"{level:g}", "equal dispersion" * (level == LEVELS[0])
    if level < 2:
        return (Curve(label, ratio, gain, name, inline=name),)
    bend = int(np.argmax(gain > 1.003))  # not at the left of the map, where names are: the name goes to the bend
    right = Curve(label, ratio[: bend + 1], gain[: bend + 1], name, inline=name)
    return right, Curve("", ratio[bend:], gain[bend:], name)
