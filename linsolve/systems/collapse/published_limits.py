"""Seleznova (2024), section 3.3, appendices B and D: limits of features, and kernels of more general blocks."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.collapse.published import (
    ALL,
    ALPHA,
    CENTER,
    CLASS,
    COLLAPSE,
    HIDDEN,
    PHI,
    C,
    M,
    W,
    Y,
    follow,
    parts,
)

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024", "balanced classes, kernels with blocks (assumption 3.2)")
IDENTITY = np.eye(C)
BETA = 0.11
TARGET = IDENTITY - BETA * ALL  # limit of W H_1 with equal biases
A = IDENTITY - ALPHA * ALL


def root(matrix: Any) -> Any:
    """Return the square root of a symmetric positive matrix, numerically."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def means(target: Any, share: Any) -> Any:
    """Return the X > 0 with ``X A X = T^T T``, numerically: ``H1^T H1`` up to its factor, by (63)."""
    half = root(share)
    back = np.linalg.inv(half)
    return back @ root(half @ target.T @ target @ half) @ back


@cache
def _collapsed(centered: bool) -> tuple[Any, Any, Any]:
    """Return classifier, class means and bias of a balanced network, integrated to its end."""
    start = CENTER @ W if centered else W + 0.3 * IDENTITY[:, :1] @ np.ones((1, HIDDEN))
    first = np.sqrt(CLASS / M) * start.T @ np.linalg.inv(root(A))
    bias = np.ones(C) / C if centered else np.array([0.2, -0.1, 0.4])
    w, v, b = follow((start, first @ Y @ np.linalg.inv(PHI), bias), 25.0)
    return w, parts(v @ PHI)[0], b


@formula(
    "3.3/5.3",
    "(29); B.4, (60)",
    "the classifier at the end, with any bias",
    quote=(
        r"$(\mathbf{W}\mathbf{W}^\top)^2 = \frac{m}{\mu_{\text{class}}} \left( \mathbb{I}_C - \alpha \mathbf{1}_C "
        r"\mathbf{1}_C^\top + (1 - \alpha C)(C\mathbf{b}\mathbf{b}^\top - \mathbf{b}\mathbf{1}_C^\top - "
        r"\mathbf{1}_C\mathbf{b}^\top) \right)$"
    ),
    latex=r"(W W^\top)^2 \to \tfrac{m}{\mu_c} (I - \alpha 11^\top + (1 - \alpha C)(C b b^\top - b 1^\top - 1 b^\top))",
    setting="zero loss, E = 0, no scatter",
    about=COLLAPSE,
    tolerance=1e-8,
)
def final_classifier() -> Evidence:
    """Compare with the weights of a balanced network integrated until it fits."""
    w, _, b = _collapsed(False)
    mixed = np.outer(b, np.ones(C))
    return Evidence((w @ w.T) @ (w @ w.T), M / CLASS * (A + (1 - ALPHA * C) * (C * np.outer(b, b) - mixed - mixed.T)))


@formula(
    "3.3/B.4",
    "(63)",
    "class means at the end, with any bias",
    quote=(
        r"$\mathbf{H}_1^\top\mathbf{H}_1(\mathbb{I}_C - "
        r"\alpha\mathbf{1}_C\mathbf{1}_C^\top)\mathbf{H}_1^\top\mathbf{H}_1 \rightarrow "
        r"\frac{\mu_{\text{class}}}{m}\left(\mathbb{I}_C - \mathbf{b}\mathbf{1}_C^\top - "
        r"\mathbf{1}_C\mathbf{b}^\top + \|\mathbf{b}\|_2^2\mathbf{1}_C\mathbf{1}_C^\top\right)$"
    ),
    latex=(
        r"H_1^\top H_1 (I - \alpha 11^\top) H_1^\top H_1 \to \tfrac{\mu_c}{m} (I - b 1^\top - 1 b^\top + |b|^2 "
        r"11^\top)"
    ),
    setting="zero loss, E = 0, no scatter",
    about=COLLAPSE,
    tolerance=1e-8,
)
def final_means() -> Evidence:
    """Compare with the weights of a balanced network integrated until it fits."""
    _, first, b = _collapsed(False)
    gram, mixed = first.T @ first, np.outer(b, np.ones(C))
    return Evidence(gram @ A @ gram, CLASS / M * (IDENTITY - mixed - mixed.T + b @ b * ALL))


