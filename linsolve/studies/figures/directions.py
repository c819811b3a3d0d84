"""Figures 6, 7 and 9 of Ortiz-Jimenez, Moosavi-Dezfooli, Frossard (2021) for linear networks."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq

from linsolve.core.network import trained
from linsolve.plot.style import COLORS, INK
from linsolve.studies.figures.networks import MARKS, closed_form, deep_start, simulated, two_layer_start
from linsolve.systems.kernel_regime.measures import energy_concentration
from linsolve.systems.kernel_regime.tangent import input_kernel
from linsolve.systems.small_start.matched import KernelAlignment

__all__ = [
    *("compute_ortiz_6", "compute_ortiz_7", "compute_ortiz_9"),
    *("draw_ortiz_6", "draw_ortiz_7", "draw_ortiz_9"),
]

N_IN, WIDTH = 30, 40


def _two_layers(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return first and last layer over sigma and a target of length 1."""
    first, last = two_layer_start(rng, WIDTH, N_IN)
    target = rng.normal(size=N_IN)
    return first, last, target / np.linalg.norm(target)


def _law_kernels(first: np.ndarray, last: np.ndarray, target: np.ndarray, sigma: float, t: np.ndarray) -> np.ndarray:
    """Return the kernels of the law `KernelAlignment` on white inputs at times `t`."""
    w, s = first @ target / np.linalg.norm(target), np.linalg.norm(target)
    p0 = sigma**2 * np.sum((last + w) ** 2) / 2
    law = KernelAlignment(last=last, first=first, target=target, phases=2 * s * t - np.log(2 * s / p0))
    return np.asarray(law.approximation(np, np.asarray(sigma))["kernel"])


def compute_ortiz_6(seed: int = 0) -> dict[str, Any]:
    """Return the energy of the target on the first eigenvector of the kernel over time, in theory and simulated."""
    first, last, target = _two_layers(np.random.default_rng(seed))
    t, curves = np.linspace(0.0, 12.0, 121), {}
    for sigma in (0.1, 0.01):
        path = simulated([sigma * first, sigma * last[None]], target, t[::6], rtol=1e-9)["layers"]
        kernels = [input_kernel([a, b]) for a, b in zip(*path, strict=True)]
        curves[sigma] = {
            "theory": energy_concentration(_law_kernels(first, last, target, sigma, t), target, top=1),
            "simulated": np.array([energy_concentration(k, target, top=1) for k in kernels]),
            "loss": (1 - closed_form(first, last, target, sigma, t)["r"]) ** 2,
        }
    return {"t": t, "curves": curves}


def draw_ortiz_6(axes: Any, data: dict[str, Any]) -> None:
    """Draw the energy and the loss over time."""
    (ax,) = np.atleast_1d(axes)
    for color, (sigma, curve) in zip(INK, data["curves"].items(), strict=False):
        ax.plot(data["t"], curve["theory"], color=color)
        ax.plot(data["t"], curve["loss"], color=color, linestyle=":", linewidth=1.3)
        ax.plot(data["t"][::6], curve["simulated"], **MARKS, color=color, label=rf"$\sigma$ = {sigma:g}")
    ax.set(xlabel="time $t$  (rate 1)", ylabel="energy on the first eigenvector, loss (dotted)", title="$K$ = 1")
    ax.legend(title="lines: law")


def compute_ortiz_7(seed: int = 0) -> dict[str, Any]:
    """Return the alignments of the eigenvectors of the first kernel, at the start and at the end, of three layers."""
    rng, sigma, k = np.random.default_rng(seed), 0.05, 19
    layers = deep_start(rng, [N_IN, WIDTH, WIDTH, 1], sigma)
    values, vectors = np.linalg.eigh(input_kernel(layers))
    order = np.argsort(-values)
    values, vectors = values[order], vectors[:, order]
    end = input_kernel(trained(layers, vectors[:, k]))
    return {
        "task": k,
        "start": values,
        "end": np.sum(vectors * (end @ vectors), axis=0),
        "theory": np.where(np.arange(N_IN) == k, 3.0, 1.0),  # L s^(2 - 2/L) and s^(2 - 2/L) at s = 1
        "sigma": sigma,
    }


