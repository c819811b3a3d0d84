"""Figures of the report page, with alternative texts and captions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from linsolve import plot
from linsolve.plot.style import COLORS
from linsolve.studies.learn.learned import Learned
from linsolve.studies.learn.page import map_tex
from linsolve.studies.learn.rows import ROUTES

__all__ = ["FIGURES", "Figure", "figures_of"]


class Figure(NamedTuple):
    """A figure of the report: drawing function, title, alternative text, caption and size."""

    draw: Callable[[Learned, Any], Any]
    title: str
    alt: str
    caption: str
    size: tuple[float, float] = (6.8, 4.3)


def _draw_routes(found: Learned, ax: Any) -> None:
    labels = [ROUTES["exact"], ROUTES["integrated"], f"gradient descent, step {found.settings['step']:.3g}"]
    trajs = dict(zip(labels, (found.exact, found.integrated, found.descended), strict=True))
    width = found.settings["width"] if found.settings["depth"] > 1 else len(found.modes.s)
    rank = max(1, min(len(found.modes.s), width))
    plot.routes(trajs, "singular_values", ax, top=rank)
    ax.set_ylabel(f"singular values of {map_tex(found.settings['depth'])}")


def _draw_differences(found: Learned, ax: Any) -> None:
    step = found.settings["step"]
    others = {
        f"gradient descent, step {step:.3g}": found.descended,
        f"gradient descent, step {step / 2:.3g}": found.halved,
        ROUTES["integrated"]: found.integrated,
    }
    plot.differences(found.exact, others, "product", ax)
    ax.set_ylabel(f"relative difference of {map_tex(found.settings['depth'])}")


def _draw_descent(found: Learned, ax: Any) -> None:
    step, theory = found.settings["step"], found.theory
    plot.differences(found.exact, {f"from gradient flow, O(step), step {step:.3g}": found.descended}, "product", ax)
    plot.differences(theory, {"from the theory of descent": found.descended}, "product", ax)  # type: ignore[arg-type]
    ax.lines[-1].set(color=COLORS["blue"], linestyle="-")
    ax.legend()
    ax.set_ylabel(f"relative difference of {map_tex(found.settings['depth'])}")


def _draw_loss(found: Learned, ax: Any) -> None:
    plot.trajectory(found.exact, "loss", ax)
    ax.set_ylabel(rf"loss $L = \frac{{1}}{{2}}\,\|S - {map_tex(found.settings['depth'])[1:-1]}\|^2$")


def _draw_modes(found: Learned, ax: Any) -> None:
    plot.modes(found.exact, ax)
    ax.set_ylabel(f"singular values of {map_tex(found.settings['depth'])}")


FIGURES = {
    "loss": Figure(
        _draw_loss,
        "Loss",
        "Line plot of the loss against time on a logarithmic axis.",
        "The part of the loss that can be learned. It stays on a plateau while all modes are small, falls as one mode "
        "after the other is learned, in steps where their strengths differ much, and then exponentially.",
    ),
    "modes": Figure(
        _draw_modes,
        "Singular modes",
        "Line plot of the singular values of the network's map against time, each rising to its dashed target.",
        "Each mode of the data is learned along a sigmoid of its own; the dashed lines are the singular values of the "
        "data. Stronger modes are learned first: a mode of strength s takes a time proportional to 1/s. With fewer "
        "hidden units than modes, only the strongest are learned.",
    ),
    "alignment": Figure(
        lambda found, ax: plot.alignment(found.exact, ax),
        "Kernel alignment",
        "Line plot of the alignment of the tangent kernel with the target against time.",
        "Cosine between the network's tangent kernel on the white inputs and the target's, yyᵀ; a frozen kernel would "
        "stay on the dashed line. From small weights it rises while the two layers align with each other, and again as "
        "the modes are learned. It stays below 1 because the kernel serves all directions, and the target is one.",
    ),
    "routes": Figure(
        _draw_routes,
        "Three routes",
        "The singular values against time from the closed form, an ODE integrator and gradient descent, overlaid.",
        "The same network three times: the closed form (broad line), the ODE integrator (circles), gradient descent "
        "(dashes). The circles lie on the line; the next figure shows the distance of the dashes.",
    ),
    "differences": Figure(
        _draw_differences,
        "Distance of the routes",
        "Line plot of the relative difference of the two simulations from the closed form against time, logarithmic.",
        "Distance of each simulation from the closed form, in the Frobenius norm, relative to the largest map. Half "
        "the step halves the distance of gradient descent; the ODE integrator stays at its tolerance.",
    ),
    "descent": Figure(
        _draw_descent,
        "Gradient descent, solved",
        "Relative distance of the simulated descent from gradient flow and from its own theory over time, logarithmic.",
        "Distance of the simulated gradient descent from gradient flow, which is O(step), and from the exact result of "
        "the same number of descent steps, which is rounding.",
    ),
}


def figures_of(found: Learned) -> dict[str, Figure]:
    """Return the figures of a run; that of descent only if its theory was evaluated."""
    return {name: each for name, each in FIGURES.items() if name != "descent" or found.theory is not None}
