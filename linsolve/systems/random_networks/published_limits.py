"""Seleznova (2024), section 3.2 and appendix A: the tangent kernel in the joint limit of depth and width."""

from __future__ import annotations

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.random_networks.published_deep import correlation, correlations

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024", "ReLU networks with zero biases at initialization, widths of order M, L/M -> lambda")


def _finite(width: int, ratio: float) -> float:
    """Return the dispersion of the weights' part at finite width from the sum of Lemma A.5 and `correlations`."""
    depth = round(ratio * width)
    up, k = 1 + 5 / width, np.arange(1, depth)
    pairs = (depth - k) * correlations(width, depth - 1) * up ** (depth - 1 - k)
    return float(up ** (depth - 1) / depth + 2 / depth**2 * np.sum(pairs))


@formula(
    "3.2/3.1",
    "Theorem 3.1, (8); A.1, (32), (40)",
    "dispersion of the kernel of deep and wide networks",
    quote=(
        r"In the chaotic phase [...] the NTK dispersion grows exponentially with depth-to-width ratio $\lambda := "
        r"L/M$ as follows: $\frac{\mathbb{E}[\Theta^2(x, x)]}{\mathbb{E}^2[\Theta(x, x)]} \rightarrow "
        r"\frac{1}{2\lambda} e^{5\lambda} \left( 1 - \frac{1}{4\lambda} (1 - e^{-4\lambda}) \right)$"
    ),
    latex=r"V = e^{5\lambda} \Bigl[\tfrac13 + \tfrac{2}{9\lambda} - \tfrac{1 - e^{-6\lambda}}{27\lambda^2}\Bigr]",
    verdict="incorrect",
    reason="Consequence of Lemma A.4(2): the prefactor differs, the growth as exp(5 lambda) is unaffected",
    follows="correlation_of_lengths",
    about=("NTKDispersionLimit",),
    tolerance=1e-4,
)
def dispersion_of_deep_networks() -> Evidence:
    """Compare with sums over 2000 and 4000 layers of as many units and the transfer of moments, extrapolated."""
    truth = 2 * _finite(4000, 1.0) - _finite(2000, 1.0)
    right = np.exp(5) * (1 / 3 + 2 / 9 - (1 - np.exp(-6)) / 27)
    return Evidence(truth, right, np.exp(5) / 2 * (1 - (1 - np.exp(-4)) / 4))


@formula(
    "3.2/3.1",
    "Theorem 3.1, (9); A.1, (41); B.1",
    "dispersion at the edge of chaos",
    quote=(
        r"$\frac{\mathbb{E}[\Theta^2(x, x)]}{\mathbb{E}^2[\Theta(x, x)]} \rightarrow \frac{1}{(1 + \alpha_0)^2} "
        r"\left[ e^{5\lambda} \left( \frac{1}{2\lambda} + \frac{2\alpha_0^2 - 8\alpha_0}{25\lambda^2} \right) + "
        r"(e^\lambda - e^{5\lambda}) \frac{1 - 4\alpha_0}{8\lambda^2} + \frac{2\alpha_0}{5\lambda} \left( \frac{4 "
        r"- \alpha_0}{5\lambda} - 1 - \alpha_0 \right) \right]$"
    ),
    latex=(
        r"V = (V_W + 2\alpha V_{Wb} + \alpha^2 V_b)/(1 + \alpha)^2,\; V_W \text{ as in (8)},\; V_b = 2 "
        r"\varphi_2(5\lambda),\; V_{Wb} = \tfrac13 (\varphi_1 + "
        r"2\varphi_2)(5\lambda) + \tfrac{\varphi_1(5\lambda) - \varphi_1(-\lambda)}{9\lambda}"
    ),
    verdict="incorrect",
    reason=(
        "Consequence of Lemma A.4(2): the part of the biases and the growth as exp(5 lambda) are unaffected; (41) and "
        "the limit of appendix B.1 are the same expression"
    ),
    follows="correlation_of_lengths",
    about=("NTKDispersionLimit",),
)
def dispersion_at_the_edge() -> Evidence:
    """Compare with integrals over pairs of layers, by Gauss-Legendre quadrature; and (9) with (41)."""
    x, a = 0.7, 0.8
    weights, both, biases = _squares(x)
    own = (np.exp(5 * x) * (1 / 3 + 4 / 3 * _two(-6 * x)), _both(x), 2 * _two(5 * x))
    # (9), term by term
    grown = np.exp(5 * x) * (1 / (2 * x) + (2 * a**2 - 8 * a) / (25 * x**2))
    rest = (np.exp(x) - np.exp(5 * x)) * (1 - 4 * a) / (8 * x**2)
    printed = grown + rest + 2 * a / (5 * x) * ((4 - a) / (5 * x) - 1 - a)
    # (41), term by term
    grown = np.exp(5 * x) * (1 / 2 + (16 * a**2 + 36 * a - 25) / (200 * x)) + np.exp(x) * (1 - 4 * a) / (8 * x)
    other = (grown + 2 * a * (4 - a) / (25 * x) - 2 * a * (1 + a) / 5) / x
    forms = (w + 2 * a * m + a**2 * v for w, m, v in ((weights, both, biases), own))
    truth, stated = (form / (1 + a) ** 2 for form in forms)
    return Evidence([truth, 0.0], [stated, printed - other], [printed / (1 + a) ** 2, 0.0])


