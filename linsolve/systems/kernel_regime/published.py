"""Ortiz-Jimenez, Moosavi-Dezfooli, Frossard (2021): linearized networks and measures of a target."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Order, Source

__all__ = ["FORMULAS"]

formula = Source("ortiz_jimenez_2021", "any differentiable network")
RNG = np.random.default_rng(9)
FEATURES = RNG.standard_normal((5, 8))
KERNEL = FEATURES @ FEATURES.T
F = RNG.standard_normal(5)
POINTS = np.random.default_rng(10).standard_normal((5, 2))
LAST, FIRST = RNG.standard_normal(3) / 2, RNG.standard_normal((3, 2)) / 3


def _network(last: Any, first: Any, x: Any) -> Any:
    """Return a network of three units of tanh, at points in rows."""
    return np.tanh(x @ first.T) @ last


@formula(
    "2",
    "(1)",
    "the linearized network",
    quote=r"$f_{\bm{\theta}}({\bm{x}})\approx\hat{f}_{\bm{\theta}}({\bm{x}};{\bm{\theta}}_{0})=f_{{\bm{\theta}}_{0}}({\bm{x}})+({\bm{\theta}}-{\bm{\theta}}_{0})^{\top}\nabla_{\bm{\theta}}f_{{\bm{\theta}}_{0}}({\bm{x}})$",
    latex=r"f_\theta(x) \approx f_{\theta_0}(x) + (\theta - \theta_0)^\top \nabla_\theta f_{\theta_0}(x)",
    verdict="leading order",
    reason="order 2 in the distance of the parameters, for the approximate sign",
    setting="any differentiable network",
    about=("FrozenKernel",),
    tolerance=5e-3,
)
def linearized_network() -> Order:
    """Compare with the outputs of a tanh network with perturbed weights; the gradient is a complex step."""
    x, (da, dW) = np.array([[0.4, -0.7]]), (LAST[::-1], FIRST[::-1])
    slope = _network(LAST + 1e-30j * da, FIRST + 1e-30j * dW, x).imag / 1e-30
    scales = 1e-3, 1e-4
    found = [
        np.abs(_network(LAST + k * da, FIRST + k * dW, x) - _network(LAST, FIRST, x) - k * slope)[0] for k in scales
    ]
    return Order(scales, found, 2)


@formula(
    "2",
    "(3)",
    "norm of a function",
    quote=(
        "for positive definite kernels can be computed as "
        r"$\|f\|^{2}_{\bm{\Theta}}=\sum_{j=1}^{\infty}\,\cfrac{1}{\lambda_{j}}\left({\mathbb{E}}_{{\bm{x}}\sim\mathcal{D}}\left[\phi_{j}({\bm{x}})f({\bm{x}})\right]\right)^{2}$"
    ),
    latex=r"\|f\|_\Theta^2 = \textstyle\sum_j \lambda_j^{-1} (\mathbb E\, \phi_j f)^2",
    setting="positive definite kernel",
    about=("FrozenKernel",),
)
def norm_of_a_function() -> Evidence:
    """Compare with the norm of the smallest parameters that give the function, by the pseudo-inverse."""
    values, vectors = np.linalg.eigh(KERNEL / 5)
    c = np.sqrt(5) * vectors.T @ F / 5  # eigenfunctions have mean square 1
    return Evidence(np.sum((np.linalg.pinv(FEATURES) @ F) ** 2), np.sum(c**2 / values))


@formula(
    "2",
    "Lemma 1",
    "bound of the norm by the alignment",
    quote=(
        r"denote the alignment of the target $f\in\mathcal{H}$ with the kernel $\bm{\Theta}$. Then "
        r"$\|f\|_{\bm{\Theta}}^{2}\geq\|f\|^{4}_{2}/\alpha(f)$"
    ),
    latex=r"\|f\|_\Theta^2 \ge |f|_2^4/\alpha(f),\; \alpha(f) = \mathbb E\, f(x) \Theta(x, x') f(x')",
    setting="positive definite kernel",
    about=("FrozenKernel",),
)
def bound_by_the_alignment() -> Evidence:
    """Compare with the largest violation over 200 random functions and the ratio of both sides at an eigenfunction."""
    inverse, (_, vectors) = np.linalg.inv(KERNEL), np.linalg.eigh(KERNEL)

    def sides(f: Any) -> tuple[Any, Any]:
        norm = np.einsum("ki,ij,kj->k", f, inverse, f)
        alignment = np.einsum("ki,ij,kj->k", f, KERNEL, f) / 25
        return norm, np.mean(f**2, axis=1) ** 2 / alignment

    norm, bound = sides(np.random.default_rng(1).standard_normal((200, 5)))
    own, tight = sides(vectors.T)
    return Evidence([0.0, *own], [np.max(np.maximum(bound - norm, 0)), *tight])


@formula(
    "3.2",
    "Theorem 1, (4)",
    "alignment of a linear predictor",
    quote=(
        r"The alignment of $g_{\bm{u}}$ with $\bm{\Theta}$ is given by "
        r"$\alpha(g_{\bm{u}})=\left\|\mathbb{E}_{{\bm{x}}}\left[\nabla^{2}_{{\bm{x}},\bm{\theta}}f_{\bm{\theta}_{0}}({\bm{x}})\right]\bm{u}\right\|_{2}^{2}$"
    ),
    latex=r"\alpha(g_u) = |\mathbb E_x [\nabla^2_{x,\theta} f_{\theta_0}(x)]\, u|^2",
    setting="standard Gaussian inputs",
    about=("FrozenKernel", "TwoLayer"),
)
def alignment_of_a_linear_predictor() -> Evidence:
    """Compare with the mean of ``u.x K(x, x') u.x'`` over pairs of points, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = np.outer(weights, weights).ravel() / (2 * np.pi)
    x, u = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 2), np.array([0.6, -0.8])
    h = x @ FIRST.T
    slope = 1 - np.tanh(h) ** 2
    curve = -2 * np.tanh(h) * slope

    # gradients with respect to the last and the first layer, weighted with the predictor
    g = weights * (x @ u)
    last, first = g @ np.tanh(h), np.einsum("k,ki,i,kj->ij", g, slope, LAST, x)
    truth = np.sum(last**2) + np.sum(first**2)

    # means of their directional derivatives along u
    along = FIRST @ u
    mixed_last = weights @ (slope * along)
    mixed_first = LAST[:, None] * (np.einsum("k,ki,i,kj->ij", weights, curve, along, x) + np.outer(weights @ slope, u))
    return Evidence(truth, np.sum(mixed_last**2) + np.sum(mixed_first**2))


