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
    CONTRASTS,
    HIDDEN,
    KC,
    KD,
    KN,
    PHI,
    Q2,
    C,
    M,
    N,
    W,
    Y,
    follow,
    parts,
    residual,
)

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024")
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
    "(29), (60)",
    "the classifier at the end, with any bias",
    r"(W W^\top)^2 \to \tfrac{m}{\mu_c} (I - \alpha 11^\top + (1 - \alpha C)(C b b^\top - b 1^\top - 1 b^\top))",
    condition="$E = 0$, $H_2 = 0$; with the bias that is reached",
    about=COLLAPSE,
    tolerance=1e-8,
)
def final_classifier() -> Evidence:
    """Compare with the weights of a balanced network integrated until it fits."""
    w, _, b = _collapsed(False)
    mixed = np.outer(b, np.ones(C))
    return Evidence((w @ w.T) @ (w @ w.T), M / CLASS * (A + (1 - ALPHA * C) * (C * np.outer(b, b) - mixed - mixed.T)))


@formula(
    "(63)",
    "class means at the end, with any bias",
    r"H_1^\top H_1 (I - \alpha 11^\top) H_1^\top H_1 \to \tfrac{\mu_c}{m} (I - b 1^\top - 1 b^\top + |b|^2 "
    r"11^\top)",
    condition="$E = 0$, $H_2 = 0$; with the bias that is reached",
    about=COLLAPSE,
    tolerance=1e-8,
)
def final_means() -> Evidence:
    """Compare with the weights of a balanced network integrated until it fits."""
    _, first, b = _collapsed(False)
    gram, mixed = first.T @ first, np.outer(b, np.ones(C))
    return Evidence(gram @ A @ gram, CLASS / M * (IDENTITY - mixed - mixed.T + b @ b * ALL))


@formula(
    "(57), second line",
    "the classifier at the end, centered",
    r"\tilde\lambda_c (W W^\top)^2 - m (I - \beta 11^\top)^2 \to 0",
    printed=r"\tilde\lambda_c (W W^\top)^2 - (I - \beta 11^\top)^2 \to 0",
    about=COLLAPSE,
    tolerance=1e-8,
)
def centered_classifier() -> Evidence:
    """Compare with the weights of a balanced, centered network integrated until it fits."""
    w, _, _ = _collapsed(True)
    return Evidence(CLASS * (w @ w.T) @ (w @ w.T), M * CENTER, CENTER)


@formula(
    "(58)",
    "means and classifier at the end, centered",
    r"H_1^\top H_1 \to \sqrt{\tilde\lambda_c/m}\, (I - \tfrac1C 11^\top),\quad W W^\top \to "
    r"\sqrt{m/\tilde\lambda_c}\, (I - \tfrac1C 11^\top)",
    condition=r"$E = 0$, $u \equiv 0$",
    about=COLLAPSE,
    tolerance=1e-8,
)
def centered_means() -> Evidence:
    """Compare with the weights of a balanced, centered network integrated until it fits."""
    w, first, _ = _collapsed(True)
    size = np.sqrt(CLASS / M)
    return Evidence([first.T @ first, w @ w.T], [size * CENTER, CENTER / size])


@formula(
    "NC2",
    "class means at the end, centered",
    r"|h_c| - |h_{c'}| \to 0",
    printed=r"|h_c - h_{c'}| \to 0",
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
    "(30)",
    "angle of the classifier's rows",
    r"\gamma = \tfrac1C (1 - |1 - \beta C| \sqrt{1 - \alpha C})",
    printed=r"\gamma = \tfrac1C (1 - |\beta C| \sqrt{1 - \alpha C})",
    about=COLLAPSE,
)
def angle_of_the_classifier() -> Evidence:
    """Compare with the square root of the matrix of (29) with equal biases, numerically."""
    slow = np.sqrt(1 - ALPHA * C)
    return Evidence(
        -root(TARGET @ A @ TARGET)[0, 1], (1 - abs(1 - BETA * C) * slow) / C, (1 - abs(BETA * C) * slow) / C
    )


