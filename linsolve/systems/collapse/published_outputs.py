"""Seleznova (2024), section 2.4.2: outputs in the kernel regime."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from linsolve.core.published_formula import Evidence, Source
from linsolve.systems.collapse.published import KERNEL, PHI, N, V

__all__ = ["FORMULAS"]

formula = Source("seleznova_2024", "kernel regime, mean loss")


@formula(
    "2.4.2",
    "(2.58), (2.59)",
    "velocity of the outputs in the kernel regime",
    quote=(
        r"In the special case of MSE loss, this can be expressed as the following matrix ODE: "
        r"$\dot{f}_\theta(\mathbf{X}) = -\frac{1}{N}\Theta^\infty(\mathbf{X}, \mathbf{X})(f_\theta(\mathbf{X}) - "
        r"\mathbf{Y})$"
    ),
    latex=r"\dot f = -\tfrac1N \Theta (f - Y) \text{ for the loss } |f - y|^2/2",
    verdict="convention",
    reason="the loss has the factor 1/2, as in (4) of section 3.3; with (2.11), which has none, the rate is twice this",
    about=("FrozenKernel", "BlockKernel"),
)
def velocity_in_the_kernel_regime() -> Evidence:
    """Compare with the outputs of a linear model along minus the gradient of each loss, by complex steps."""
    theta, y = V[0], V[1]

    def descent(scale: float) -> Any:
        steps = theta[:, None] + 1e-30j * np.eye(N)
        losses = scale * np.sum((PHI.T @ steps - y[:, None]) ** 2, axis=0) / N
        return -PHI.T @ losses.imag / 1e-30

    stated = -KERNEL @ (PHI.T @ theta - y) / N
    return Evidence([descent(0.5), descent(1.0)], [stated, 2 * stated])


@formula(
    "2.4.2",
    "(2.60)",
    "outputs in the kernel regime",
    quote=(
        r"The dynamics (2.59) has an analytical solution, expressed as follows: $f_\theta^{(t)}(\mathbf{X}) = "
        r"\mathbf{Y} + (f_\theta^{(0)}(\mathbf{X}) - \mathbf{Y}) \exp(-t\Theta^\infty(\mathbf{X}, \mathbf{X}))$"
    ),
    latex=r"f = Y + e^{-t\Theta/N} (f_0 - Y)",
    verdict="typographical",
    reason=(
        "the factor 1/N of (2.59) is dropped, as if time were counted in units of N; the outputs multiply the "
        "exponential as rows"
    ),
    about=("FrozenKernel", "BlockKernel"),
)
def outputs_in_the_kernel_regime() -> Evidence:
    """Compare with the parameters of a linear model integrated under the gradient of half the mean squared error."""
    truth, start, end, _ = _linear_model()
    return Evidence(truth, *(end[0] + _exponential(-t * KERNEL) @ (start - end[0]) for t in (0.7 / N, 0.7)))


@formula(
    "2.4.2",
    "(2.61)",
    "outputs at other points",
    quote=(
        r"$f_\theta^{(t)}(\mathbf{x}) = f_\theta^{(0)}(\mathbf{x}) - \Theta^\infty(\mathbf{x}, "
        r"\mathbf{X})\Theta^\infty(\mathbf{X}, \mathbf{X})^{-1}(\mathbb{I} - e^{-t\Theta^\infty(\mathbf{X}, "
        r"\mathbf{X})})(f_\theta^{(0)}(\mathbf{X}) - \mathbf{Y})$"
    ),
    latex=r"f(x) = f_0(x) - \Theta(x, X) \Theta^{-1} (I - e^{-t\Theta/N}) (f_0 - Y)",
    verdict="typographical",
    reason="the exponential is that of (2.60), without the factor 1/N of (2.59)",
    follows="outputs_in_the_kernel_regime",
    about=("FrozenKernel",),
)
def outputs_at_other_points() -> Evidence:
    """Compare with the parameters of a linear model integrated under the gradient of half the mean squared error."""
    _, start, end, probe = _linear_model()
    row = np.linalg.solve(KERNEL, PHI.T @ probe)

    def form(t: float) -> Any:
        return -row @ (np.eye(N) - _exponential(-t * KERNEL)) @ (start - end[0])

    return Evidence(end[1], form(0.7 / N), form(0.7))


def _exponential(matrix: Any) -> Any:
    from scipy.linalg import expm

    return expm(matrix)


@cache
def _linear_model() -> tuple[Any, Any, tuple[Any, Any], Any]:
    """Return outputs at t = 0.7 and 0 on the samples, targets and change at a probe, and the probe's features."""
    from scipy.integrate import solve_ivp

    theta, y, probe = V[0], V[1], V[2]
    start = PHI.T @ theta
    end = solve_ivp(lambda _, z: -PHI @ (PHI.T @ z - y) / N, (0, 0.7), theta, "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    return PHI.T @ end, start, (y, probe @ (end - theta)), probe


FORMULAS = formula.formulas
