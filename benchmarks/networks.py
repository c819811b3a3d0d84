"""Random networks through `linsolve.solve`, against an integration of their raw weights without the package.

Errors are the largest entry of the difference, relative to the largest entry or 1, and at most `BOUNDS` of the route.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

import linsolve as ls

TIMES = np.array([0.0, 0.3, 0.8, 1.6, 3.0])
Generator = np.random.Generator
Layers = list[np.ndarray]


class Case(NamedTuple):
    """A network, its samples and learning rates; biases by the number of their layer, from 0."""

    weights: Layers
    X: np.ndarray
    Y: np.ndarray
    rates: np.ndarray
    biases: dict[int, np.ndarray] = {}  # noqa: RUF012

    @property
    def bias(self) -> list[np.ndarray | None] | None:
        """Biases as `linsolve.solve` takes them."""
        return [self.biases.get(i) for i in range(len(self.weights))] if self.biases else None


def followed(case: Case) -> Layers:
    """Return each layer, then each bias, at `TIMES`, integrated from the samples."""
    held, rates, count = (
        [np.asarray(w, float) for w in (*case.weights, *case.biases.values())],
        case.rates,
        len(case.weights),
    )
    X, Y = np.asarray(case.X, float), np.asarray(case.Y, float)
    cuts = np.cumsum([w.size for w in held])[:-1]

    def split(y: np.ndarray) -> Layers:
        return [part.reshape(w.shape) for part, w in zip(np.split(y, cuts), held, strict=True)]

    # through second moments of (x, 1), which are small; without biases the last column is not used
    ones = np.concatenate([X, np.ones((len(X), 1))], axis=1)
    second, cross = ones.T @ ones / len(X), Y.T @ ones / len(X)

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        parts = split(y)
        layers, biases = parts[:count], dict(zip(case.biases, parts[count:], strict=True))
        seen = [np.eye(X.shape[1], len(second))]
        for i, w in enumerate(layers):
            seen.append(w @ seen[-1])
            seen[-1][:, -1] += biases.get(i, 0.0)
        back, out, turns = cross - seen[-1] @ second, [], {}
        for i in range(count - 1, -1, -1):
            out.append((rates[i] * back @ seen[i].T).ravel())
            turns[i] = rates[i] * back[:, -1]
            back = layers[i].T @ back
        return np.concatenate([*out[::-1], *(turns[i] for i in biases)])

    y0 = np.concatenate([w.ravel() for w in held])
    found = solve_ivp(rate, (0.0, TIMES[-1]), y0, "DOP853", TIMES, rtol=1e-13, atol=1e-16 * np.abs(y0).max())
    return [np.stack(each) for each in zip(*(split(y) for y in found.y.T), strict=True)]


def product(layers: Layers) -> np.ndarray:
    """Return the map of layers with leading axes."""
    found = layers[0]
    for w in layers[1:]:
        found = w @ found
    return found


def orthonormal(gen: Generator, rows: int, columns: int) -> np.ndarray:
    """Return random orthonormal columns."""
    return np.asarray(np.linalg.qr(gen.normal(size=(rows, columns)))[0])


def unequal(layers: Layers, rates: np.ndarray) -> Layers:
    """Return weights that have these layers where learning rates are made equal."""
    mean = np.exp(np.mean(np.log(rates)))
    return [np.sqrt(eta / mean) * u for u, eta in zip(layers, rates, strict=True)]


def generic(gen: Generator) -> Case:
    """Return a network of depth 2 to 6 and widths 1 to 50 without structure."""
    depth = int(gen.integers(2, 7))
    sizes = gen.integers(1, 51, depth + 1)
    sizes[0] = max(sizes[0], 2)
    sizes[-1] = max(sizes[-1], 2)
    weights = [gen.normal(size=(b, a)) / np.sqrt(max(a, b)) for a, b in itertools.pairwise(sizes)]
    X = gen.normal(size=(int(gen.integers(4, 80)), sizes[0]))
    Y = X @ gen.normal(size=(sizes[0], sizes[-1])) / np.sqrt(sizes[0]) + 0.3 * gen.normal(size=(len(X), sizes[-1]))
    return Case(weights, X, Y, gen.uniform(0.3, 1.5, depth))


def single(gen: Generator) -> Case:
    """Return one layer."""
    n_in, n_out = (int(n) for n in gen.integers(1, 51, 2))
    X = gen.normal(size=(60, n_in))
    return Case([gen.normal(size=(n_out, n_in))], X, gen.normal(size=(60, n_out)), gen.uniform(0.3, 1.5, 1))


def line(gen: Generator) -> Case:
    """Return two layers with one output direction, on data on a line."""
    n_in, width, n_out = (int(n) for n in gen.integers(1, 51, 3))
    X = gen.normal(size=(60, 1)) * gen.normal(size=n_in) / np.sqrt(n_in)
    axis = orthonormal(gen, n_out, 1)
    weights = [gen.normal(size=(width, n_in)) / np.sqrt(width), axis @ gen.normal(size=(1, width)) / np.sqrt(width)]
    return Case(weights, X, gen.normal(size=(60, 1)) @ axis.T, gen.uniform(0.3, 1.5, 2))


def white(gen: Generator) -> Case:
    """Return a balanced or lambda-balanced start on white inputs that span a part of their space."""
    n_in, n_out = (int(n) for n in gen.integers(2, 21, 2))
    rank, imbalance = int(gen.integers(2, n_in + 1)), float(gen.choice([0.0, 0.5, -0.5]))
    most = {0.5: n_out, -0.5: rank}.get(imbalance, 20)
    rates, span = gen.uniform(0.3, 1.5, 2), orthonormal(gen, n_in, rank)
    width = int(gen.integers(2, most + 1))
    first, second = ls.WhitenedTwoLayer.init(rank, width, n_out, scale=0.4, imbalance=imbalance, rng=gen)
    outside = gen.choice([0.0, 1.0]) * gen.normal(size=(width, n_in)) @ (np.eye(n_in) - span @ span.T)
    first, second = unequal([first, second], rates)
    X = np.sqrt(60 * gen.uniform(0.5, 1.5)) * orthonormal(gen, 60, rank) @ span.T
    Y = X @ gen.normal(size=(n_in, n_out)) / np.sqrt(n_in) + 0.1 * gen.normal(size=(60, n_out))
    return Case([first @ span.T + outside, second], X, Y, rates)


def aligned(gen: Generator) -> Case:
    """Return a balanced network of depth 2 to 6, aligned with its data; signs of modes may be opposite."""
    depth, k = int(gen.integers(2, 7)), int(gen.integers(2, 6))
    frames = [orthonormal(gen, k + int(n), k) for n in gen.integers(0, 45, depth + 1)]
    flip, rates = np.where(gen.random(k) < 0.3, -1.0, 1.0), gen.uniform(0.3, 1.5, depth)
    d = gen.uniform(0.5, 1.2, k)
    layers = [(b * d) @ a.T for a, b in itertools.pairwise(frames)]
    X = np.sqrt(60) * (orthonormal(gen, 60, k) * np.sqrt(gen.uniform(0.3, 1.5, k))) @ frames[0].T
    Y = X @ frames[0] @ (frames[-1] * flip * gen.uniform(0.5, 2.0, k)).T
    return Case(unequal(layers, rates), X, Y, rates)


def planes(gen: Generator) -> Case:
    """Return two layers that are aligned but not balanced: each mode has a hidden plane of its own."""
    k = int(gen.integers(2, 6))
    n_in, width, n_out = (int(n) for n in gen.integers(2 * k, 51, 3))
    inputs, hidden, outputs = (orthonormal(gen, n, m) for n, m in ((n_in, k), (width, 2 * k), (n_out, k)))
    first = (hidden[:, :k] * gen.uniform(0.3, 1.0, k)) @ inputs.T
    second = outputs @ (hidden[:, :k] * gen.uniform(0.3, 1.0, k) + hidden[:, k:] * gen.uniform(0.1, 0.8, k)).T
    X = np.sqrt(60) * (orthonormal(gen, 60, k) * np.sqrt(gen.uniform(0.3, 1.5, k))) @ inputs.T
    return Case([first, second], X, X @ inputs @ (outputs * gen.uniform(0.5, 2.0, k)).T, gen.uniform(0.3, 1.5, 2))


def biased(gen: Generator) -> Case:
    """Return a network of depth 2 to 6 without structure, with biases in random layers, the last one included."""
    case = generic(gen)
    last = len(case.weights) - 1
    chosen = [i for i in range(last + 1) if i == last or gen.random() < 0.6]
    biases = {i: gen.choice([0.0, 1.0]) * gen.normal(size=len(case.weights[i])) for i in chosen}
    return case._replace(X=case.X + 0.5, Y=case.Y + gen.normal(size=case.Y.shape[1]), biases=biases)


def first_bias(gen: Generator) -> Case:
    """Return two balanced layers, the first with a bias, on inputs that are white together with the constant 1."""
    n_in, width, n_out = (int(n) for n in gen.integers(2, 21, 3))
    rates = gen.uniform(0.3, 1.5, 2)
    q = np.linalg.qr(np.concatenate([np.ones((60, 1)), gen.normal(size=(60, n_in))], axis=1))[0]
    X = np.sqrt(60) * q[:, 1:]
    Y = X @ gen.normal(size=(n_in, n_out)) / np.sqrt(n_in) + 0.3 * gen.normal(size=(60, n_out)) + 0.5
    first, second = unequal(list(ls.WhitenedTwoLayer.init(n_in + 1, width, n_out, scale=0.4, rng=gen)), rates)
    return Case([first[:, 1:], second], X, Y, rates, {0: first[:, 0]})


def centered(make: Callable[[Generator], Case], *, hidden: bool) -> Callable[[Generator], Case]:
    """Return `make` on centered inputs with a last bias; with `hidden` all biases, zero and the mean of the targets."""

    def with_biases(gen: Generator) -> Case:
        case = make(gen)
        last, shift = len(case.weights) - 1, gen.normal(size=case.Y.shape[1])
        X, Y = np.concatenate([case.X, -case.X]), np.concatenate([case.Y, -case.Y]) + shift  # the same second moments
        biases = {i: np.zeros(len(w)) for i, w in enumerate(case.weights)} if hidden else {}
        biases[last] = shift if hidden else gen.normal(size=len(shift))
        return case._replace(X=X, Y=Y, biases=biases)

    return with_biases


def moved(size: float, make: Callable[[Generator], Case]) -> Callable[[Generator], Case]:
    """Return `make` with every weight moved by a random amount of this size."""

    def near(gen: Generator) -> Case:
        case = make(gen)
        return case._replace(weights=[w + size * gen.normal(size=w.shape) for w in case.weights])

    return near


def rounded(make: Callable[[Generator], Case]) -> Callable[[Generator], Case]:
    """Return `make` with weights and data in single precision."""

    def single_precision(gen: Generator) -> Case:
        case = make(gen)
        biases = {i: np.float32(b) for i, b in case.biases.items()}
        return Case([np.float32(w) for w in case.weights], np.float32(case.X), np.float32(case.Y), case.rates, biases)

    return single_precision


EXACT, INTEGRATED = "closed form: ", "DOP853: "
BOUNDS = {EXACT: 1e-10, INTEGRATED: 1e-8}
KINDS: dict[str, tuple[Callable[[Generator], Case], str]] = {
    "generic": (generic, INTEGRATED),
    "single layer": (single, EXACT),
    "data on a line": (line, EXACT),
    "white inputs": (white, EXACT),
    "aligned, balanced": (aligned, EXACT),
    "aligned, two layers": (planes, EXACT),
    "aligned, moved by 1e-12": (moved(1e-12, aligned), INTEGRATED),
    "aligned, moved by 1e-6": (moved(1e-6, aligned), INTEGRATED),
    "float32, generic": (rounded(generic), INTEGRATED),
    "float32, white inputs": (rounded(white), INTEGRATED),
    "biases, generic": (biased, "DOP853: biases need "),
    "first bias, white inputs": (first_bias, EXACT),
    "last bias, data on a line": (centered(line, hidden=False), EXACT),
    "zero biases, aligned": (centered(aligned, hidden=True), EXACT),
    "float32, biases, generic": (rounded(biased), "DOP853: biases need "),
}


def rows(
    count: int = 20, kinds: Sequence[str] = tuple(KINDS)
) -> Iterator[tuple[str, int, int, int, float, float, float]]:
    """Yield kind, networks, wrong routes, networks beyond the bound, and the worst errors of map, loss and layers."""
    for seed, kind in enumerate(kinds):
        make, route = KINDS[kind]
        wrong, beyond, worst = 0, 0, np.zeros(3)
        for gen in np.random.default_rng(seed).spawn(count):
            case = make(gen)
            found = ls.solve(case.weights, (case.X, case.Y), TIMES, case.rates, bias=case.bias)
            wrong += not found.route.startswith(route)
            parts = followed(case)
            layers, biases = parts[: len(case.weights)], dict(zip(case.biases, parts[len(case.weights) :], strict=True))
            outputs = np.swapaxes(np.asarray(case.X, float), 0, 1)
            for i, w in enumerate(layers):
                outputs = w @ outputs + biases.get(i, np.zeros(len(w[0])))[..., None]
            gap = np.asarray(case.Y, float).T - outputs
            right = {"map": product(layers), "loss": np.sum(gap**2, axis=(1, 2)) / (2 * len(case.X))}
            right |= {f"w{i}": w for i, w in enumerate(layers, 1)} | {f"b{i + 1}": b for i, b in biases.items()}
            off = [np.abs(found[name] - each).max() / max(1.0, np.abs(each).max()) for name, each in right.items()]
            taken = next((each for each in BOUNDS if found.route.startswith(each)), INTEGRATED)
            beyond += not max(off) <= BOUNDS[taken]
            worst = np.maximum(worst, [off[0], off[1], max(off[2:])])
        yield kind, count, wrong, beyond, *(float(each) for each in worst)
