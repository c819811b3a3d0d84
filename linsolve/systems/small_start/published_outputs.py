"""Atanasov, Bordelon, Pehlevan (2022), appendices E to H: transfer, several outputs, unequal widths."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.small_start.published_deep import BETA, D, S, X, balanced, each, product, rotations
from linsolve.systems.small_start.published_strength import time

__all__ = ["FORMULAS"]

formula = Source("atanasov_2022", "deep linear network, balanced and converged")


@formula(
    "E.1",
    "(45), (48)",
    "eigenfunctions of the kernel",
    quote=(
        r"The first eigenvector is $\phi_1 = \boldsymbol{\beta}$ with eigenvalue $\lambda_1 = A + 1$. [...] Each "
        r"of these $D - 1$ eigenvectors has eigenvalue $\lambda_k = 1$"
    ),
    latex=r"\lambda_1 = 1 + A \;(\beta),\quad \lambda_k = 1",
    setting="Gaussian inputs, kernel (44)",
    about=("TransferError",),
)
def eigenfunctions() -> Evidence:
    """Compare with the eigenvalues of the kernel's matrix on linear functions, numerically."""
    return Evidence(np.linalg.eigvalsh(2.3 * np.outer(BETA, BETA) + np.eye(D)), [1, 1, 1, 3.3])


@formula(
    "E.1",
    "(46)",
    "mean generalization error",
    quote=(
        r"$E_g = \frac{1}{1 - \gamma} \sum_k \frac{\langle y(\mathbf{x})\phi_k(\mathbf{x}) \rangle^2}{(\lambda_k "
        r"P + \kappa)^2}, \quad \kappa = \lambda + \kappa \sum_k \frac{\lambda_k}{\lambda_k P + \kappa}, \quad "
        r"\gamma = P \sum_k \frac{\lambda_k^2}{(\lambda_k P + \kappa)^2}$"
    ),
    latex=r"E_g = \frac{\kappa^2}{1 - \gamma} \sum_k \frac{\langle y \phi_k \rangle^2}{(\lambda_k P + \kappa)^2}",
    verdict="typographical",
    reason=(
        "a factor kappa^2 is dropped, here and in the display after (48): without samples the error is the mean "
        "square of the target"
    ),
    setting="kernel ridge regression on Gaussian inputs",
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
    "F",
    "(49), (50)",
    "kernel regression as a shortest solution",
    quote=(
        r"$\min_{\hat{\boldsymbol{\beta}}} \hat{\boldsymbol{\beta}}^\top "
        r"[A(t)\boldsymbol{\beta}\boldsymbol{\beta}^\top + \mathbf{I}]^{-1} \hat{\boldsymbol{\beta}}, \text{ s.t. "
        r"} \mathbf{X}^\top \hat{\boldsymbol{\beta}} = \mathbf{y}$ The solution to this optimization problem is "
        "indeed the kernel regression solution with kernel $K(t)$"
    ),
    latex=(
        r"\hat\beta = \arg\min \hat\beta^\top [A\beta\beta^\top + I]^{-1} \hat\beta \;\text{ with } X^\top "
        r"\hat\beta = y"
    ),
    setting="more inputs than samples",
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
    "F",
    "(51)",
    "norm minimized by kernel regression",
    quote=(
        r"$\hat{\beta}^{\top} [A(t)\beta\beta^{\top} + \mathbf{I}]^{-1} \hat{\beta} = |\hat{\beta}|^2 - "
        r"\frac{A(t)}{1 + A(t)} (\beta \cdot \hat{\beta})^2$"
    ),
    latex=(
        r"\hat\beta^\top [A\beta\beta^\top + I]^{-1} \hat\beta = |\hat\beta|^2 - \tfrac{A}{1 + A} (\beta \cdot "
        r"\hat\beta)^2"
    ),
    setting="more inputs than samples",
    about=("KernelRegression",),
)
def norm_that_it_minimizes() -> Evidence:
    """Compare with the inverse of the matrix, numerically."""
    v = X[0]
    inverse = np.linalg.inv(2.3 * np.outer(BETA, BETA) + np.eye(D))
    return Evidence(v @ inverse @ v, v @ v - 2.3 / 3.3 * (BETA @ v) ** 2)