@formula(
    "3.3/B.3",
    "(57), second line",
    "the classifier at the end, centered",
    quote=(
        r"$\tilde{\lambda}_c (\mathbf{W} \mathbf{W}^\top)^2 - (\mathbb{I}_C - \beta \mathbf{1}_C "
        r"\mathbf{1}_C^\top)^2 \rightarrow \mathbb{O}$"
    ),
    latex=r"\tilde\lambda_c (W W^\top)^2 - m (I - \beta 11^\top)^2 \to 0",
    verdict="typographical",
    reason="the factor m of (56) belongs to the second term; (58) has it",
    setting="zero loss, E = 0, no scatter, zero global mean",
    about=COLLAPSE,
    tolerance=1e-8,
)
def centered_classifier() -> Evidence:
    """Compare with the weights of a balanced, centered network integrated until it fits."""
    w, _, _ = _collapsed(True)
    return Evidence(CLASS * (w @ w.T) @ (w @ w.T), M * CENTER, CENTER)


@formula(
    "3.3/B.3",
    "(58)",
    "means and classifier at the end, centered",
    quote=(
        r"$\mathbf{H}_1^\top \mathbf{H}_1 \rightarrow \sqrt{\frac{\tilde{\lambda}_c}{m}} (\mathbb{I}_C - \beta "
        r"\mathbf{1}_C \mathbf{1}_C^\top) \\ \mathbf{W} \mathbf{W}^\top \rightarrow "
        r"\sqrt{\frac{m}{\tilde{\lambda}_c}} (\mathbb{I}_C - \beta \mathbf{1}_C \mathbf{1}_C^\top)$"
    ),
    latex=(
        r"H_1^\top H_1 \to \sqrt{\tilde\lambda_c/m}\, (I - \tfrac1C 11^\top),\quad W W^\top \to "
        r"\sqrt{m/\tilde\lambda_c}\, (I - \tfrac1C 11^\top)"
    ),
    setting="zero loss, E = 0, no scatter, zero global mean",
    about=COLLAPSE,
    tolerance=1e-8,
)
def centered_means() -> Evidence:
    """Compare with the weights of a balanced, centered network integrated until it fits."""
    w, first, _ = _collapsed(True)
    size = np.sqrt(CLASS / M)
    return Evidence([first.T @ first, w @ w.T], [size * CENTER, CENTER / size])


@formula(
    "3.3/2.1",
    "(NC2)",
    "class means at the end, centered",
    quote=(
        r"for all $c, c' \in [C]$, the class means converge to the following configuration: $\|\langle h "
        r"\rangle_c - \langle h \rangle_{c'}\|_2 \rightarrow 0, \quad \mathbf{M}^\top \mathbf{M} \rightarrow "
        r"\frac{C}{C-1} (\mathbb{I}_C - \frac{1}{C} \mathbf{1}_C \mathbf{1}_C^\top)$"
    ),
    latex=(
        r"\|\langle \bar h \rangle_c\| - \|\langle \bar h \rangle_{c'}\| \to 0,\quad \langle \bar h \rangle_c = "
        r"\langle h \rangle_c - \langle h \rangle"
    ),
    verdict="typographical",
    reason=(
        "the difference of the norms of the centered means tends to 0, as in Papyan et al.; equal means would "
        "contradict the second limit"
    ),
    setting="zero loss, E = 0, no scatter, zero global mean",
    about=COLLAPSE,
    tolerance=1e-8,
)
def lengths_of_class_means() -> Evidence:
    """Compare with the weights of a balanced, centered network integrated until it fits."""
    means = _collapsed(True)[1]
    lengths, apart = np.linalg.norm(means, axis=0), np.linalg.norm(means[:, 0] - means[:, 1])
    size = np.sqrt(2) * (CLASS / M) ** 0.25
    return Evidence([np.ptp(lengths), apart], [0, size], [0, 0])


@formula(
    "3.3/5.3",
    "(30)",
    "angle of the classifier's rows",
    quote=r"where $\gamma := \frac{1}{C}(1 - |\beta C| \sqrt{1 - \alpha C}) < \frac{1}{C}$",
    latex=r"\gamma = \tfrac1C (1 - |1 - \beta C| \sqrt{1 - \alpha C})",
    verdict="typographical",
    reason=r"(61) and (68) have $|1 - \beta C|$",
    setting="zero loss, E = 0, no scatter, equal biases",
    about=COLLAPSE,
)
def angle_of_the_classifier() -> Evidence:
    """Compare with the square root of the matrix of (29) with equal biases, numerically."""
    slow = np.sqrt(1 - ALPHA * C)
    return Evidence(
        -root(TARGET @ A @ TARGET)[0, 1], (1 - abs(1 - BETA * C) * slow) / C, (1 - abs(BETA * C) * slow) / C
    )


