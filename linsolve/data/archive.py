"""Arrays from ``.npz`` files that anybody may have written: plain numbers and text, nothing in them is executed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

__all__ = ["plain_arrays"]


def plain_arrays(who: str, what: str, path: Path, names: str) -> tuple[dict[str, np.ndarray], str]:
    """Return the arrays of a ``.npz`` file by name, and a list of all that it has, as text.

    Parameters
    ----------
    who, what : str
        Who reads it, and what for, as errors say.
    path : Path
    names : str
        Regular expression of the names that are read.

    Raises
    ------
    ValueError
        If the file cannot be read, or is not an archive of plain arrays.
    MemoryError
        If an array is larger than memory.
    """
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array")
            with archive:
                found = {name: np.asarray(archive[name]) for name in archive.files if re.fullmatch(names, name)}
                return found, ", ".join(archive.files) or "nothing"
    except MemoryError:
        raise
    except Exception as error:  # damaged archives end in whatever zipfile, zlib and NumPy happen to stumble over
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        reason = "it holds pickled objects" if "pickle" in reason else reason
        raise ValueError(
            f"{who}: {what} = {path} is not an archive of plain arrays ({reason}); write one with numpy.savez"
        ) from None