def draw_ortiz_7(axes: Any, data: dict[str, Any]) -> None:
    """Draw the alignments relative to their largest value."""
    index = np.arange(len(data["start"])) + 1
    for ax, key, title in zip(axes, ("start", "end"), ("(a) kernel at the start", "(b) at the end"), strict=True):
        ax.bar(index, data[key], color=COLORS["sky"])
        ax.axvline(data["task"] + 1, color=COLORS["vermilion"], linestyle=":", linewidth=1.3)
        ax.set(xlabel="eigenvector of the first kernel", ylabel=r"alignment $v_j^T M_t v_j$", title=title)
    axes[1].plot(index, data["theory"], **MARKS, color=COLORS["black"], label="closed form, three layers")
    axes[1].legend(loc="upper left")


def compute_ortiz_9(seed: int = 0) -> dict[str, Any]:
    """Return the error of regression with the kernel frozen at time t, for the trained and an orthogonal task."""
    rng, sigma, samples = np.random.default_rng(seed), 0.03, 12
    first, last, target = _two_layers(rng)
    t = np.linspace(0.0, 8.0, 9)
    path = simulated([sigma * first, sigma * last[None]], target, t, rtol=1e-9)["layers"]
    kernels = np.stack([input_kernel([a, b]) for a, b in zip(*path, strict=True)])
    line = np.linspace(0.0, 8.0, 81)
    law = _law_kernels(first, last, target, sigma, line)
    across = rng.normal(size=N_IN)
    across -= (across @ target) * target
    tasks = {"the trained task": target, "a task across it": across / np.linalg.norm(across)}
    found: dict[str, Any] = {"t": t, "line": line}
    for name, task in tasks.items():
        found[name] = {
            "theory": _predicted(law, task, samples),
            "sampled": np.array([_sampled(rng, kernel, task, samples) for kernel in kernels]),
        }
    return found


def _predicted(kernels: np.ndarray, task: np.ndarray, samples: int) -> np.ndarray:
    """Return the errors of any kernels in the limit of many inputs, as `TransferError` does for one spike.

    Eqs. (45)-(48) of Atanasov et al. (2022) without ridge, with a sum over all eigenvalues of the kernel.
    """
    values, vectors = np.linalg.eigh(kernels)

    def excess(kappa: float, values: np.ndarray) -> float:
        return float(np.sum(values / (samples * values + kappa))) - 1

    kappa = np.array([[brentq(excess, 0.0, np.sum(each), args=(each,))] for each in values])
    weight = 1 / (samples * values + kappa) ** 2
    return kappa[:, 0] * np.sum((task @ vectors) ** 2 * weight, axis=1) / np.sum(values * weight, axis=1)


def _sampled(rng: np.random.Generator, kernel: np.ndarray, task: np.ndarray, samples: int, draws: int = 200) -> Any:
    """Return mean and standard error of regressions on Gaussian inputs."""
    errors = []
    for _ in range(draws):
        X = rng.normal(size=(samples, len(task)))
        made = kernel @ X.T @ np.linalg.solve(X @ kernel @ X.T, X @ task)
        errors.append(np.sum((task - made) ** 2))
    return np.mean(errors), np.std(errors) / draws**0.5


def draw_ortiz_9(axes: Any, data: dict[str, Any]) -> None:
    """Draw the errors over the time at which the kernel is frozen."""
    (ax,) = np.atleast_1d(axes)
    for color, name in zip(INK, ("the trained task", "a task across it"), strict=False):
        mean, error = data[name]["sampled"].T
        ax.plot(data["line"], data[name]["theory"], color=color)
        ax.errorbar(data["t"], mean, 2 * error, fmt="o", markerfacecolor="none", color=color, label=name)
    ax.set(xlabel="time at which the kernel is frozen  (rate 1)", ylabel="error of regression")
    ax.set(title="lines: theory for many inputs; bars: two standard errors")
    ax.legend()
