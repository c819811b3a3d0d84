"""Atanasov, Bordelon, Pehlevan (2022), appendices E to H: transfer, several outputs, unequal widths."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.small_start.published_deep import BETA, D, S, X, balanced, each, product, rotations
from linsolve.systems.small_start.published_strength import time

__all__ = ["FORMULAS"]

formula = Source("atanasov_2022")


@formula(
    "(45), (48)",
    "eigenfunctions of the kernel",
    r"\lambda_1 = 1 + A \;(\beta),\quad \lambda_k = 1",
    about=("TransferError",),
)
def eigenfunctions() -> Evidence:
    """Compare with the eigenvalues of the kernel's matrix on linear functions, numerically."""
    return Evidence(np.linalg.eigvalsh(2.3 * np.outer(BETA, BETA) + np.eye(D)), [1, 1, 1, 3.3])


@formula(
    "(46)",
    "mean generalization error",
    r"E_g = \frac{\kappa^2}{1 - \gamma} \sum_k \frac{\langle y \phi_k \rangle^2}{(\lambda_k P + \kappa)^2}",
    printed=r"E_g = \frac{1}{1 - \gamma} \sum_k \frac{\langle y \phi_k \rangle^2}{(\lambda_k P + \kappa)^2}",
    about=("TransferError",),
)
def generalization_error() -> Evidence:
    """Compare with ridgeless regression on five samples of twelve inputs, averaged over directions exactly."""
    P, n = 5, 12
    samples = np.random.default_rng(1).standard_normal((P, n))
    left = np.eye(n) - np.linalg.pinv(samples) @ samples
    kappa = n - P  # solution of kappa = kappa n/(P + kappa)
    rest = 1 / (P + kappa) ** 2 / (1 - P * n / (P + kappa) ** 2)
    return Evidence(np.trace(left.T @ left) / n, kappa**2 * rest, rest)


@formula(
    "(49), (50)",
    "kernel regression as a shortest solution",
    r"\hat\beta = \arg\min \hat\beta^\top [A\beta\beta^\top + I]^{-1} \hat\beta \;\text{ with } X^\top "
    r"\hat\beta = y",
    about=("KernelRegression", "TransferError"),
)
def regression_as_a_shortest_solution() -> Evidence:
    """Compare with the Karush-Kuhn-Tucker conditions, solved as one linear system."""
    inputs, y = X[:3], np.array([0.4, -1.2, 0.7])
    M = 2.3 * np.outer(BETA, BETA) + np.eye(D)
    system = np.block([[2 * np.linalg.inv(M), inputs.T], [inputs, np.zeros((3, 3))]])
    shortest = np.linalg.solve(system, np.concatenate([np.zeros(D), y]))[:D]
    return Evidence(shortest, M @ inputs.T @ np.linalg.solve(inputs @ M @ inputs.T, y))


@formula(
    "(51)",
    "the norm that it minimizes",
    r"\hat\beta^\top [A\beta\beta^\top + I]^{-1} \hat\beta = |\hat\beta|^2 - \tfrac{A}{1 + A} (\beta \cdot "
    r"\hat\beta)^2",
    about=("KernelRegression",),
)
def norm_that_it_minimizes() -> Evidence:
    """Compare with the inverse of the matrix, numerically."""
    v = X[0]
    inverse = np.linalg.inv(2.3 * np.outer(BETA, BETA) + np.eye(D))
    return Evidence(v @ inverse @ v, v @ v - 2.3 / 3.3 * (BETA @ v) ** 2)


@formula(
    "(53)",
    "the tangent kernel of several outputs",
    r"M_{cc'} = \textstyle\sum_\ell \rho_\ell [U_{>\ell}]_{cc'} V_{<\ell},\; V_{<1} = I",
    printed=r"M_{cc'} = \textstyle\sum_\ell [U_{>\ell}]_{cc'} V_{<\ell},\; V_{<1} = \sum_\beta r_1^\beta "
    r"r_1^{\beta\top}",
    about=("FinalKernelOutputs",),
)
def kernel_of_several_outputs() -> Evidence:
    """Compare with the gradients of a balanced network of three layers, two outputs and equal rates."""
    u = np.array([1.3, 0.6])
    out, into = rotations(1, 2)[0], rotations(1, D)[0][:, :2]
    layers = balanced(u, out, into, np.ones(3))
    truth = sum(np.einsum("ab,ij->abij", after @ after.T, before.T @ before) for after, before in each(layers))

    def stated(first: Any) -> Any:
        total = 0
        for k in (1, 2, 3):
            above = (out * u ** (2 * (3 - k))) @ out.T
            below = first if k == 1 else (into * u ** (2 * (k - 1))) @ into.T
            total = total + np.einsum("ab,ij->abij", above, below)
        return total

    return Evidence(truth, stated(np.eye(D)), stated(into @ into.T))


