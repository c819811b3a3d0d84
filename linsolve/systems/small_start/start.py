"""Shared parameters and checks of the laws: small initial weights, targets, covariances."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.law import Expansion
from linsolve.core.matrix_arguments import semidefinite
from linsolve.core.network import layers_of
from linsolve.core.parameters import Parametrized, parameter

__all__ = [
    *("DeepStart", "SmallStart", "direction", "kernel", "outer", "refuse", "split"),
    *("check_covariance", "check_direction", "check_growth", "check_range", "check_small", "check_times", "unit"),
]

LARGEST = 1e60  # the laws multiply up to four entries
LATEST = 700  # exp(700) does not overflow
ROUNDING = 1e-12  # relative; deviations below it are rounding


def refuse(law: Parametrized, name: str, value: Any, rule: str, fix: str) -> None:
    """Raise a ValueError that names the law, its parameter, the value, the rule and the fix."""
    meaning = next(f.metadata["doc"] for f in dataclasses.fields(law) if f.name == name)  # type: ignore[arg-type]
    raise ValueError(f"{type(law).__name__}: {name} = {value} {rule} ({meaning}); {fix}")


def check_range(law: Parametrized) -> None:
    """Raise if products of entries overflow."""
    for field in dataclasses.fields(law):  # type: ignore[arg-type]
        values = np.abs(arithmetic.to_numpy(getattr(law, field.name)))
        positive = field.metadata["domain"].low >= 0 and not field.metadata["domain"].closed_low
        if values.max() > LARGEST:
            refuse(law, field.name, f"{values.max():.3g}", f"must be at most {LARGEST:g} in size", "rescale")
        if positive and values.min() < 1 / LARGEST:
            refuse(law, field.name, f"{values.min():.3g}", f"must be at least {1 / LARGEST:g}", "rescale")


def check_direction(law: Any) -> None:
    """Raise if the target is zero."""
    if not np.max(np.abs(arithmetic.to_numpy(law.target))) >= 1 / LARGEST:
        refuse(law, "target", "0", f"must have an entry of at least {1 / LARGEST:g}", "the law needs its direction")


def check_growth(law: Any, along: str = "target") -> None:
    """Raise if the initial weights lack the growing mode: they converge to the saddle and never learn the target."""
    first, last, v = (arithmetic.to_numpy(a).astype(float) for a in (law.first, law.last, law.target))
    v = v if along == "target" else arithmetic.to_numpy(law.covariance).astype(float) @ v
    growing, size = last + first @ v / np.linalg.norm(v), max(np.abs(first).max(), np.abs(last).max())
    if not np.abs(growing).max() > ROUNDING * size:
        rule = f"must not be -first @ v / |v| with v = {along}"
        refuse(law, "last", "a start without the growing mode", rule, "the target is never learned; change last")


def check_small(law: Any, small: Any) -> None:
    """Raise if the growing mode of initial weights of size `small` is stronger than the target."""
    if not arithmetic.readable(law.first, law.last, law.target, small):
        return
    first, last, v = (arithmetic.to_numpy(a).astype(float) for a in (law.first, law.last, law.target))
    s, sigma = np.linalg.norm(v), float(arithmetic.to_numpy(small))
    strength = sigma**2 * np.sum((last + first @ v / s) ** 2) / 4
    if not strength < s:
        name = "first" if np.abs(first).max() > np.abs(last).max() else "last"
        rule = f"at sigma = {sigma:g} must grow from below the target of strength {s:.3g}"
        refuse(law, name, f"layers of strength {strength:.3g}", rule, "use a smaller sigma, or a larger target")


def check_covariance(law: Any, *, definite: bool) -> None:
    """Raise unless the covariance is symmetric and positive definite, or semi-definite and nonzero on the target."""
    sigma = arithmetic.to_numpy(law.covariance).astype(float)
    size, meaning = np.max(np.abs(sigma)), "covariance of the inputs"
    values, _ = semidefinite(type(law).__name__, "covariance", sigma, meaning=meaning, margin=ROUNDING)
    if definite and not values[0] > ROUNDING * size:
        rule = "must be positive definite"
        refuse(law, "covariance", f"a matrix with eigenvalue {values[0]:.3g}", rule, "add to its diagonal")
    target = arithmetic.to_numpy(law.target).astype(float)
    if not np.linalg.norm(sigma @ target) > ROUNDING * size * np.linalg.norm(target):
        rule = "must not have the target in its null space"
        fix = "the inputs have no component along the target; change one of the two"
        refuse(law, "covariance", "a singular matrix", rule, fix)


def check_times(law: Any, rate: float) -> None:
    """Raise for times at which a mode that grows at `rate` overflows."""
    latest, limit = float(np.max(arithmetic.to_numpy(law.times))), LATEST / rate
    if not latest <= limit:
        refuse(law, "times", f"{latest:g}", f"must be at most {limit:.3g}, long after phase I", "end earlier")


class SmallStart(Expansion):
    """Network ``f = a.W x`` with initial layers `small` times `last` and `first`.

    Parameters
    ----------
    last : array_like, shape (width,)
    first : array_like, shape (width, n_in)
    target : array_like, shape (n_in,)
    """

    last: Any = parameter("a", "second layer at the start, over sigma", axes=("width",))
    first: Any = parameter("W", "first layer at the start, over sigma", axes=("width", "n_in"))
    target: Any = parameter(r"s\beta", "map to be learned", axes=("n_in",))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self)
        check_direction(self)

    def layers_at_start(self, small: Any) -> list[np.ndarray]:
        """Return the layers, first and last, the latter of shape (1, width)."""
        return [float(small) * self.first, float(small) * self.last[None, :]]


class DeepStart(Expansion):
    """Network of any depth whose initial layers are `small` times those in `start`.

    Parameters
    ----------
    start : array_like, shape (layer, width, width)
        Layers; the first ``n_in`` columns of the first and the first ``n_out`` rows of the last are used.
    target : array_like, shape (n_in,)
    rates : array_like, shape (layer,)
    """

    start: Any = parameter("W", "layers at the start, over sigma", axes=("layer", "width", "width"))
    target: Any = parameter(r"s\beta", "map to be learned", axes=("n_in",))
    rates: Any = parameter(r"\eta_\ell", "learning rates", domain="(0, inf)", axes=("layer",))

    def __post_init__(self) -> None:
        if isinstance(self.start, list | tuple):
            shapes = [shape for layer in self.start if (shape := getattr(layer, "shape", None)) is not None]
            if len(set(shapes)) > 1:
                fix = f"fill the layers with zeros, or use {type(self).__name__}.of([W1, W2], (X, Y))"
                refuse(self, "start", f"layers of shapes {shapes}", "must be square and of one size", fix)
        super().__post_init__()
        check_range(self)
        check_direction(self)
        if self.start.shape[0] < 2:
            refuse(self, "start", f"layers of shape {self.start.shape}", "must have at least 2 layers", "add one")
        if not np.abs(arithmetic.to_numpy(self.start)).max() > 0:
            refuse(self, "start", "0", "must not vanish", "the network would stay at the saddle; draw weights")

    def layers_at_start(self, small: Any) -> list[np.ndarray]:
        """Return the layers, first layer first."""
        if max(self.target.shape) > self.start.shape[-1]:
            rule = f"must have a width of at least {max(self.target.shape)}, as target has shape {self.target.shape}"
            refuse(self, "start", f"layers of shape {self.start.shape}", rule, "widen start")
        return layers_of(self.start, small, self.target.shape[-1], self.target.shape[0] if self.target.ndim > 1 else 1)


def outer(a: Any, b: Any) -> Any:
    """Return ``a b^T`` over leading batch axes."""
    return a[..., :, None] * b[..., None, :]


def direction(xp: Any, target: Any) -> tuple[Any, Any]:
    """Return ``s`` and ``beta``."""
    s = xp.sqrt(xp.sum(target**2))
    return s, target / s


def split(xp: Any, first: Any, target: Any) -> tuple[Any, Any, Any, Any]:
    """Return ``s``, ``beta``, ``w = W beta`` and the rest of the first layer, ``W - w beta^T``."""
    s, beta = direction(xp, target)
    w = xp.sum(first * beta, axis=-1)
    return s, beta, w, first - outer(w, beta)


def kernel(xp: Any, a: Any, w: Any, rest: Any, beta: Any) -> Any:
    """Return ``M = W^T W + |a|^2 I`` for ``W = rest + w beta^T``, shape (T, n_in, n_in); a, w have shape (T, width)."""
    first = rest + outer(w, beta)
    return xp.matrix_transpose(first) @ first + xp.sum(a * a, axis=-1)[..., None, None] * xp.eye(beta.shape[-1])


def unit(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return a random unit vector."""
    vector = rng.normal(size=size)
    return vector / np.linalg.norm(vector)
