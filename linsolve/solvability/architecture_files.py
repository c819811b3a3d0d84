"""Files of adapters and of linear attention: a frozen map, heads, and their tokens or sequences."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from linsolve.data.archive import plain_arrays
from linsolve.solvability.files import Data, Weights

__all__ = ["read_attention", "read_base"]

WHO = "applies"
HEADS = (("value", "key_query"), ("value", "key", "query"))
TOKENS = (("covariance",), ("tokens", "targets"))


def read_base(source: str) -> np.ndarray:
    """Return the only array of a ``.npz`` file.

    Raises
    ------
    ValueError, OSError
        If there is no such file, or it is not an archive of one plain array.
    """
    found, has = plain_arrays(WHO, "base", Path(source), ".*")
    if len(found) != 1:
        raise ValueError(
            f"{WHO}: base = {source} has the arrays {has} but must have one (frozen map); leave out others"
        )
    return next(iter(found.values()))


def _arrays(what: str, source: str, choices: tuple[tuple[str, ...], ...]) -> list[np.ndarray]:
    """Return the arrays of a ``.npz`` file that has exactly the names of one of the choices."""
    found, has = plain_arrays(WHO, what, Path(source), ".*")
    for names in choices:
        if set(names) == set(found):
            return [found[name] for name in names]
    rule = " or ".join(" and ".join(names) for names in choices)
    raise ValueError(
        f"{WHO}: {what} = {source} has the arrays {has} but must have {rule} (linear attention); write numpy.savez"
    )


def read_attention(weights: str, data: str) -> tuple[Weights, Data]:
    """Return heads, and the covariance of their tokens or sequences, of two ``.npz`` files.

    Raises
    ------
    ValueError, OSError
        If a file does not exist, or has other arrays.
    """
    heads, given = _arrays("weights", weights, HEADS), _arrays("data", data, TOKENS)
    pair = given[0] if len(given) == 1 else tuple(given)
    return Weights(heads, None, [], []), Data(Path(data).stem, pair, covariances=False)  # type: ignore[arg-type]