@formula(
    "(54)",
    "kernels of the activations, several outputs",
    r"K_\ell = x^\top [\beta^\top\beta]^{\ell/L} x'",
    condition="balanced, converged, equal rates",
    about=("LayerKernels",),
)
def activations_of_several_outputs() -> Evidence:
    """Compare with the activations of a balanced network after two of three layers; a matrix power by eigenvectors."""
    u = np.array([1.3, 0.6])
    layers = balanced(u, rotations(1, 2)[0], rotations(1, D)[0][:, :2], np.ones(3))
    h, total = product(layers[:2]), product(layers)
    values, vectors = np.linalg.eigh(total.T @ total)
    power = (vectors * np.maximum(values, 0) ** (2 / 3)) @ vectors.T
    return Evidence(h.T @ h, power)


SIZES = np.array([5.0, 7.0, 4.0, 3.0])  # N_1, ..., N_4 of three layers


def _excess(shift: int) -> Any:
    """Return g_l by (57), with the ratio of widths derived from (56) (shift 1) or as printed (shift 0)."""
    ratios = SIZES[1:] / SIZES[:-1]
    return np.array([3 - k - np.sum(ratios[k - 1 + shift : 2 + shift]) for k in (1, 2, 3)])


@formula(
    "(57)",
    "strengths of the layers at unequal widths",
    r"g_\ell = L - \ell - \textstyle\sum_{k=\ell}^{L-1} N_{k+2}/N_{k+1}",
    printed=r"g_\ell = L - \ell - \textstyle\sum_{k=\ell}^{L-1} N_{k+1}/N_k",
    about=("WidthCorrection",),
)
def strengths_at_unequal_widths() -> Evidence:
    """Compare with the recursion over the layers by (55) and (56), one by one from the last."""
    steps = 1 - SIZES[2:] / SIZES[1:-1]
    truth = np.array([steps[0] + steps[1], steps[1], 0])
    return Evidence(truth, _excess(1), _excess(0))


@formula(
    "(56), (57), two layers",
    "imbalance along the direction that training selects",
    r"\langle u_1^2 - u_2^2 \rangle = \sigma^2 \frac{N - 1}{D}",
    printed=r"\langle u_1^2 - u_2^2 \rangle = \sigma^2 (1 - 1/N)",
    about=("LayerImbalance",),
)
def imbalance_of_two_layers() -> Evidence:
    """Compare with the conserved form at Gaussian weights of two units on three inputs, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)
    grid = np.array(np.meshgrid(*[nodes] * 4, indexing="ij")).reshape(2, 2, -1)
    share = np.prod(np.meshgrid(*[weights / weights.sum()] * 4, indexing="ij"), axis=0).ravel()
    a, w = grid[0] / np.sqrt(2), grid[1] / np.sqrt(3)  # sigma = 1; the other two columns of W add 1/3 each on average
    g = (a + w) / np.linalg.norm(a + w, axis=0)
    found = np.sum(g * w, axis=0) ** 2 - np.sum(g * a, axis=0) ** 2 + 2 / 3 * np.sum(g * g, axis=0)
    return Evidence(share @ found, 1 / 3, 1 / 2)


@formula(
    "(58), (59)",
    "strength of the last layer",
    r"u^2 \simeq s^{2/L} - \frac{g \sigma^2}{L}",
    printed=r"u^2 \sim s^2 - \frac{g \sigma^2}{2 L s^{1/L}}",
    about=("WidthCorrection",),
    tolerance=1e-6,
)
def strength_of_the_last_layer() -> Evidence:
    """Compare with the polynomial (58) solved numerically at sigma = 1e-3."""
    sigma2, g = 1e-6, _excess(1)
    roots = np.roots(np.poly(-sigma2 * g) - np.array([0, 0, 0, S**2]))
    truth = float(roots[np.abs(roots.imag) < 1e-9].real.max()) - S ** (2 / 3)
    return Evidence(truth / sigma2, -np.sum(g) / 3, (S**2 - S ** (2 / 3)) / sigma2 - np.sum(g) / (6 * S ** (1 / 3)))


@formula(
    "(59), g",
    "its correction",
    r"g = \textstyle\sum_{k=1}^{L-1} k (1 - N_{k+2}/N_{k+1})",
    printed=r"g = \frac{L(L-1)}{2} - \textstyle\sum_{\ell=1}^{L} \sum_{k=\ell}^{L} \frac{N_{k+1}}{N_k}",
    about=("WidthCorrection",),
)
def correction_of_the_strength() -> Evidence:
    """Compare with the sum of the recursion over the layers by (55) and (56)."""
    steps = 1 - SIZES[2:] / SIZES[1:-1]
    ratios = SIZES[1:] / SIZES[:-1]
    printed = 3 - sum(ratios[k:].sum() for k in range(3))
    return Evidence(steps[0] + steps[1] + steps[1], np.array([1, 2]) @ steps, printed)


@formula(
    "sec. 4.2",
    "when a mode is learned",
    r"t_\alpha = \tfrac{1}{2 s_\alpha} \log(s_\alpha u_0^{-2} - 1)",
    printed=r"t_\alpha = \tfrac{1}{s_\alpha} \log(s_\alpha u_0^{-2})",
    about=("MatchedOutputs", "LearningTime"),
)
def when_a_mode_is_learned() -> Evidence:
    """Compare with the time to half of the target at depth 2, by quadrature."""
    c0 = 1e-4
    clock = np.log(S / c0 - 1)
    return Evidence(time(2, c0, S / 2), clock / (2 * S), np.log(S / c0) / S)


FORMULAS = formula.formulas