@formula(
    "3.2/A.1",
    "Lemma A.7(3), (37)",
    "mean product of both parts of the kernel",
    quote=(
        r"$\frac{\mathbb{E}[\Theta_W(x, x)\Theta_b(x, x)]}{L^2} \xrightarrow[M \rightarrow \infty, L \rightarrow "
        r"\infty, L/M \rightarrow \lambda \in \mathbb{R}]{} \frac{1}{4\alpha_0} \left( e^{5\lambda} "
        r"\frac{9}{25\lambda^2} - e^\lambda \frac{1}{\lambda^2} - \frac{4}{5\lambda} + \frac{16}{25\lambda^2} "
        r"\right)$"
    ),
    latex=(
        r"\frac{1}{\alpha_0} \Bigl[\tfrac13 (\varphi_1 + 2\varphi_2)(5\lambda) + \frac{\varphi_1(5\lambda) - "
        r"\varphi_1(-\lambda)}{9\lambda}\Bigr],\; \varphi_1(z) = \frac{e^z - 1}{z},\, \varphi_2 = \frac{\varphi_1 "
        "- 1}{z}"
    ),
    verdict="incorrect",
    reason="Consequence of Lemma A.4(2): the growth as exp(5 lambda) is unaffected",
    setting="ReLU networks with zero biases at initialization, widths of order M, edge of chaos, L/M -> lambda",
    follows="correlation_of_lengths",
    about=("NTKMoments", "NTKDispersionLimit"),
)
def weights_times_biases() -> Evidence:
    """Compare with the integral over pairs of layers, by Gauss-Legendre quadrature."""
    x = 0.7
    printed = np.exp(5 * x) * 9 / (25 * x**2) - np.exp(x) / x**2 - 4 / (5 * x) + 16 / (25 * x**2)
    return Evidence(_squares(x)[1], _both(x), printed / 4)


