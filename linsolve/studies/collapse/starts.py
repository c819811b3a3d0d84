"""Random starts of each kind, and a check that given weights are of the requested kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve.core.arguments import choice, number, real_array
from linsolve.systems.collapse.contrasts import contrasts, members
from linsolve.systems.collapse.neural_collapse import NeuralCollapse

__all__ = ["KINDS", "draw", "refuse_extremes", "refuse_kind", "refuse_large", "refuse_options", "refuse_other_kind"]

LARGEST = 100.0  # largest weight; beyond, the flow is too stiff for the simulations
MOST = 2000  # samples or features

Weights = tuple[np.ndarray, np.ndarray, np.ndarray]

KINDS = {
    "balanced": "E = 0, features without mean and scatter: the closed form, ending at a simplex",
    "lambda": "E = lambda on the span of the weights, without mean and scatter: the closed form",
    "aligned": "E with a separate value for each mode, between -imbalance and imbalance: no simplex",
    "mean": "E = 0, with mean feature and mean output on a separate hidden unit, and equal biases",
    "scatter": "E = 0, features without mean but with scatter within classes: collapse, exponentially or as 1/t",
    "generic": "random features, classifier and biases: E of any kind, and no collapse",
}
TOLERANCE = 1e-9  # of E, relative to W^T W / m


def draw(
    flow: NeuralCollapse, kind: str, features: int, scale: float, imbalance: float, bias: float | None, seed: int
) -> Weights:
    """Return features (n, N), classifier (C, n) and bias (C,) of a start of one of `KINDS`."""
    rng = np.random.default_rng(seed)
    made = {
        "balanced": _balanced, "lambda": _balanced, "aligned": _aligned,
        "mean": _mean, "scatter": _scatter, "generic": _generic,
    }[kind]  # fmt: skip
    return made(flow, rng, features, scale, imbalance, bias)


def _sizes(flow: NeuralCollapse) -> tuple[int, int, float, float]:
    _, mu_c, mu_g = flow.rates_of_features(np)
    return int(flow.classes), int(flow.m), float(mu_c), float(mu_g)


def _frame(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    q, r = np.linalg.qr(rng.normal(size=(rows, columns)))
    return q * np.where(np.diagonal(r) < 0, -1.0, 1.0)


def _balanced(
    flow: NeuralCollapse, rng: np.random.Generator, n: int, scale: float, imbalance: float, bias: float | None
) -> Weights:
    h, w, b = flow.init(n, scale=scale, imbalance=imbalance, rng=rng)
    if bias is None:
        return h, w, b
    # zero sums: the bias then relaxes alone
    classes, rank = len(w), min(n, len(w) - 1)
    _, sizes, hidden = np.linalg.svd(w, full_matrices=False)
    basis, turn = contrasts(np, classes), _frame(rng, classes - 1, rank)
    if rank == classes - 1 and np.linalg.det(turn * sizes[:rank] @ hidden[:rank] @ h[:, :: int(flow.m)] @ basis) < 0:
        turn[:, 0] *= -1  # parity: from the other orientation balanced weights end on a saddle
    outputs = basis @ turn
    return h, (outputs * sizes[:rank]) @ hidden[:rank], np.full(classes, float(bias))


def _aligned(
    flow: NeuralCollapse, rng: np.random.Generator, n: int, scale: float, imbalance: float, bias: float | None
) -> Weights:
    classes, m, mu, _ = _sizes(flow)
    epsilon = np.linspace(-imbalance, imbalance, classes - 1) if classes > 2 else np.array([imbalance])
    least = np.abs(scale * rng.normal(size=classes - 1))
    w = np.sqrt(m * (least**2 + np.maximum(epsilon, 0)))
    h = np.sqrt(mu * (least**2 + np.maximum(-epsilon, 0)))
    modes, hidden = contrasts(np, classes) @ _frame(rng, classes - 1, classes - 1), _frame(rng, n, classes - 1)
    value = 1 / classes if bias is None else bias
    return (hidden * h) @ modes.T @ members(np, classes, m), (modes * w) @ hidden.T, np.full(classes, float(value))


def _mean(
    flow: NeuralCollapse, rng: np.random.Generator, n: int, scale: float, imbalance: float, bias: float | None
) -> Weights:
    classes, m, mu_c, mu_g = _sizes(flow)
    hidden, modes = _frame(rng, n, classes), contrasts(np, classes)
    size = np.abs(scale * rng.normal(size=classes)) + scale / 4
    turn = _frame(rng, classes - 1, classes - 1)
    turn[:, 0] *= np.sign(np.linalg.det(turn))  # parity, as above
    one = np.full((classes, 1), 1 / np.sqrt(classes))
    w = np.sqrt(m) * np.hstack([modes * size[1:], one * size[0]]) @ hidden.T
    means = hidden @ np.vstack([np.sqrt(mu_c) * size[1:, None] * (modes @ turn).T, np.sqrt(mu_g) * size[0] * one.T])
    return means @ members(np, classes, m), w, np.full(classes, 0.0 if bias is None else float(bias))


def _scatter(
    flow: NeuralCollapse, rng: np.random.Generator, n: int, scale: float, imbalance: float, bias: float | None
) -> Weights:
    classes, m, mu_c, _ = _sizes(flow)
    basis = contrasts(np, classes * m)
    rank = min(n, classes if bias is None else classes - 1)
    outputs = _frame(rng, classes, rank) if bias is None else contrasts(np, classes) @ _frame(rng, classes - 1, rank)
    w = np.sqrt(m) * scale * outputs @ (rng.normal(size=(rank, rank)) @ _frame(rng, n, rank).T)
    sides = outputs @ _frame(rng, classes * m - 1, rank).T @ basis.T  # W^T of it has the Gram matrix of W^T W
    y = members(np, classes, m)
    inner = sides @ y.T @ y / m
    sample = float(flow.rates_of_features(np)[0])
    rows = np.sqrt(mu_c) * inner + np.sqrt(sample) * (sides - inner)  # times K^(1/2)
    return w.T @ rows, w, np.full(classes, 1 / classes if bias is None else float(bias))


def _generic(
    flow: NeuralCollapse, rng: np.random.Generator, n: int, scale: float, imbalance: float, bias: float | None
) -> Weights:
    classes, m = int(flow.classes), int(flow.m)
    h, w = scale * rng.normal(size=(n, classes * m)), scale * rng.normal(size=(classes, n))
    return h, w, scale * rng.normal(size=classes) if bias is None else np.full(classes, float(bias))


def refuse_kind(kind: str) -> None:
    """Raise if the kind of start is unknown."""
    choice("collapse", "start", kind, KINDS)


def refuse_other_kind(flow: Any, kind: str, weights: Weights, imbalance: float) -> None:
    """Raise if the imbalance E or the alignment of the weights differs from that of the kind of start."""
    h, w, _ = weights
    e, size = flow.imbalance_of(h, w), np.linalg.norm(w, 2) ** 2 / int(flow.m) + abs(imbalance)
    if kind in ("balanced", "mean", "scatter"):
        off, said = np.linalg.norm(e, 2), "E = 0"
    elif kind == "lambda":
        off = np.linalg.norm(e @ w.T - imbalance * w.T, 2) / (np.linalg.norm(w, 2) or 1.0)
        said = f"E = {imbalance:g} P_S"
    elif kind == "aligned":
        y = members(np, int(flow.classes), int(flow.m))
        means = h @ y.T / int(flow.m)
        sides = w.T @ means.T, w @ means  # both symmetric: W = U w V^T with M = V h U^T
        off = max(np.linalg.norm(a - a.T, 2) for a in sides) + np.linalg.norm(h - means @ y, 2) * np.linalg.norm(w, 2)
        size, said = np.linalg.norm(w, 2) * np.linalg.norm(h, 2), "class means M with W M and M W symmetric, no scatter"
    else:
        return
    if off > TOLERANCE * size:
        raise ValueError(
            f"collapse: start = {kind!r} has {said} but these weights miss it by {off:.3g}, {off / size:.2g} of their "
            "size (E = W^T W / m - H K^-1 H^T / m, the imbalance); say start = 'generic'"
        )


def refuse_extremes(flow: NeuralCollapse) -> None:
    """Raise if a kernel value is far from 1, or if the Gram matrices at all times exceed the memory."""
    for name in ("kappa_d", "kappa_c", "kappa_n"):
        value = float(getattr(flow, name))
        if abs(value) > LARGEST or (name == "kappa_d" and value < 1 / LARGEST):
            raise ValueError(
                f"collapse: {name} = {value:g} must be of size 1 (feature kernel; kappa_d in [{1 / LARGEST:g}, "
                f"{LARGEST:g}]); rescale time"
            )
    samples = int(flow.classes) * int(flow.m)
    if samples > MOST:
        raise ValueError(
            f"collapse: classes * m = {samples} must be at most {MOST} (samples; Gram matrices hold their squares); "
            "use fewer"
        )


def refuse_large(weights: Any) -> None:
    """Raise if weights are not numbers or exceed `LARGEST`."""
    for name, value in zip("hwb", weights, strict=True):
        size = np.abs(real_array("collapse", name, value, meaning="weights")).max()
        if size > LARGEST:
            raise ValueError(
                f"collapse: weights reach {size:.3g} in {name} but must not exceed {LARGEST:g} (size of weights); "
                "scale them down"
            )


def refuse_options(
    flow: NeuralCollapse, kind: str, features: Any, scale: Any, imbalance: Any, bias: Any, seed: Any
) -> float:
    """Raise if an option does not fit the kind of start; return the imbalance."""
    classes, m = int(flow.classes), int(flow.m)
    least = {"aligned": classes - 1, "mean": classes}.get(kind, 1)
    for name, value, low, meaning in (("features", features, least, "features"), ("seed", seed, 0, "of the weights")):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
            raise ValueError(
                f"collapse: {name} = {value!r} must be a whole number of at least {low} ({meaning}; start = {kind!r}); "
                f"say {low}"
            )
    if features > MOST:
        raise ValueError(f"collapse: features = {features} must be at most {MOST} (features); use fewer")
    number("collapse", "scale", scale, meaning="size of weights", domain=f"(0, {LARGEST:g}]", example=0.3)
    if bias is not None:
        bounds, meaning = f"[-{LARGEST:g}, {LARGEST:g}]", "of every class at the start"
        number("collapse", "bias", bias, meaning=meaning, domain=bounds, example=round(1 / classes, 3))
    if kind == "scatter" and m < 2:
        raise ValueError(f"collapse: m = {m} must be at least 2 (samples of each class; start = 'scatter'); use more")
    if kind not in ("lambda", "aligned"):
        if imbalance:
            raise ValueError(
                f"collapse: imbalance = {imbalance!r} must not be given with start = {kind!r} (its E is fixed or "
                "random); say start = 'lambda' or 'aligned'"
            )
        return 0.0
    imbalance = 0.5 if imbalance is None else imbalance[()] if isinstance(imbalance, np.ndarray) else imbalance
    if not (isinstance(imbalance, int | float | np.integer | np.floating) and 0 < abs(float(imbalance)) <= LARGEST):
        raise ValueError(
            f"collapse: imbalance = {imbalance!r} must be at most {LARGEST:g} and not zero (lambda; start = {kind!r}); "
            "say 0.5, or start = 'balanced'"
        )
    return float(imbalance)