@formula(
    "G",
    "(53)",
    "the tangent kernel of several outputs",
    quote=(
        r"$\mathbf{M}_{c,c'} = \delta_{c,c'} \sum_{\alpha} u_{\alpha}^{2(L-1)}(t) \mathbf{r}_1^{\alpha} "
        r"\mathbf{r}_1^{\alpha} + \sum_{\ell=1}^{L-1} \sum_{\alpha} u_{\alpha}^{2(L-\ell)}(t) \mathbf{e}_c^{\top} "
        r"\mathbf{r}_L^{\alpha} \mathbf{r}_L^{\alpha} \mathbf{e}_{c'} \sum_{\beta} u_{\beta}^{2(\ell-1)}(t) "
        r"\mathbf{r}_1^{\beta} \mathbf{r}_1^{\beta}$"
    ),
    latex=(
        r"M_{cc'} = \textstyle\sum_\ell [U_{>\ell}]_{cc'} V_{<\ell},\; V_{<1} = \sum_{\beta=1}^{D} r_1^\beta "
        r"r_1^{\beta\top} = I"
    ),
    verdict="convention",
    reason=(
        "beta runs over a whole orthonormal basis of the inputs with u^0 = 1, which gives the isotropic part of (35); "
        "r_L is the output vector, as in G.1, and r_{L+1} in the first line"
    ),
    setting="balanced and aligned network with several outputs, equal rates",
    about=("FinalKernelOutputs",),
)
def kernel_of_several_outputs() -> Evidence:
    """Compare with the gradients of a balanced network of three layers, two outputs and equal rates."""
    u = np.array([1.3, 0.6])
    out, into = rotations(1, 2)[0], rotations(1, D)[0][:, :2]
    layers = balanced(u, out, into, np.ones(3))
    truth = sum(np.einsum("ab,ij->abij", after @ after.T, before.T @ before) for after, before in each(layers))

    basis = np.linalg.qr(np.hstack([into, np.eye(D)]))[0]  # all right singular vectors, the others of strength 0
    strengths, stated = np.append(u, np.zeros(D - 2)), 0
    for k in (1, 2, 3):
        above, below = (out * u ** (2 * (3 - k))) @ out.T, (basis * strengths ** (2 * (k - 1))) @ basis.T
        stated = stated + np.einsum("ab,ij->abij", above, below)
    return Evidence(truth, stated)