def _squares(ratio: float) -> tuple[float, ...]:
    """Return means of the squares of the weights' part, of both parts, and of the biases' part, over their sizes."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    t, u = (nodes[:, None] + 1) / 2, (nodes + 1) / 2
    s, share = t * u, np.outer(weights, weights) / 4 * t  # 0 < s < t < 1
    grown, coupled = np.exp(5 * ratio * (1 - t)), np.exp(5 * ratio * (t - s)) / 3 + 2 / 3 * np.exp(-ratio * (t - s))
    parts = 2 * np.exp(5 * ratio * s) * coupled, 1 + coupled, 2 + 0 * s
    return tuple(float(np.sum(share * grown * part)) for part in parts)


def _one(z: float) -> float:
    return float(np.expm1(z) / z)


def _two(z: float) -> float:
    return (_one(z) - 1) / z


def _both(ratio: float) -> float:
    x = 5 * ratio
    return (_one(x) + 2 * _two(x)) / 3 + (_one(x) - _one(-ratio)) / 9 / ratio


@formula(
    "3.2/A.1",
    "Lemma A.7, proof, case 1",
    "mean product of both parts of the kernel off the edge",
    quote=(
        r"$= \frac{M}{4\alpha_0} \frac{a}{a-1} \left[ a^{2(L-1)} x^{L-1} - a^{2(L-1)} y^L - 4a^{L-1} \lambda + "
        r"O\left(\frac{1}{M}\right) \right]$ [...] where we also denoted $x := 1 + 5/M + O(1/M^{3/2})$ and $y := 1 + "
        r"1/M + O(1/M^{3/2})$"
    ),
    latex=(
        r"\frac{M}{\alpha_0} \frac{a}{a-1} \Bigl[ a^{2(L-1)} \Bigl( \tfrac\lambda3 e^{5\lambda} + \tfrac19 "
        r"(e^{5\lambda} - e^{-\lambda}) \Bigr) - a^{L-2} \lambda \Bigr]"
    ),
    verdict="incorrect",
    reason=(
        "Consequence of Lemma A.4(2): the limits (35), (36) that are drawn from it are unaffected. The last line also "
        "drops a factor 1/a of its last term"
    ),
    follows="correlation_of_lengths",
    about=("NTKMoments",),
    tolerance=1e-4,
)
def weights_times_biases_off_the_edge() -> Evidence:
    """Compare with sums over 1500 and 3000 layers of twice as many units, extrapolated, above and below the edge."""
    forms, ratio = [], 0.5
    for a, power in ((1.5, 1.0), (0.5, 0.0)):  # in units of M a^(2(L-1)) and of M a^(L-1)
        long, short = (_mixed(width, ratio, a) / width for width in (6000, 3000))
        grown = np.exp(5 * ratio), np.exp(-ratio), np.exp(ratio)
        stated = power * (ratio / 3 * grown[0] + (grown[0] - grown[1]) / 9) - (1 - power) * ratio / a
        printed = power * (grown[0] - grown[2]) / 4 - (1 - power) * ratio
        forms.append((2 * long - short, *(a / (a - 1) * form for form in (stated, printed))))
    return Evidence(*zip(*forms, strict=True))


def _mixed(width: int, ratio: float, a: float) -> float:
    """Return the mean of both parts' product at n_0 = M from the sums of Lemma A.7, over a^(2(L-1)) or a^(L-1)."""
    depth = round(ratio * width)
    up, layers = 1 + 5 / width, np.arange(1, depth + 1)
    unit = (2 * depth if a > 1 else depth) - 1 - (a > 1)
    own = a ** (2.0 * depth - layers - 1 - unit) * up ** (depth - layers)
    # sums over the later layer of C X, by the recursion in the earlier one
    inner = [0.0]
    for each in correlations(width, depth - 1):
        inner.append(inner[-1] * up + each)
    first = a ** (2.0 * depth - layers - 1 - unit) * np.array(inner)[::-1]
    return float(np.sum(own + first + own * (layers - 1)))


@formula(
    "3.2/A.1",
    "Lemma A.6, (34)",
    "dispersion of the biases' part of the kernel",
    quote=(
        r"$\frac{\mathbb{E}[\Theta_b^2(x, x)]}{\mathbb{E}^2[\Theta_b(x, x)]} \xrightarrow[M \rightarrow \infty, L "
        r"\rightarrow \infty, L/M \rightarrow \lambda \in \mathbb{R}]{} \begin{cases} 1 & \text{if } "
        r"\frac{\sigma_w^2}{2} < 1 \\ \frac{2}{25\lambda^2} (e^{5\lambda} - 1) - \frac{2}{5\lambda} & \text{if } "
        r"\frac{\sigma_w^2}{2} = 1 \\ e^{5\lambda} & \text{if } \frac{\sigma_w^2}{2} > 1 \end{cases}$"
    ),
    latex=(
        r"1 \;(a < 1),\quad \tfrac{2}{25\lambda^2} (e^{5\lambda} - 1) - \tfrac{2}{5\lambda} \;(a = 1),\quad "
        r"e^{5\lambda} \;(a > 1)"
    ),
    about=("NTKDispersionLimit",),
    tolerance=1e-4,
)
def dispersion_of_the_biases() -> Evidence:
    """Compare with the double sum (14) over 1000 and 2000 layers of twice as many units, extrapolated."""
    found, ratio = [], 0.5
    for a in (0.5, 1.0, 1.5):
        long, short = (_biases(width, ratio, a) for width in (4000, 2000))
        found.append(2 * long - short)
    edge = 2 / 25 / ratio**2 * np.expm1(5 * ratio) - 2 / 5 / ratio
    return Evidence(found, [1.0, edge, np.exp(5 * ratio)])