@formula(
    "2",
    "(2)",
    "bound of the risk by the norm",
    quote=(
        "show [26], for instance, that with high probability "
        r"$\mathcal{R}(f^{\star})\leq\hat{\mathcal{R}}(f^{\star})+\mathcal{O}\left(\sqrt{\cfrac{\|f\|^{2}_{\bm{\Theta}}{\mathbb{E}}_{\bm{x}}[\bm{\Theta}({\bm{x}},{\bm{x}})]}{m}}\right)$"
    ),
    latex=(
        r"\mathbb{E}_\sigma \sup_{\|h\|_\Theta \le R} \tfrac1m \textstyle\sum_i \sigma_i h(x_i) \le R "
        r"\sqrt{\overline{\Theta(x, x)}/m}"
    ),
    verdict="holds under a condition",
    reason=(
        "an empirical risk with a Lipschitz loss, as in bounds by the Rademacher average, which is the part "
        "checked; the share of errors itself does not change with the size of the function"
    ),
    setting="kernel regime",
    about=("FrozenKernel",),
)
def bound_of_the_risk() -> Evidence:
    """Compare with the largest violation over all signs of five samples, and with equality for one sample."""
    signs = np.array(list(product((-1, 1), repeat=5)))
    average = np.mean(np.sqrt(np.einsum("ki,ij,kj->k", signs, KERNEL, signs))) / 5
    bound = np.sqrt(np.mean(np.diag(KERNEL)) / 5)
    norm = np.linalg.norm(FEATURES[0])  # largest value at one sample over functions of norm 1
    return Evidence([0.0, norm], [max(average - bound, 0.0), np.sqrt(KERNEL[0, 0])])


