"""Seleznova (2024), section 3.3 and appendix D: kernels of more general blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.collapse.published import (
    COLLAPSE,
    CONTRASTS,
    HIDDEN,
    KC,
    KD,
    KN,
    Q2,
    C,
    M,
    N,
    W,
    Y,
    parts,
    residual,
)
from linsolve.systems.collapse.published_limits import root

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024", "balanced classes, kernel with matrix blocks (assumption D.1)")


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
    "3.3/D.1",
    "(72)",
    "motion under general blocks",
    quote=(
        r"$\dot{\mathbf{H}} = -\mathbf{A}_d \mathbf{W}^\top \mathbf{R} + m \mathbf{A}_c \mathbf{W}^\top "
        r"\mathbf{R}_{\text{class}} + N \mathbf{A}_n \mathbf{W}^\top \mathbf{R}_{\text{global}}$"
    ),
    latex=r"\dot H = -A_d W^\top R - m A_c W^\top R_{class} - N A_n W^\top R_{global}",
    verdict="typographical",
    reason="all three terms have a minus sign, as in (19) and (73)",
    setting="kernel with matrix blocks (assumption D.1)",
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
    "3.3/D.2",
    "(79)",
    "blocks of a kernel that knows classes only",
    quote=(
        r"in the main text is the special case with $\mathbf{A}_n = \kappa_n \mathbb{I}_n$, $\mathbf{A}_c = "
        r"(\kappa_c - \kappa_n) \mathbb{I}_n$, $\mathbf{A}_d = (\kappa_d - \kappa_c) \mathbb{I}_n$. [...] "
        r"$\mathbf{A}_c = \kappa_c \mathbb{I}_n + \mathbf{N}_c, \mathbf{A}_d = \kappa_d \mathbb{I}_n + "
        r"\mathbf{N}_d$"
    ),
    latex=r"\kappa_d' = \kappa_d - \kappa_c,\; \kappa_c' = \kappa_c - \kappa_n \text{ in (79)}",
    verdict="convention",
    reason="the constants of (79) are new ones: they stand for the differences named two lines above",
    setting="kernel with matrix blocks (assumption D.1)",
    about=COLLAPSE,
)
def blocks_of_a_kernel_of_classes() -> Evidence:
    """Compare with the kernel of assumption 3.2, entry by entry; N_c and N_d are zero."""
    label = np.repeat(np.arange(C), M)
    truth = np.where(np.eye(N) > 0, KD, np.where(label[:, None] == label, KC, KN))
    return Evidence(truth, (KD - KC) * np.eye(N) + (KC - KN) * Y.T @ Y + KN)


@formula(
    "3.3/D.1",
    "(77), (78)",
    "rate of E, which is no longer invariant",
    quote=(
        r"$\dot{\mathbf{E}} = \left( c_1 (\mathbf{A}_d + m \mathbf{A}_c) - m \mathbb{I}_n \right) \mathbf{W}^\top "
        r"\mathbf{R}_1 \mathbf{H}_1^\top - \mathbf{H}_1 \mathbf{R}_1^\top \mathbf{W} \left( c_1 (\mathbf{A}_d + m "
        r"\mathbf{A}_c)^\top - m \mathbb{I}_n \right)$"
    ),
    latex=(
        r"\dot E = [B_1 W^\top R_1 H_1^\top + \mathrm{h.c.}] + [B_2 W^\top W H_2 H_2^\top + \mathrm{h.c.}],\; B_1 "
        r"= c_1 (A_d + m A_c) - m I,\; B_2 = c_2 A_d - m I"
    ),
    verdict="typographical",
    reason=(
        "E is symmetric, so that both transposed terms add; the conclusions (no invariant in general, one under "
        "assumption D.2) hold"
    ),
    setting="kernel with matrix blocks (assumption D.1), zero global mean",
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
    "3.3/5.1",
    "(21)-(24)",
    "class means and scatter",
    quote=(
        r"$\mathbf{H}_1 = [\langle h \rangle_1, \dots, \langle h \rangle_C], \quad \mathbf{H}_2 = "
        r"\frac{1}{\sqrt{m}}[\mathbf{H}^{(1)}\tilde{\mathbf{Q}}_2, \dots, \mathbf{H}^{(C)}\tilde{\mathbf{Q}}_2]$"
    ),
    latex=r"Y Q = \sqrt m\, [I, 0],\quad H_1 = [\langle h \rangle_1, \ldots, \langle h \rangle_C]",
    setting="balanced classes, any features",
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