@formula(
    "(66), inverse",
    "inverse of a root",
    r"(I - \phi 11^\top)^{-1} = I + \tfrac{\phi}{1 - \phi C} 11^\top",
    printed=r"(I - \phi 11^\top)^{-1} = I - \tfrac{\phi}{1 + \phi C} 11^\top",
    about=COLLAPSE,
)
def inverse_of_the_root() -> Evidence:
    """Compare with the inverse, numerically."""
    phi = (1 - np.sqrt(1 - ALPHA * C)) / C
    truth = np.linalg.inv(root(A))
    return Evidence(truth, IDENTITY + phi / (1 - phi * C) * ALL, IDENTITY - phi / (1 + phi * C) * ALL)


@formula(
    "(66), (68)",
    "angle of the class means",
    r"\theta = \tfrac1C \Bigl(1 - \frac{|1 - \beta C|}{\sqrt{1 - \alpha C}}\Bigr)",
    printed=r"\theta = \tfrac1C \Bigl(1 - \frac{|1 - \beta C|}{2 - \sqrt{1 - \alpha C}}\Bigr)",
    about=COLLAPSE,
)
def angle_of_the_means() -> Evidence:
    """Compare with the positive solution of (64), numerically."""
    slow, size = np.sqrt(1 - ALPHA * C), abs(1 - BETA * C)
    return Evidence(-means(TARGET, A)[0, 1], (1 - size / slow) / C, (1 - size / (2 - slow)) / C)


@formula(
    "(67)",
    "centered class means with equal biases",
    r"M^\top M \to \sqrt{\mu_c/m}\, (I - \tfrac1C 11^\top)",
    condition="$E = 0$; means not normalized",
    about=COLLAPSE,
)
def centered_means_with_equal_biases() -> Evidence:
    """Compare with the positive solution of (64), numerically."""
    size = np.sqrt(CLASS / M)
    return Evidence(size * CENTER @ means(TARGET, A) @ CENTER, size * CENTER)


@formula(
    "(70)",
    "centered class means of a kernel without classes",
    r"M^\top M \to \sqrt{\mu_c/m}\, (I - \tfrac1C 11^\top)",
    printed=r"M^\top M \to \tfrac{\mu_c}{m} (I - \tfrac1C 11^\top)",
    about=COLLAPSE,
    tolerance=1e-5,
)
def means_of_a_kernel_without_classes() -> Evidence:
    """Compare with the positive solution of (63) with generic biases, numerically, at ``1 - alpha C = 1e-8``."""
    target, size = IDENTITY - np.outer([0.2, -0.1, 0.4], np.ones(C)), np.sqrt(CLASS / M)
    found = means(target, IDENTITY - (1 - 1e-8) / C * ALL)
    return Evidence(size * CENTER @ found @ CENTER, size * CENTER, size**2 * CENTER)


class _Blocks:
    """Features and velocities of a network whose feature kernel has matrix blocks, (71)."""

    def __init__(self) -> None:
        rng = np.random.default_rng(8)
        # the roots of A_d, A_c, A_n
        self.halves = [root(S @ S.T) for S in rng.standard_normal((3, HIDDEN, HIDDEN)) / 2]
        V1, V2 = rng.standard_normal((HIDDEN, N)), rng.standard_normal((HIDDEN, C))
        d, c, n = self.halves
        H = d @ V1 + c @ V2 @ Y + n @ rng.standard_normal((HIDDEN, 1)) @ np.ones((1, N))
        self.H = H - H.mean(axis=1)[:, None]  # centered, by choice of the third part
        self.b = np.array([0.2, -0.3, 0.5])
        self.R = residual(W, self.H, self.b)
        pull = -W.T @ self.R
        ones = np.ones((N, 1))
        # chain rule through the three parts of the features
        self.dH = d @ (d.T @ pull) + c @ (c.T @ pull @ Y.T) @ Y + n @ (n.T @ pull @ ones) @ ones.T
        self.dW = -self.R @ self.H.T


@formula(
    "(72)",
    "motion under general blocks",
    r"\dot H = -A_d W^\top R - m A_c W^\top R_{class} - N A_n W^\top R_{global}",
    printed=r"\dot H = -A_d W^\top R + m A_c W^\top R_{class} + N A_n W^\top R_{global}",
    about=COLLAPSE,
)
def motion_under_general_blocks() -> Evidence:
    """Compare with the velocity of the features of a network with this kernel, by the chain rule from its weights."""
    net = _Blocks()
    d, c, n = (half @ half for half in net.halves)
    own = -d @ W.T @ net.R
    rest = c @ W.T @ net.R @ Y.T @ Y + n @ W.T @ net.R.sum(axis=1)[:, None] * np.ones(N)
    return Evidence(net.dH, own - rest, own + rest)


@formula(
    "(79)",
    "blocks of a kernel that knows classes only",
    r"A_d = (\kappa_d - \kappa_c) I,\; A_c = (\kappa_c - \kappa_n) I,\; A_n = \kappa_n I",
    printed=r"A_d = \kappa_d I,\; A_c = \kappa_c I,\; A_n = \kappa_n I",
    about=COLLAPSE,
)
def blocks_of_a_kernel_of_classes() -> Evidence:
    """Compare with the kernel written entry by entry; deviations from these blocks are not included."""
    label = np.repeat(np.arange(C), M)
    truth = np.where(np.eye(N) > 0, KD, np.where(label[:, None] == label, KC, KN))

    def kernel(own: float, mate: float) -> Any:
        return own * np.eye(N) + mate * Y.T @ Y + KN

    return Evidence(truth, kernel(KD - KC, KC - KN), kernel(KD, KC))


@formula(
    "(77), (78)",
    "rate of E, which is no longer invariant",
    r"\dot E = [B_1 W^\top R_1 H_1^\top + \mathrm{h.c.}] + [B_2 W^\top W H_2 H_2^\top + \mathrm{h.c.}],\; B_1 "
    r"= c_1 (A_d + m A_c) - m I,\; B_2 = c_2 A_d - m I",
    printed=r"\dot E = [B_1 W^\top R_1 H_1^\top - \mathrm{h.c.}] + [B_2 W^\top W H_2 H_2^\top - \mathrm{h.c.}]",
    about=COLLAPSE,
)
def no_longer_invariant() -> Evidence:
    """Compare with the derivative of E along the velocities of a network with this kernel, by a complex step."""
    net, (c1, c2) = _Blocks(), (0.7, 1.6)

    def E(w: Any, features: Any) -> Any:
        first, second = parts(features)
        return w.T @ w - c1 * first @ first.T - c2 * second @ second.T

    truth = E(W + 1e-30j * net.dW, net.H + 1e-30j * net.dH).imag / 1e-30
    first, second = net.H @ Y.T / M, net.H @ Q2 / np.sqrt(M)
    d, c, _ = (half @ half for half in net.halves)
    one = (c1 * (d + M * c) - M * np.eye(HIDDEN)) @ W.T @ (net.R @ Y.T / M) @ first.T
    two = (c2 * d - M * np.eye(HIDDEN)) @ W.T @ W @ second @ second.T
    return Evidence(truth, one + one.T + two + two.T, one - one.T + two - two.T)


@formula(
    "(21)-(24)",
    "class means and scatter",
    r"Y Q = \sqrt m\, [I, 0],\quad H_1 = [\langle h \rangle_1, \ldots, \langle h \rangle_C]",
    about=COLLAPSE,
)
def class_means_and_scatter() -> Evidence:
    """Compare with the averages of the features over each class and the squared distances from them."""
    net = _Blocks()
    groups = net.H.reshape(HIDDEN, C, M)
    spread = sum(np.sum((groups[:, k] - groups[:, k].mean(axis=1)[:, None]) ** 2) for k in range(C))
    first, second = parts(net.H)
    truth = np.append(groups.mean(axis=2), [spread, 0.0])
    return Evidence(truth, np.append(first, [M * np.sum(second**2), np.abs(np.ones(M) @ CONTRASTS).max()]))


FORMULAS = formula.formulas
