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
    raw,
)

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024")


@formula(
    "(28)",
    "the invariant where it vanishes",
    r"\tfrac1m W^\top W = \tfrac{1}{\mu_c} H_1 H_1^\top + \tfrac{1}{\mu_s} H_2 H_2^\top",
    printed=r"W^\top W \propto \tfrac{1}{\mu_c} H_1 H_1^\top - \tfrac{1}{\mu_s} H_2 H_2^\top",
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
    "after (39)",
    "eigenvalues that drive features",
    r"\mu_s \le \mu_c \le \mu_g:\; \text{the two smallest}",
    printed=r"\mu_s, \mu_c \text{ the two largest}",
    about=("BlockKernel", *COLLAPSE),
)
def eigenvalues_that_drive_features() -> Evidence:
    """Compare with the three different eigenvalues of the kernel, numerically, in order."""
    different = np.linalg.eigvalsh(KERNEL)[[0, -C, -1]]
    return Evidence([SINGLE, CLASS], different[:2], different[1:])


@formula(
    "(40)",
    "motion of the classifier",
    r"\dot W = -m (R_1 H_1^\top + W H_2 H_2^\top)",
    printed=r"\dot W = -m (R_1 H_1^\top - W H_2 H_2^\top)",
    about=("HiddenMode", *COLLAPSE),
)
def motion_of_the_classifier() -> Evidence:
    """Compare with the velocity of the classifier of a network that has the kernel."""
    own, other = R1 @ H1.T, W @ H2 @ H2.T
    return Evidence(rates(W, V, B).W, -M * (own + other), -M * (own - other))


@formula(
    "(41), (42)",
    "motion of the means",
    r"\tfrac1C W H_1 11^\top + b 1^\top - \tfrac1C 11^\top = \tfrac1C R_1 11^\top",
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
    "(44)",
    "residuals of class means at the end of training",
    r"\dot R_1 = -m W H_2 H_2^\top H_1",
    printed=r"\dot R_1 = 0",
    condition="$R_1 = 0$; zero where only the mean output sees the scatter",
    about=COLLAPSE,
)
def residuals_at_the_end() -> Evidence:
    """Compare with the velocity of the residuals of a network with fitted class means."""
    w, v, _ = _fitted()
    first, second = parts(v @ PHI)
    found = _excess()[2]
    moved = found.W @ first + w @ found.H1 + found.b[:, None]
    return Evidence(moved, -M * w @ second @ second.T @ first, 0 * moved)


@formula(
    "(27)",
    "an invariant of (20) under the whole flow (19)",
    r"\frac{d}{dt} (W^\top W - \tfrac{1}{\mu_s} H H^\top) = m \frac{d}{dt} H_1 (\tfrac{1}{\mu_c} (I - \alpha "
    r"11^\top) - \tfrac{1}{\mu_s} I) H_1^\top",
    printed=r"\frac{d}{dt} (W^\top W - \tfrac{1}{\mu_s} H H^\top) = 0",
    about=COLLAPSE,
)
def invariant_under_the_whole_flow() -> Evidence:
    """Compare with the derivative of the invariant along the velocities of a generic network."""
    dW, dV, _ = raw(W, V, B)
    truth = W.T @ dW - H @ (dV @ PHI).T / SINGLE
    own = H1 @ ((np.eye(C) - ALPHA * ALL) / CLASS - np.eye(C) / SINGLE) @ rates(W, V, B).H1.T * M
    return Evidence(truth + truth.T, own + own.T, 0 * own)


@formula(
    "(45)",
    "the invariant at the end",
    r"\tilde E = \mu_s W^\top W - m H_2 H_2^\top = m \mu_s (E + \tfrac{1}{\mu_c} H_1 (I - \alpha 11^\top) "
    r"H_1^\top)",
    about=COLLAPSE,
)
def invariant_at_the_end() -> Evidence:
    """Compare with both sides at generic weights, from the inverse of the whole kernel."""
    whole = W.T @ W / M - H @ np.linalg.solve(KERNEL, H.T) / M
    left = SINGLE * W.T @ W - M * H2 @ H2.T
    return Evidence(left, M * SINGLE * (whole + H1 @ (np.eye(C) - ALPHA * ALL) @ H1.T / CLASS))


