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
    verdict="holds under a condition",
    reason=(
        "as a lower bound, from a few layers on: the mean change, gates held, is larger by a factor of order L^2. The "
        "mean of the terms that are kept has a^{2L-2} n_{l-1}/n_0 in place of a^{2L-1}, and 5 in place of the 1 in the "
        "first product, since f and delta share the weights of the later layers; the limit (43) holds"
    ),
    setting="ReLU networks with zero biases at initialization, gates held, widths of order M, chaotic phase",
    about=("NTKFirstStep",),
)
def neighboring_layers() -> Evidence:
    """Compare with all gates and weights of two layers of two ReLU on one input, and the bound with the double sum."""
    # either the weights into the first layer or those of the output enter to the fourth power, all others squared
    points, share = gaussian(*[3] * 4, *[2] * 4)
    into, out, between = points[:2], points[2:4], points[4:].reshape(2, 2, -1)
    variance, terms = 1.4, np.zeros(2)
    for low, high in product(gates(2), repeat=2):
        x, back = low[:, None] * into, high[:, None] * out  # in units of the standard deviations
        f = np.sum(back * np.einsum("abk,bk->ak", between, x), axis=0)
        terms += [share @ (f**2 * np.sum(each**2, axis=0)) / 16 for each in (back, x)]  # l = 1 and 2
    # variances: f^2 has those of the three layers, |delta^2|^2 that of the last, |x^1|^2 that of the first
    truth = terms * variance**3 / 4 * [variance / 2, variance]
    a, up = variance / 2, 1 + 5 / 2
    stated, printed = variance * a**3 * np.array([1, 2]) * up, 2 * a**5 * np.array([1 + 1 / 2, up])
    excess = max(_lower_bound(40, 100, a) / _change(40, 100, a) - 1 for a in (1.1, 1.5, 2.5))
    return Evidence([*truth, 0.0], [*stated, max(excess, 0.0)], [*printed, 0.0])


def _change(depth: int, width: int, a: float) -> float:
    """Return the kernel's mean change, gates held, over minus the rate, inputs of dimension `width`."""
    return _first_step(depth, width, a) * (depth * a ** (depth - 1) + np.sum(a ** np.arange(depth)))


def _lower_bound(depth: int, width: int, a: float) -> float:
    """Return the printed lower bound of the change."""
    k = np.arange(1, depth + 1)
    later = (1 + 1 / width) ** np.maximum(depth - 1 - k, 0)
    return float(4 / width * a ** (2 * depth - 1) * np.sum(later * (1 + 5 / width) ** (k - 1)))


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
        "the change decays as a^L/M, more slowly than the bound: of the sums of Lemma A.7 only the terms in a^{2L} are "
        "kept, and in this phase those in a^L are larger; the limit 0 of the theorem holds"
    ),
    setting="ReLU networks with zero biases at initialization, gates held, widths of order M, ordered phase",
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
    latex=(
        r"\mathbb E \Delta\Theta/\mathbb E \Theta \to F(\lambda) \text{ at } \eta \sim 1/M,\; F \sim \lambda "
        r"e^{5\lambda}"
    ),
    verdict="convention",
    reason=(
        "for the derivative along the step, gates held, as in the source's proof; at rates of order 1/M, as in the NTK "
        "parametrization; at the constant rate of Theorem 4.1 the change carries "
        "a further factor M. Section 3.2 credits the growth at the edge to Hanin and Nica (2020)"
    ),
    setting="ReLU networks with zero biases at initialization, gates held, widths of order M, first step of descent",
    about=("NTKFirstStepLimit",),
    tolerance=1e-3,
)
def first_step_at_the_edge() -> Evidence:
    """Compare with double sums at the rate 1/M at constant L/M, extrapolated in 1/M, and at L/M of 6 and 7."""
    changes = [_first_step(depth, 2 * depth, 1.0) / (2 * depth) for depth in (100, 200, 400)]
    twice, once = (2 * changes[k + 1] - changes[k] for k in (1, 0))
    more, less = (_first_step(ratio * 100, 100, 1.0) / ratio for ratio in (7, 6))
    growth = np.log(more / less) / (100 * np.log1p(5 / 100))
    return Evidence([twice / once, growth], [1.0, 1.0])


FORMULAS = formula.formulas
