"""Seleznova (2024), appendix B: identities behind neural collapse and the end of training."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.collapse.published import (
    ALL,
    ALPHA,
    CLASS,
    COLLAPSE,
    H1,
    H2,
    KC,
    KD,
    KERNEL,
    KN,
    PHI,
    Q2,
    R1,
    SINGLE,
    B,
    C,
    H,
    M,
    N,
    V,
    W,
    Y,
    parts,
    rates,
    residual,
)

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024", "balanced classes, kernels with blocks (assumption 3.2)")


@formula(
    "3.3/5.3",
    "(28)",
    "the invariant where it vanishes",
    quote=(
        "our proofs in fact only require a weaker assumption that the invariant terms containing features "
        r"$\mathbf{H}$ are aligned with the weights $\mathbf{W}^\top \mathbf{W}$, i.e. $\mathbf{W}^\top "
        r"\mathbf{W} \propto \frac{1}{\mu_{\text{class}}} \mathbf{H}_1 \mathbf{H}_1^\top - "
        r"\frac{1}{\mu_{\text{single}}} \mathbf{H}_2 \mathbf{H}_2^\top$"
    ),
    latex=r"W^\top W \propto \tfrac{1}{\mu_c} H_1 H_1^\top + \tfrac{1}{\mu_s} H_2 H_2^\top",
    verdict="typographical",
    reason=(
        "both terms of features have the same sign in (26); the two forms agree once the scatter has vanished, at the "
        "end of training"
    ),
    setting="balanced classes, kernels with blocks (assumption 3.2), zero global mean",
    about=COLLAPSE,
)
def vanishing_invariant() -> Evidence:
    """Compare with W W^T of a start with H K^-1 H^T = W^T W and centered features, made from a random rotation."""
    spread = np.linalg.qr(np.random.default_rng(1).standard_normal((C - 1 + N - C, C)))[0].T
    frame = np.linalg.svd(np.ones((1, C)))[2][1:].T
    scatter = np.hstack([spread[:, : C - 1] @ frame.T * np.sqrt(CLASS), spread[:, C - 1 :] * np.sqrt(SINGLE)])
    first, second = W.T @ scatter[:, :C] / np.sqrt(M), W.T @ scatter[:, C:] / np.sqrt(M)
    own, other = first @ first.T / CLASS, second @ second.T / SINGLE
    return Evidence(W.T @ W / M, own + other, own - other)


@formula(
    "3.3/B.2",
    "below (39)",
    "eigenvalues that drive features",
    quote=(
        r"Notice that $\mu_{\text{single}}$ and $\mu_{\text{class}}$ are the two largest eigenvalues of the "
        "block-structured kernel"
    ),
    latex=r"\mu_s \le \mu_c \le \mu_g:\; \text{the two smallest}",
    verdict="typographical",
    reason="the two smallest, as in Theorem 5.1 and Table 1",
    about=("BlockKernel", *COLLAPSE),
)
def eigenvalues_that_drive_features() -> Evidence:
    """Compare with the three different eigenvalues of the kernel, numerically, in order."""
    different = np.linalg.eigvalsh(KERNEL)[[0, -C, -1]]
    return Evidence([SINGLE, CLASS], different[:2], different[1:])


@formula(
    "3.3/B.2",
    "(40)",
    "motion of the classifier",
    quote=r"$\dot{\mathbf{W}} = -m(\mathbf{R}_1 \mathbf{H}_1^\top - \mathbf{W}\mathbf{H}_2 \mathbf{H}_2^\top)$",
    latex=r"\dot W = -m (R_1 H_1^\top + W H_2 H_2^\top)",
    verdict="typographical",
    reason="(38) and (25) have the plus sign",
    about=("HiddenMode", *COLLAPSE),
)
def motion_of_the_classifier() -> Evidence:
    """Compare with the velocity of the classifier of a network that has the kernel."""
    own, other = R1 @ H1.T, W @ H2 @ H2.T
    return Evidence(rates(W, V, B).W, -M * (own + other), -M * (own - other))


@formula(
    "3.3/B.2",
    "(41), (42)",
    "motion of the means",
    quote=(
        r"$\frac{1}{C} \mathbf{W} \mathbf{H}_1 \mathbf{1}_C \mathbf{1}_C^\top + \mathbf{b} \mathbf{1}_C^\top - "
        r"\frac{1}{C} \mathbf{1}_C \mathbf{1}_C^\top = \frac{1}{C} \mathbf{R}_1 \mathbf{1}_C \mathbf{1}_C^\top$"
    ),
    latex=r"\tfrac1C W H_1 11^\top + b 1^\top - \tfrac1C 11^\top = \tfrac1C R_1 11^\top",
    about=COLLAPSE,
)
def motion_of_the_means() -> Evidence:
    """Compare with both sides at generic weights, and with the velocity of the means in the form (40)."""
    left = W @ H1 @ ALL / C + np.outer(B, np.ones(C)) - ALL / C
    velocity = -W.T @ (CLASS * R1 + KN * N * left)
    return Evidence(rates(W, V, B).H1, velocity)


@cache
def _fitted() -> tuple[Any, Any, Any]:
    """Return a classifier, features and bias with R_1 = 0 and with scatter."""
    means = np.linalg.pinv(W) @ (np.eye(C) - B[:, None])
    features = means @ Y + H2 @ Q2.T * np.sqrt(M)
    return W, features @ np.linalg.inv(PHI), B


def _excess() -> tuple[Any, Any, Any]:
    """Return ``E~`` of (45), and the velocities of the fitted network."""
    w, v, b = _fitted()
    scatter = parts(v @ PHI)[1]
    return SINGLE * w.T @ w - M * scatter @ scatter.T, scatter, rates(w, v, b)


@formula(
    "3.3/B.3",
    "(44)",
    "motion at the end of training",
    quote=(
        r"the dynamics eventually enters the end of training phase [...] $\begin{cases} \dot{\mathbf{H}}_1 = "
        r"\mathbb{O} \\ \dot{\mathbf{H}}_2 = -\mu_{\text{single}} \mathbf{W}^\top \mathbf{W} \mathbf{H}_2 \\ "
        r"\dot{\mathbf{W}} = -m \mathbf{W} \mathbf{H}_2 \mathbf{H}_2^\top \\ \dot{\mathbf{b}} = \mathbb{O} "
        r"\end{cases}$"
    ),
    latex=r"R_1 = 0:\; \dot H_1 = 0,\; \dot H_2 = -\mu_s W^\top W H_2,\; \dot W = -m W H_2 H_2^\top,\; \dot b = 0",
    verdict="leading order",
    reason=(
        "exact where the class means of the residuals are zero, as assumed; their rate there, -m W H_2 H_2^T H_1, is "
        "neglected"
    ),
    setting="class means of the residuals nearly zero and treated as zero (section 4.1)",
    about=COLLAPSE,
)
def residuals_at_the_end() -> Evidence:
    """Compare with the velocities of a network with fitted class means, by the chain rule from its weights."""
    w, v, _ = _fitted()
    (means, scatter), found = parts(v @ PHI), _excess()[2]
    of_residuals = found.W @ means + w @ found.H1 + found.b[:, None]
    turning = -M * w @ scatter @ scatter.T
    stated = np.zeros_like(means), -SINGLE * w.T @ w @ scatter, turning, np.zeros_like(found.b), turning @ means
    groups = (*found, of_residuals), stated
    return Evidence(*(np.concatenate([np.ravel(each) for each in group]) for group in groups))


@formula(
    "3.3/5.2",
    "(27)",
    "invariant at the end of training",
    quote=(
        "the end of training dynamics defined in (20) has a hyperbolic invariant given by "
        r"$\mathbf{E}_{\text{eot}} := \mathbf{W}^\top \mathbf{W} - \frac{1}{\mu_{\text{single}}} \mathbf{H} "
        r"\mathbf{H}^\top$"
    ),
    latex=r"\frac{d}{dt} \Bigl(W^\top W - \tfrac{1}{\mu_s} H H^\top\Bigr) = 0 \text{ under (20)}",
    setting="end of training, flow (20)",
    about=COLLAPSE,
)
def invariant_of_the_last_phase() -> Evidence:
    """Compare with classifier and features integrated under (20) from generic values."""
    from scipy.integrate import solve_ivp

    def rate(_: float, z: Any) -> Any:
        w, h = z[: W.size].reshape(W.shape), z[W.size :].reshape(H.shape)
        left = residual(w, h, B)
        return np.concatenate([(-left @ h.T).ravel(), (-SINGLE * w.T @ left).ravel()])

    def invariant(z: Any) -> Any:
        w, h = z[: W.size].reshape(W.shape), z[W.size :].reshape(H.shape)
        return w.T @ w - h @ h.T / SINGLE

    start = np.concatenate([W.ravel(), H.ravel()])
    end = solve_ivp(rate, (0, 0.5), start, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    return Evidence(invariant(end), invariant(start))


@formula(
    "3.3/B.3",
    "(45)",
    "the invariant at the end",
    quote=(
        r"$\tilde{\mathbf{E}} := \mu_{\text{single}} \mathbf{W}^\top \mathbf{W} - m \mathbf{H}_2 "
        r"\mathbf{H}_2^\top = m \mu_{\text{single}} (\mathbf{E} + \frac{1}{\mu_{\text{class}}} \mathbf{H}_1 "
        r"(\mathbb{I} - \alpha \mathbf{1}_C \mathbf{1}_C^\top) \mathbf{H}_1^\top)$"
    ),
    latex=(
        r"\tilde E = \mu_s W^\top W - m H_2 H_2^\top = m \mu_s (E + \tfrac{1}{\mu_c} H_1 (I - \alpha 11^\top) "
        r"H_1^\top)"
    ),
    about=COLLAPSE,
)
def invariant_at_the_end() -> Evidence:
    """Compare with both sides at generic weights, from the inverse of the whole kernel."""
    whole = W.T @ W / M - H @ np.linalg.solve(KERNEL, H.T) / M
    left = SINGLE * W.T @ W - M * H2 @ H2.T
    return Evidence(left, M * SINGLE * (whole + H1 @ (np.eye(C) - ALPHA * ALL) @ H1.T / CLASS))


@formula(
    "3.3/B.3",
    "(46), first line",
    "scatter at the end of training",
    quote=(
        r"$\dot{\mathbf{H}}_2 = -\mu_{\text{single}} (\tilde{\mathbf{E}} + m \mathbf{H}_2 \mathbf{H}_2^\top) "
        r"\mathbf{H}_2$"
    ),
    latex=r"\dot H_2 = -(\tilde E + m H_2 H_2^\top) H_2",
    verdict="typographical",
    reason="by (44) and (45) the factor mu_single is already in the bracket; (47) does not carry it",
    setting="end of training, kernels with blocks",
    about=("BiasedMode", *COLLAPSE),
)
def scatter_at_the_end() -> Evidence:
    """Compare with the velocity of the scatter of a network with fitted class means."""
    excess, scatter, found = _excess()
    right = -(excess + M * scatter @ scatter.T) @ scatter
    return Evidence(found.H2, right, SINGLE * right)


@formula(
    "3.3/B.3",
    "(46), second line",
    "the classifier at the end of training",
    quote=r"$\dot{\mathbf{W}} = -\mathbf{W} (\mu_{\text{single}} \mathbf{W}^\top \mathbf{W} - \tilde{\mathbf{E}})$",
    latex=r"\dot W = -W (\mu_s W^\top W - \tilde E)",
    setting="end of training, kernels with blocks",
    about=COLLAPSE,
)
def classifier_at_the_end() -> Evidence:
    """Compare with the velocity of the classifier of a network with fitted class means."""
    excess, _, found = _excess()
    return Evidence(found.W, -W @ (SINGLE * W.T @ W - excess))


@formula(
    "3.3/B.3",
    "(47)",
    "covariance of the scatter",
    quote=(
        r"$(\mathbf{H}_2 \mathbf{H}_2^\top)^\cdot = -\tilde{\mathbf{E}} \mathbf{H}_2 \mathbf{H}_2^\top - "
        r"\mathbf{H}_2 \mathbf{H}_2^\top \tilde{\mathbf{E}} - 2(\mathbf{H}_2 \mathbf{H}_2^\top)^2$"
    ),
    latex=(
        r"\dot{\mathcal A} = -\tilde E \mathcal A - \mathcal A \tilde E - 2 m \mathcal A^2,\; \mathcal A = H_2 "
        r"H_2^\top"
    ),
    verdict="typographical",
    reason=(
        "the factor m of (46) is dropped in the last term, here and in (48), (49), as if H_2 had no factor 1/sqrt(m) "
        "in (23); the limit (50) is unaffected"
    ),
    setting="end of training, kernels with blocks",
    about=("BiasedMode", *COLLAPSE),
)
def covariance_of_the_scatter() -> Evidence:
    """Compare with the velocity of the scatter of a network with fitted class means."""
    excess, scatter, found = _excess()
    moved, A = found.H2 @ scatter.T, scatter @ scatter.T
    linear = -excess @ A - A @ excess
    return Evidence(moved + moved.T, linear - 2 * M * A @ A, linear - 2 * A @ A)


@formula(
    "3.3/B.3",
    "(54)",
    "the invariant through the mean",
    quote=(
        r"$\frac{1}{m} \mathbf{W}^\top \mathbf{W} - \frac{1}{\mu_{\text{class}}} \mathbf{H}_1 \mathbf{H}_1^\top - "
        r"\frac{1}{\mu_{\text{single}}} \mathbf{H}_2 \mathbf{H}_2^\top = \mathbf{E} - \frac{\alpha m "
        r"C^2}{\mu_{\text{class}}} \langle h \rangle \langle h \rangle^\top = \mathbf{E}$"
    ),
    latex=(
        r"\tfrac1m W^\top W - \tfrac{1}{\mu_c} H_1 H_1^\top - \tfrac{1}{\mu_s} H_2 H_2^\top = E - \tfrac{\alpha "
        r"C^2}{\mu_c} \langle h \rangle\langle h \rangle^\top"
    ),
    verdict="holds under a condition",
    reason=(
        "with zero global mean, as assumed there, all three sides are equal; at any other mean the term that vanishes "
        "has no factor m, by (26)"
    ),
    setting="balanced classes, kernels with blocks (assumption 3.2), zero global mean",
    about=COLLAPSE,
)
def invariant_through_the_mean() -> Evidence:
    """Compare with E from the inverse of the whole kernel, for features of zero mean and for generic ones."""
    centered = H - H.mean(axis=1)[:, None]
    sides = []
    for features in (centered, H):
        (first, second), mean = parts(features), features.mean(axis=1)
        whole = (W.T @ W - features @ np.linalg.solve(KERNEL, features.T)) / M
        shift = ALPHA * C**2 / CLASS * np.outer(mean, mean)
        sides.append((W.T @ W / M - first @ first.T / CLASS - second @ second.T / SINGLE, whole, shift))
    (zero, whole, none), (left, moved, shift) = sides
    return Evidence([zero, left], [whole - M * none, moved - shift])


@formula(
    "3.3/B.4",
    "(69)",
    "the share of the global mean",
    quote=(
        r"$\alpha = \frac{1}{\frac{\kappa_c}{\kappa_n}\left(1 - \frac{1}{m}\right) + "
        r"\frac{\kappa_d}{\kappa_n}\frac{1}{m} + (C - 1)}$"
    ),
    latex=r"\alpha^{-1} = \tfrac{\kappa_c}{\kappa_n} (1 - \tfrac1m) + \tfrac{\kappa_d}{\kappa_n m} + C - 1",
    about=COLLAPSE,
)
def share_of_the_global_mean() -> Evidence:
    """Compare with the inverse of the kernel of class means, numerically: I - alpha 11^T up to a factor."""
    inverse = np.linalg.inv(CLASS * np.eye(C) + KN * M * ALL) * CLASS
    return Evidence(-inverse[0, 1], 1 / (KC / KN * (1 - 1 / M) + KD / KN / M + C - 1))


FORMULAS = formula.formulas
