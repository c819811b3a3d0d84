"""Linear attention learns regression in context: loss, plateaus, and errors on contexts of other lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.plot.style import INK
from linsolve.studies.figures.networks import MARKS
from linsolve.systems.attention.linear_attention import LinearAttention
from linsolve.systems.attention.rank_one_attention import RankOneAttention
from linsolve.systems.attention.sequences import followed, merged_pull, population, sampled, separate_pull

__all__ = ["compute_attention", "draw_attention"]

GREY = "#777777"
SEQUENCES = 50_000  # of a training set
TESTED = 20_000  # new sequences at each length
CONTEXTS = (4, 16, 64)
HEADS, DIMENSION, SCALE = 8, 4, 0.01
VARIANCE, CONTEXT, STRENGTH = np.array([2.0, 1.2, 0.75, 0.45]), 32, 1e-4
LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128)


def compute_attention(seed: int = 0) -> dict[str, Any]:
    """Return losses of merged and of separate heads, in theory and trained on sequences, and errors of tests."""
    rng = np.random.default_rng(seed)
    return {"merged": _merged(rng), "separate": _separate(rng), "tests": _tests(rng)}


def _merged(rng: np.random.Generator) -> dict[int, dict[str, Any]]:
    """Return the loss in time of merged heads on white tokens, by length of the context."""
    heads, curves = LinearAttention.init(DIMENSION, HEADS, scale=SCALE, rng=rng), {}
    t, marks, covariance = np.linspace(0.0, 5.0, 300), np.linspace(0.0, 5.0, 26), np.eye(DIMENSION)
    for context in CONTEXTS:
        flow = LinearAttention(context, DIMENSION)
        value, key_query = followed(sampled(rng, SEQUENCES, context, covariance), merged_pull, heads, marks, 1e-7)
        matrix = np.einsum("th,thab->tab", value, key_query)
        curves[context] = {
            "t": t,
            "theory": flow(t, flow.of(*heads))["loss"],
            "marks": marks,
            "at_marks": flow(marks, flow.of(*heads))["loss"],
            "trained": population(context, covariance).loss(matrix),
        }
    return curves


def _separate(rng: np.random.Generator) -> dict[str, Any]:
    """Return the loss in time of separate heads on tokens of four variances, from aligned and from random heads."""
    flow, start, d = RankOneAttention(CONTEXT, VARIANCE), np.full(len(VARIANCE), STRENGTH), len(VARIANCE)
    stages, exact = flow.stages(start), population(CONTEXT, np.diag(VARIANCE))
    t, marks = np.geomspace(0.5, 300.0, 160), np.geomspace(0.7, 300.0, 30)
    size = np.cbrt(STRENGTH)
    aligned = size * np.ones(d), size * np.eye(d), size * np.eye(d)
    turned = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in rng.normal(size=(2, d, d))]

    def losses(moments: Any, heads: Any, t: np.ndarray) -> np.ndarray:
        value, key, query = followed(moments, separate_pull, heads, t, 1e-7)
        return exact.loss(np.einsum("th,tha,thb->tab", value, key, query))

    return {
        "t": t,
        "theory": flow(t, start)["loss"],
        "stages": stages,
        "marks": marks,
        "at_marks": flow(marks, start)["loss"],
        "trained": losses(sampled(rng, SEQUENCES, CONTEXT, np.diag(VARIANCE)), aligned, marks),
        "random": losses(exact, (size * np.ones(d), size * turned[0], size * turned[1]), t),
    }


def _tests(rng: np.random.Generator) -> dict[str, Any]:
    """Return mean squared errors on new sequences by their length, of merged heads at the end of training."""
    heads = LinearAttention.init(DIMENSION, HEADS, scale=SCALE, rng=rng)
    moments = [sampled(rng, TESTED, length, np.eye(DIMENSION)) for length in LENGTHS]
    line, curves = np.geomspace(LENGTHS[0], LENGTHS[-1], 100), {}
    for context in CONTEXTS:
        flow = LinearAttention(context, DIMENSION)
        end = flow(np.inf, flow.of(*heads)).state
        curves[context] = {
            "theory": flow.test_error(np, end, line),
            "at_lengths": flow.test_error(np, end, np.array(LENGTHS)),
            "sampled": np.array([2 * each.loss(end.product) for each in moments]),
        }
    return {"line": line, "curves": curves}


def draw_attention(axes: Any, data: dict[str, Any]) -> None:
    """Draw losses of merged heads in time, of separate heads in time, and test errors over the length of contexts."""
    ax = axes[0]
    for color, (context, curve) in zip(INK, data["merged"].items(), strict=False):
        ax.plot(curve["t"], curve["theory"], color=color, label=f"$N$ = {context}")
        ax.plot(curve["marks"], curve["trained"], **MARKS, color=color)
    ax.set(ylabel="loss", title="(a) merged keys and queries, white tokens", ylim=(0, None))
    ax.legend(fontsize=9.5, title=f"{HEADS} heads, $D$ = {DIMENSION}", title_fontsize=9.5)
    ax, found = axes[1], data["separate"]
    for height in found["stages"].losses:
        ax.axhline(height, color=GREY, linestyle="--", linewidth=1.1, zorder=0)
    for time in found["stages"].times:
        ax.axvline(time, color=GREY, linestyle=":", linewidth=1.3, zorder=0)
    ax.plot(found["t"], found["theory"], color=INK[0], label="aligned heads")
    ax.plot(found["marks"], found["trained"], **MARKS, color=INK[0])
    ax.plot(found["t"], found["random"], color=INK[1], linewidth=1.4, label="random heads, integrated")
    ax.set(xscale="log", ylabel="loss", title="(b) separate rank-one keys and queries", ylim=(0, None))
    note = {"title": "dashed: plateaus, dotted: their ends", "title_fontsize": 9.5, "frameon": True}
    ax.legend(fontsize=9.5, loc="lower left", facecolor="white", edgecolor="white", framealpha=1, **note)
    for ax in axes[:2]:
        ax.set_xlabel(r"time $t$  (units of $\tau$)")
    ax, tests = axes[2], data["tests"]
    for color, (context, curve) in zip(INK, tests["curves"].items(), strict=False):
        ax.plot(tests["line"], curve["theory"], color=color, label=f"$N$ = {context}")
        ax.plot(LENGTHS, curve["sampled"], **MARKS, color=color)
    ax.set(xscale="log", yscale="log", xlabel="tokens in a new context", ylabel="mean squared error")
    ax.set(title="(c) at the end of training on $N$ tokens")
    ax.legend(fontsize=9.5)