@formula(
    "2",
    "Lemma 1, second formula",
    "alignment by the mean of the Jacobian",
    quote=(
        "Moreover, for the NTK, "
        r"$\alpha(f)=\left\|\mathbb{E}_{\bm{x}}\left[f({\bm{x}})\nabla_{\bm{\theta}}f_{{\bm{\theta}}_{0}}({\bm{x}})\right]\right\|_{2}^{2}$"
    ),
    latex=r"\alpha(f) = |\mathbb{E}_x [f(x) \nabla_\theta f_{\theta_0}(x)]|^2",
    setting="any differentiable network",
    about=("FrozenKernel",),
)
def alignment_by_the_jacobian() -> Evidence:
    """Compare with the double mean over the kernel of a tanh network, written out; the Jacobian is a complex step."""
    x, f = POINTS, F
    hidden = np.tanh(x @ FIRST.T)
    slopes = (1 - hidden**2) * LAST
    theta = hidden @ hidden.T + (slopes @ slopes.T) * (x @ x.T)
    weights = np.concatenate([LAST, FIRST.ravel()])
    steps = (weights + 1e-30j * unit for unit in np.eye(9))
    jacobian = np.array([_network(z[:3], z[3:].reshape(3, 2), x).imag / 1e-30 for z in steps]).T
    return Evidence(f @ theta @ f / 25, np.sum((f @ jacobian / 5) ** 2))


@formula(
    "3.1",
    "second paragraph",
    "alignment of an eigenfunction",
    quote=r"for $\phi_{j}$ the alignment is given by $\alpha(\phi_{j})=\lambda_{j}$ (see Appendix)",
    latex=r"\alpha(\phi_j) = \lambda_j",
    setting="eigenfunctions of mean square 1",
    about=("FrozenKernel",),
)
def alignment_of_an_eigenfunction() -> Evidence:
    """Compare with the double mean over the kernel on five samples, written out."""
    values, vectors = np.linalg.eigh(KERNEL / 5)
    means = [np.mean(np.outer(f, f) * KERNEL) for f in np.sqrt(5) * vectors.T]
    return Evidence(means, values)


@formula(
    "4.2",
    "last paragraph",
    "norm of a linearized network",
    quote=(
        r"Note that in $\mathcal{H}$, $\|\hat{f}_{\bm{\theta}}\|_{\bm{\Theta}}$=$\|\bm{\theta}-\bm{\theta}_{0}\|_{2}$ "
        "[3]"
    ),
    latex=(
        r"\|\hat f_\theta - f_{\theta_0}\|_\Theta = |\theta - \theta_0|,\; \theta - \theta_0 \in "
        r"\operatorname{span} \nabla_\theta f_{\theta_0}"
    ),
    verdict="holds under a condition",
    reason=(
        "weights reached by gradient flow from theta_0, which stay in the span of the gradients; of other weights with "
        "the same function the norm is the smallest length; the linearized network counts from f_{theta_0}, as in "
        "section 4.3"
    ),
    setting="linearized network, more weights than samples",
    about=("FrozenKernel",),
)
def norm_of_a_linearized_network() -> Evidence:
    """Compare with f^T K^-1 f on five samples: of weights trained by integration, and of any weights."""
    from scipy.integrate import solve_ivp

    def rate(_: float, step: Any) -> Any:
        return -FEATURES.T @ (FEATURES @ step - F)

    trained = solve_ivp(rate, (0, 0.2), np.zeros(8), "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    free = np.random.default_rng(3).standard_normal(8)
    outputs = FEATURES @ trained, FEATURES @ free
    truth = [f @ np.linalg.solve(KERNEL, f) for f in outputs]
    along = np.linalg.pinv(FEATURES) @ FEATURES @ free  # part of the weights in the span
    return Evidence(truth, [trained @ trained, along @ along], [trained @ trained, free @ free])


FORMULAS = formula.formulas