def _biases(width: int, ratio: float, a: float) -> float:
    """Return the dispersion of the biases' part from (14), by the number of layers above each."""
    above = np.arange(round(ratio * width))
    shares = a ** (above - (above[-1] if a > 1 else 0.0))
    earlier = np.cumsum(shares[::-1])[::-1] - shares
    return float(np.sum(shares * (1 + 5 / width) ** above * (shares + 2 * earlier)) / np.sum(shares) ** 2)


@formula(
    "3.2/3.2",
    "after (15)",
    "limit of the correlation",
    quote=(
        r"they simplify to the results in the limit by noticing that [...] $\mathcal{C}_{(1,L)} \rightarrow "
        r"e^\lambda$"
    ),
    latex=r"\mathcal C_{(1,L)} \to \tfrac13 e^{5\lambda} + \tfrac23 e^{-\lambda}",
    verdict="incorrect",
    reason="Consequence of Lemma A.4(2): to first order in lambda the limit is unaffected",
    follows="correlation_of_lengths",
    about=("NTKDispersionLimit",),
    tolerance=1e-3,
)
def limit_of_the_correlation() -> Evidence:
    """Compare with the transfer of both moments of a random matrix through three million layers of 10^7 units."""
    ratio = 0.3
    return Evidence(correlation(10**7, 3 * 10**6), np.exp(5 * ratio) / 3 + 2 / 3 * np.exp(-ratio), np.exp(ratio))


@formula(
    "3.2/A.3",
    "Theorem A.10, proof of case 2, sums",
    "pairs of terms of the kernel in the bound of the first step",
    quote=(
        r"$\mathbb{E} \left[ \sum_{\ell_2 < \ell_1} \theta_W^{\ell_1} \theta_W^{\ell_2} \right] \propto a^{2L} "
        r"\frac{L^2}{\alpha_0^2} \frac{1}{4\lambda} e^{5\lambda} \left( 1 - \frac{1}{4\lambda} (1 - e^{-4\lambda}) "
        r"\right)$"
    ),
    latex=(
        r"\mathbb E \sum_{\ell_2 < \ell_1} \theta_W^{\ell_1} \theta_W^{\ell_2} \simeq a^{2(L-1)} "
        r"\frac{L^2}{2 \alpha_0^2} e^{5\lambda} \Bigl[\tfrac13 + \tfrac{2}{9\lambda} - \tfrac{1 - "
        r"e^{-6\lambda}}{27\lambda^2}\Bigr]"
    ),
    verdict="incorrect",
    reason=(
        "Consequence of Lemma A.4(2): half of (32), as is the sum over both parts below it; the limit 0 of both is "
        "unaffected"
    ),
    follows="correlation_of_lengths",
    about=("NTKFirstStepLimit",),
    tolerance=1e-4,
)
def pairs_in_the_bound_of_the_first_step() -> Evidence:
    """Compare the growth from L/M = 1/2 to 1 with that of sums over pairs of layers at finite width, extrapolated."""
    ratios = 1.0, 0.5
    sums = [[ratio**2 * (_finite(width, ratio) - _own(width, ratio)) for ratio in ratios] for width in (2000, 4000)]
    truth = [2 * long - short for short, long in zip(*sums, strict=True)]
    right = [np.exp(5 * x) * (x**2 / 3 + 2 * x / 9 - (1 - np.exp(-6 * x)) / 27) for x in ratios]
    printed = [x / 2 * np.exp(5 * x) * (1 - (1 - np.exp(-4 * x)) / (4 * x)) for x in ratios]
    return Evidence(*(first / last for first, last in (truth, right, printed)))


def _own(width: int, ratio: float) -> float:
    """Return the part of the squares of single layers in `_finite`."""
    depth = round(ratio * width)
    return (1 + 5 / width) ** (depth - 1) / depth


FORMULAS = formula.formulas