@formula(
    "3.3/B.4",
    "(66), inverse",
    "inverse of a root",
    quote=(
        r"$\mathbf{H}_1^\top\mathbf{H}_1 \rightarrow \sqrt{\frac{\mu_{\text{class}}}{m}}\left(\mathbb{I}_C - "
        r"\tilde{\rho}\mathbf{1}_C\mathbf{1}_C^\top\right)\left(\mathbb{I}_C - \frac{\phi}{1 + \phi "
        r"C}\mathbf{1}_C\mathbf{1}_C^\top\right)$"
    ),
    latex=r"(I - \phi 11^\top)^{-1} = I + \tfrac{\phi}{1 - \phi C} 11^\top",
    verdict="incorrect",
    reason=(
        "the second bracket is to invert I - phi 1 1^T of (65), and inverts I + phi 1 1^T; the angle theta of (66), "
        "(68) is computed from it"
    ),
    setting="zero loss, E = 0, no scatter, equal biases",
    about=COLLAPSE,
)
def inverse_of_the_root() -> Evidence:
    """Compare with the inverses of the root and of I + phi 1 1^T, numerically."""
    phi = (1 - np.sqrt(1 - ALPHA * C)) / C
    truth, other = np.linalg.inv(root(A)), np.linalg.inv(IDENTITY + phi * ALL)
    printed = IDENTITY - phi / (1 + phi * C) * ALL
    return Evidence([truth, other], [IDENTITY + phi / (1 - phi * C) * ALL, printed], [printed, printed])


@formula(
    "3.3/B.4",
    "(66), (68), theta",
    "angle of the class means",
    quote=r"$\theta = \frac{1}{C}\left(1 - \frac{|1 - \beta C|}{2 - \sqrt{1 - \alpha C}}\right)$",
    latex=r"\theta = \tfrac1C \Bigl(1 - \frac{|1 - \beta C|}{\sqrt{1 - \alpha C}}\Bigr)",
    verdict="incorrect",
    reason=(
        "computed from the inverse in (66); the conclusions drawn (theta < 1/C, equality with gamma at alpha = 0 "
        "only) hold for the corrected angle"
    ),
    setting="zero loss, E = 0, no scatter, equal biases",
    follows="inverse_of_the_root",
    about=COLLAPSE,
)
def angle_of_the_means() -> Evidence:
    """Compare with the positive solution of (64), numerically."""
    slow, size = np.sqrt(1 - ALPHA * C), abs(1 - BETA * C)
    return Evidence(-means(TARGET, A)[0, 1], (1 - size / slow) / C, (1 - size / (2 - slow)) / C)


@formula(
    "3.3/B.4",
    "(67)",
    "centered class means with equal biases",
    quote=(
        r"the centralized class means given by $\mathbf{M} = \mathbf{H}_1(\mathbb{I}_C - "
        r"\mathbf{1}_C\mathbf{1}_C^\top/C)$ still form the ETF structure: $\mathbf{M}^\top\mathbf{M} \rightarrow "
        r"\sqrt{\frac{\mu_{\text{class}}}{m}}\left(\mathbb{I}_C - \frac{1}{C}\mathbf{1}_C\mathbf{1}_C^\top\right)$"
    ),
    latex=r"M^\top M \to \sqrt{\mu_c/m}\, (I - \tfrac1C 11^\top)",
    setting="zero loss, E = 0, no scatter, equal biases",
    about=COLLAPSE,
)
def centered_means_with_equal_biases() -> Evidence:
    """Compare with the positive solution of (64), numerically."""
    size = np.sqrt(CLASS / M)
    return Evidence(size * CENTER @ means(TARGET, A) @ CENTER, size * CENTER)


@formula(
    "3.3/B.4",
    "(70)",
    "centered class means of a kernel without classes",
    quote=(
        r"If $\alpha = 1/C$, the equation (63) for the structure of the features class means with general (not "
        r"equal) biases simplifies to $\mathbf{M}^\top \mathbf{M} \rightarrow \frac{\mu_{\text{class}}}{m} \left( "
        r"\mathbb{I}_C - \frac{1}{C} \mathbf{1}_C \mathbf{1}_C^\top \right)$"
    ),
    latex=r"M^\top M \to \sqrt{\mu_c/m}\, (I - \tfrac1C 11^\top)",
    verdict="typographical",
    reason="(63) gives the square of the left side: the right side has a root, as in (67); the frame is the same",
    setting="zero loss, E = 0, no scatter, alpha -> 1/C",
    about=COLLAPSE,
    tolerance=1e-5,
)
def means_of_a_kernel_without_classes() -> Evidence:
    """Compare with the positive solution of (63) with generic biases, numerically, at ``1 - alpha C = 1e-8``."""
    target, size = IDENTITY - np.outer([0.2, -0.1, 0.4], np.ones(C)), np.sqrt(CLASS / M)
    found = means(target, IDENTITY - (1 - 1e-8) / C * ALL)
    return Evidence(size * CENTER @ found @ CENTER, size * CENTER, size**2 * CENTER)


FORMULAS = formula.formulas