@formula(
    "G.1",
    "(54)",
    "kernels of the activations, several outputs",
    quote=r"$K_{\ell}(\mathbf{x}, \mathbf{x}') = [...] = \mathbf{x}^{\top} [\beta^{\top} \beta]^{\ell/L} \mathbf{x}'$",
    latex=r"K_\ell = x^\top [\beta^\top\beta]^{\ell/L} x'",
    setting="converged, balanced network with several outputs, equal rates",
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


SIZES = np.array([7.0, 4.0, 3.0])  # outputs of three layers


def _excess() -> Any:
    """Return g_l by (57)."""
    ratios = SIZES[1:] / SIZES[:-1]
    return np.array([3 - k - np.sum(ratios[k - 1 :]) for k in (1, 2, 3)])


@formula(
    "G.2",
    "(57)",
    "strengths of the layers at unequal widths",
    quote=(
        "For the last layer if the number of classes $C = N_L$ is sufficiently large, we also obtain similar "
        r"concentration for the last layer $\mathbf{W}^{L\top}\mathbf{W}^L \approx \sigma^2 \frac{N_L}{N_{L-1}} "
        r"\mathbf{I}$ [...] $g_\ell = L - \ell - \sum_{k=\ell}^{L-1} \frac{N_{k+1}}{N_k}$"
    ),
    latex=(
        r"g_\ell = L - \ell - \textstyle\sum_{k=\ell}^{L-1} N_{k+1}/N_k,\; W^\ell \in \mathbb{R}^{N_\ell \times "
        r"N_{\ell-1}}"
    ),
    verdict="convention",
    reason=(
        "N_l is the number of outputs of layer l, as for the last layer; (56) counts the inputs of layer l, "
        "which shifts the index by one"
    ),
    setting="wide layers, many outputs",
    about=("WidthCorrection",),
)
def strengths_at_unequal_widths() -> Evidence:
    """Compare with the recursion over the layers, one by one from the last, with mean squares of Gaussian layers."""
    # E W^T W = sigma^2 (outputs/inputs) I of each layer, E W W^T = sigma^2 I
    steps = 1 - SIZES[1:] / SIZES[:-1]
    return Evidence([steps[0] + steps[1], steps[1], 0], _excess())


@formula(
    "G.2",
    "(56)",
    "imbalance of wide layers",
    quote=(
        "For sufficiently large widths, we can approximate the initial weight matrix products with their "
        r"expectation over the random initialization $\mathbf{W}_0^\ell\mathbf{W}_0^{\ell\top} - "
        r"\mathbf{W}_0^{\ell+1\top}\mathbf{W}_0^{\ell+1} \approx \sigma^2 \left(1 - "
        r"\frac{N_{\ell+2}}{N_{\ell+1}}\right) \mathbf{I}$"
    ),
    latex=(
        r"W_0^\ell W_0^{\ell\top} - W_0^{\ell+1\top} W_0^{\ell+1} = \sigma^2 (1 - N_{\ell+2}/N_{\ell+1}) I + "
        r"O(N^{-1/2});\; \text{one output: } \langle u_1^2 - u_2^2 \rangle = \sigma^2 \frac{N - 1}{D}"
    ),
    verdict="leading order",
    reason=(
        "the mean is exact and the entries are near it to order -1/2 in the widths, as stated; the next sentence asks "
        "for many outputs: with one, training selects a direction by the same weights, and the mean along it is the "
        "form given"
    ),
    setting="wide layers; one output where said",
    about=("LayerImbalance",),
    tolerance=0.02,
)
def imbalance_of_two_layers() -> Evidence:
    """Compare with drawn layers at two widths, order and mean entry, and by quadrature with one output on two units."""
    spreads = []
    for h in (100, 400):
        rng = np.random.default_rng(h)
        first, second = rng.standard_normal((h, 2 * h)) / np.sqrt(2 * h), rng.standard_normal((h // 2, h)) / np.sqrt(h)
        entries = first @ first.T - second.T @ second
        spreads.append(np.sqrt(np.mean((entries - np.eye(h) / 2) ** 2)))
    order = np.log(spreads[1] / spreads[0]) / np.log(4)

    nodes, weights = np.polynomial.hermite_e.hermegauss(4)
    grid = np.array(np.meshgrid(*[nodes] * 4, indexing="ij")).reshape(2, 2, -1)
    share = np.prod(np.meshgrid(*[weights / weights.sum()] * 4, indexing="ij"), axis=0).ravel()
    a, w = grid[0] / np.sqrt(2), grid[1] / np.sqrt(3)  # sigma = 1; the other two columns of W add 1/3 each on average
    g = (a + w) / np.linalg.norm(a + w, axis=0)
    found = np.sum(g * w, axis=0) ** 2 - np.sum(g * a, axis=0) ** 2 + 2 / 3 * np.sum(g * g, axis=0)
    return Evidence([order, np.trace(entries) / h, share @ found], [-1 / 2, 1 / 2, 1 / 3])


@formula(
    "G.2",
    "(59)",
    "strength of the last layer",
    quote=(
        r"In the $\sigma^2 \rightarrow 0$ limit, we can solve that $u_\alpha \sim s^{1/L}$ as before. [...] "
        r"$[u_\alpha]^2 \sim s_\alpha^2 - \frac{g\sigma^2}{2Ls_\alpha^{1/L}}, \quad \sigma^2 \rightarrow 0$"
    ),
    latex=r"u_\alpha \sim s_\alpha^{1/L} - \frac{g \sigma^2}{2 L s_\alpha^{1/L}}",
    verdict="typographical",
    reason="as u_alpha = s^{1/L} minus the printed correction it solves (58) and continues the sentence above",
    setting="wide layers, many outputs",
    about=("WidthCorrection",),
    tolerance=1e-6,
)
def strength_of_the_last_layer() -> Evidence:
    """Compare with the polynomial (58) solved numerically at sigma = 1e-3; the difference from s^{1/L} over sigma^2."""
    sigma2, g = 1e-6, _excess()
    roots = np.roots(np.poly(-sigma2 * g) - np.array([0, 0, 0, S**2]))
    square, first = float(roots[np.abs(roots.imag) < 1e-9].real.max()), S ** (1 / 3)
    correction = np.sum(g) / (6 * first)
    printed = np.sqrt(S**2 - sigma2 * correction)
    return Evidence((np.sqrt(square) - first) / sigma2, -correction, (printed - first) / sigma2)


@formula(
    "G.2",
    "(59), g",
    "sum of the corrections",
    quote=(
        r"$g = \sum_{\ell=1}^L g_\ell = \frac{L(L-1)}{2} - \sum_{\ell=1}^L \sum_{k=\ell}^L \frac{N_{k+1}}{N_k}$ "
        r"[...] Suppose all network widths were equal $N_\ell = N_k$, then the term $g = 0$"
    ),
    latex=(
        r"g = \textstyle\sum_\ell g_\ell = \frac{L(L-1)}{2} - \sum_{\ell=1}^{L-1} \sum_{k=\ell}^{L-1} "
        r"\frac{N_{k+1}}{N_k}"
    ),
    verdict="typographical",
    reason=(
        "the inner sum ends at L - 1, as in (57), or with the indices of (56) runs from l + 1 to L; with equal widths "
        "the printed g is -L and not 0"
    ),
    setting="wide layers, many outputs",
    about=("WidthCorrection",),
)
def correction_of_the_strength() -> Evidence:
    """Compare with the sum of the recursion over the layers, at unequal widths and at equal ones."""
    steps, ratios = 1 - SIZES[1:] / SIZES[:-1], SIZES[1:] / SIZES[:-1]
    last = np.append(ratios, 1.0)  # a fourth width, equal to the third
    stated = 3 - sum(ratios[k:].sum() for k in range(2)), 3 - (2 + 1)
    printed = 3 - sum(last[k:].sum() for k in range(3)), 3 - (3 + 2 + 1)
    return Evidence([steps[0] + 2 * steps[1], 0.0], stated, printed)


@formula(
    "4.2",
    "first paragraph",
    "time to learn a mode",
    quote=r"Each singular mode begins to be learned at $t_\alpha = \frac{1}{s_\alpha} \log(s_\alpha u_0^{-2})$",
    latex=r"t_\alpha = \tfrac{1}{2 s_\alpha} \log(s_\alpha u_0^{-2})",
    verdict="typographical",
    reason="the factor 1/2 of figure 2 is missing, as in section 3.1.2",
    setting="two layers, aligned modes",
    follows="when_learning_begins",
    about=("MatchedOutputs", "LearningTime", "SaddleToSaddle"),
    tolerance=1e-08,
)
def when_a_mode_is_learned() -> Evidence:
    """Compare with the time to half of the target at depth 2, by quadrature."""
    c0 = 1e-8
    return Evidence(time(2, c0, S / 2), np.log(S / c0) / (2 * S), np.log(S / c0) / S)


FORMULAS = formula.formulas
