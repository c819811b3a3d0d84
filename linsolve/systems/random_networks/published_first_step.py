"""Seleznova (2024), sections 1.3 and 3.2: the first step of gradient descent."""

from __future__ import annotations

from itertools import product

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.random_networks.published import gates, gaussian

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024", "ReLU networks with zero biases at initialization, widths of order M")


@formula(
    "3.2/A.3",
    "Theorem A.10, proof of case 1",
    "squared output, gradient and input of neighboring layers",
    quote=(
        r"$\mathbb{E}[\|\Delta \Theta(x, x)\|] \geq 4\eta \frac{\|\mathbf{x}^0\|^4}{n_0} a^{2L-1} \sum_{\ell=1}^L "
        r"\prod_{j=\ell+1}^{L-1} \left( 1 + \frac{1}{n_j} + O\left(\frac{1}{M^{3/2}}\right) \right) "
        r"\prod_{i=1}^{\ell-1} \left( 1 + \frac{5}{n_j} \right) \propto a^{2L-1}$"
    ),
    latex=(
        r"\mathbb E f^2 |\delta^{\ell+1}|^2 |x^{\ell-1}|^2 = |x^0|^4 \sigma_w^2 a^{2L-3} "
        r"\tfrac{n_{\ell-1}}{n_0^2} \mathcal X_{(1,\ell)} \mathcal X_{(\ell+1,L)}"
    ),
    verdict="incorrect",
    reason=(
        "the first product rests on (29), and the mean has a^{2L-2} n_{l-1}/n_0 for a^{2L-1}; the growth with "
        "a^{2L} and the theorem hold"
    ),
    follows="correlation_of_lengths",
    about=("NTKFirstStep",),
)
def neighboring_layers() -> Evidence:
    """Compare with a sum over gates and quadrature over weights of two layers of two ReLU units on one input."""
    points, share = gaussian(*[3] * 2, *[2] * 6)  # the first weights enter to the fourth power, all others squared
    into, between, out = points[:2], points[2:6].reshape(2, 2, -1), points[6:]
    variance, truth = 1.4, 0.0
    for low, high in product(gates(2), repeat=2):
        x = low[:, None] * into  # in units of the standard deviation for one input
        f = np.sum(high[:, None] * out * np.einsum("abk,bk->ak", between, x), axis=0)
        truth += share @ (f**2 * np.sum(x**2, axis=0)) / 16
    truth *= variance**2 * (variance / 2) ** 2  # variances of x^1 (twice), W^2 and W^3
    a = variance / 2
    return Evidence(truth, variance * a**3 * 2 * (1 + 5 / 2), 2 * a**5 * (1 + 5 / 2))


def _first_step(depth: int, width: int, a: float) -> float:
    """Return the mean relative change of the kernel in a first step over minus the rate, from the double sum."""
    k = np.arange(1, depth + 1)
    biases, later = a ** (depth - k), (1 + 5 / width) ** (depth - k)
    apart = k - k[:, None]  # m in rows, k in columns
    mixed = np.where(apart > 0, (1 + 5 / width) ** apart - (1 - 1 / width) ** np.maximum(apart, 0), 0) / 3
    weights = a ** (depth - 1)
    pairs = (weights * (1 + 5 / width) ** (k - 1) + biases)[:, None] * mixed * later
    return float(4 * weights * np.sum(pairs) / (depth * weights + np.sum(biases)))


@formula(
    "3.2/A.3",
    "Theorem A.10, proof of case 2",
    "decay of the change by the first step with depth",
    quote=(
        "Then we see that the upper bound on the changes of the NTK is proportional to $a^{2L} L^2$, which tends "
        "to zero with depth in the ordered phase"
    ),
    latex=r"\mathbb E \Delta\Theta/\mathbb E \Theta \sim a^L/M",
    verdict="incorrect",
    reason=(
        "the change decays as a^L/M, more slowly than the bound: the terms of order a^L of Lemma A.7 are left "
        "out; the limit 0 of the theorem holds"
    ),
    setting="ReLU networks with zero biases at initialization, widths of order M, ordered phase",
    about=("NTKFirstStepLimit",),
    tolerance=2e-3,
)
def decay_of_the_first_step() -> Evidence:
    """Compare with the ratio of the double sums of 61 and 60 layers of 100 ReLU."""
    a = 0.5
    ratio = _first_step(61, 100, a) / _first_step(60, 100, a)
    return Evidence(ratio, a, a**2 * (61 / 60) ** 2)


@formula(
    "1.3.1",
    "training dynamics of the NTK",
    "change by the first step at the edge of chaos",
    quote=(
        "We proved that the expected relative change of the NTK value during the first GD step tends to infinity "
        "with depth in the chaotic phase, to zero in the ordered phase, and grows exponentially with the "
        "depth-to-width ratio at the EOC"
    ),
    latex=r"\mathbb E \Delta\Theta/\mathbb E \Theta \sim F(L/M) \text{ at } \eta \sim 1/M",
    verdict="convention",
    reason=(
        "rates of order 1/M, as in the NTK parametrization; at the constant rate of Theorem 4.1 the change "
        "carries a further factor M"
    ),
    setting="ReLU networks with zero biases at initialization, widths of order M, first step of descent",
    about=("NTKFirstStepLimit",),
    tolerance=1e-3,
)
def first_step_at_the_edge() -> Evidence:
    """Compare with the double sums at the rate 1/M of 400 layers of 800 ReLU and 200 of 400, extrapolated in 1/M."""
    changes = [_first_step(depth, 2 * depth, 1.0) / (2 * depth) for depth in (100, 200, 400)]
    twice, once = (2 * changes[k + 1] - changes[k] for k in (1, 0))
    return Evidence(twice / once, 1.0)


FORMULAS = formula.formulas
