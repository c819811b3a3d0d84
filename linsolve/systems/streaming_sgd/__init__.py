"""Stochastic gradient descent on a stream of Gaussian inputs: mean and standard deviation of the loss, exactly."""

from __future__ import annotations

from linsolve.core.registry import on_use

FLOWS: dict[str, str] = {}
LAWS = {
    "StreamingSGD": "isotropic",
    "StreamingSGDAnisotropic": "anisotropic",
}
_MORE = {"log_rate": "typical"}

_WHERE = {name: f"{__name__}.{module}" for name, module in {**FLOWS, **LAWS, **_MORE}.items()}
__all__ = ["FLOWS", "LAWS", *_WHERE]

__getattr__, __dir__ = on_use(__name__, _WHERE)
