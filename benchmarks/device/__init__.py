"""Ensembles on a GPU: speed and accuracy, and the resources of the printed kernels."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from linsolve.engines import cuda

__all__ = ["if_present", "jax_beside_cupy"]


def if_present(measure: Callable[[Any], str]) -> str:
    """Return the measurement of a GPU, made with CuPy, or the reason for having none."""
    try:
        xp = cuda.device()
    except (ImportError, OSError) as reason:
        return f"Not measured: {reason}"
    return measure(xp)


def jax_beside_cupy() -> Any:
    """Return JAX in double precision, which leaves memory of the device for CuPy."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax
