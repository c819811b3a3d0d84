"""Files of adapters and of linear attention: a frozen map, heads, and their tokens or sequences."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from linsolve.data.archive import plain_arrays
from linsolve.solvability.files import Data, Weights

__all__ = ["read_attention", "read_base"]

HEADS = (("value", "key_query"), ("value", "key", "query"))
TOKENS = (("covariance",), ("tokens", "targets"))


def read_base(who: str, source: str) -> np.ndarray:
    """Return the only array of a ``.npz`` file.

    Raises
    ------
    ValueError, OSError
        If there is no such file, or it is not an archive of one plain array.
    """
    found, has = plain_arrays(who, "base", Path(source), ".*")
    if len(found) != 1:
        raise ValueError(
            f"{who}: base = {source} has the arrays {has} but must have one (frozen map); leave out others"
        )
    return next(iter(found.values()))


def _arrays(who: str, what: str, source: str, choices: tuple[tuple[str, ...], ...]) -> list[np.ndarray]:
    """Return the arrays of a ``.npz`` file that has exactly the names of one of the choices."""
    found, has = plain_arrays(who, what, Path(source), ".*")
    for names in choices:
        if set(names) == set(found):
            return [found[name] for name in names]
    rule = " or ".join(" and ".join(names) for names in choices)
    raise ValueError(
        f"{who}: {what} = {source} has the arrays {has} but must have {rule} (linear attention); write "
        f"numpy.savez(path, {', '.join(f'{name}=...' for name in choices[0])})"
    )


def read_attention(who: str, weights: str, data: str, context: float) -> tuple[Weights, Data]:
    """Return heads, and the covariance of their tokens or sequences, of two ``.npz`` files, for the command `who`.

    Raises
    ------
    ValueError, OSError
        If a file does not exist, or has other arrays.
    """
    heads, given = _arrays(who, "weights", weights, HEADS), _arrays(who, "data", data, TOKENS)
    pair = given[0] if len(given) == 1 else tuple(given)
    return Weights(heads, None, [], []), Data(Path(data).stem, pair, covariances=False, context=context)  # type: ignore[arg-type]