@formula(
    "(46)",
    "scatter at the end of training",
    r"\dot H_2 = -(\tilde E + m H_2 H_2^\top) H_2",
    printed=r"\dot H_2 = -\mu_s (\tilde E + m H_2 H_2^\top) H_2",
    about=("BiasedMode", *COLLAPSE),
    condition="$R_1 = 0$",
)
def scatter_at_the_end() -> Evidence:
    """Compare with the velocity of the scatter of a network with fitted class means."""
    excess, scatter, found = _excess()
    right = -(excess + M * scatter @ scatter.T) @ scatter
    return Evidence(found.H2, right, SINGLE * right)


@formula(
    "(46), second line",
    "the classifier at the end of training",
    r"\dot W = -W (\mu_s W^\top W - \tilde E)",
    condition="$R_1 = 0$",
    about=COLLAPSE,
)
def classifier_at_the_end() -> Evidence:
    """Compare with the velocity of the classifier of a network with fitted class means."""
    excess, _, found = _excess()
    return Evidence(found.W, -W @ (SINGLE * W.T @ W - excess))


@formula(
    "(47)",
    "covariance of the scatter",
    r"\dot{\mathcal A} = -\tilde E \mathcal A - \mathcal A \tilde E - 2 m \mathcal A^2,\; \mathcal A = H_2 "
    r"H_2^\top",
    printed=r"\dot{\mathcal A} = -\tilde E \mathcal A - \mathcal A \tilde E - 2 \mathcal A^2",
    about=("BiasedMode", *COLLAPSE),
)
def covariance_of_the_scatter() -> Evidence:
    """Compare with the velocity of the scatter of a network with fitted class means."""
    excess, scatter, found = _excess()
    moved, A = found.H2 @ scatter.T, scatter @ scatter.T
    linear = -excess @ A - A @ excess
    return Evidence(moved + moved.T, linear - 2 * M * A @ A, linear - 2 * A @ A)


@formula(
    "(54)",
    "the invariant through the mean",
    r"\tfrac1m W^\top W - \tfrac{1}{\mu_c} H_1 H_1^\top - \tfrac{1}{\mu_s} H_2 H_2^\top = E - \tfrac{\alpha "
    r"C^2}{\mu_c} \langle h \rangle\langle h \rangle^\top",
    printed=r"\ldots = E - \tfrac{\alpha m C^2}{\mu_c} \langle h \rangle\langle h \rangle^\top",
    about=COLLAPSE,
)
def invariant_through_the_mean() -> Evidence:
    """Compare with E at generic weights, from the inverse of the whole kernel."""
    whole, mean = (W.T @ W - H @ np.linalg.solve(KERNEL, H.T)) / M, H.mean(axis=1)
    left = W.T @ W / M - H1 @ H1.T / CLASS - H2 @ H2.T / SINGLE
    shift = ALPHA * C**2 / CLASS * np.outer(mean, mean)
    return Evidence(left, whole - shift, whole - M * shift)


@formula(
    "(69)",
    "the share of the global mean",
    r"\alpha^{-1} = \tfrac{\kappa_c}{\kappa_n} (1 - \tfrac1m) + \tfrac{\kappa_d}{\kappa_n m} + C - 1",
    about=COLLAPSE,
)
def share_of_the_global_mean() -> Evidence:
    """Compare with the inverse of the kernel of class means, numerically: I - alpha 11^T up to a factor."""
    inverse = np.linalg.inv(CLASS * np.eye(C) + KN * M * ALL) * CLASS
    return Evidence(-inverse[0, 1], 1 / (KC / KN * (1 - 1 / M) + KD / KN / M + C - 1))


FORMULAS = formula.formulas
