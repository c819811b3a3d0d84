"""Arrays of numbers and text from ``.npz`` files; no part of a file is executed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

__all__ = ["plain_arrays"]

_ZIP, _NPY = (b"PK\x03\x04", b"PK\x05\x06"), b"\x93NUMPY"


def plain_arrays(who: str, what: str, path: Path, names: str) -> tuple[dict[str, np.ndarray], str]:
    """Return the arrays of a ``.npz`` file by name, and all of its names as text.

    Parameters
    ----------
    who, what : str
        The function and its argument, for errors.
    path : Path
    names : str
        Regular expression of the names to read.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file cannot be read, or is not an archive of plain arrays.
    MemoryError
        If an array is larger than memory.
    """
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{who}: {what} = {path} {state} (a .npz file); check the path")
    found = {}
    try:
        with path.open("rb") as file:
            _refuse_format(file.read(len(_NPY)))
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                for name in archive.files:
                    if re.fullmatch(names, name):
                        found[name] = _array(archive, name)
                return found, ", ".join(archive.files) or "nothing"
    except (MemoryError, PermissionError):
        raise
    except Exception as error:  # damaged archives raise errors of zipfile, zlib or NumPy
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"{who}: {what} = {path} is not an archive of plain arrays ({reason}); write one with numpy.savez"
        ) from None


def _array(archive: np.lib.npyio.NpzFile, name: str) -> np.ndarray:
    try:
        return np.asarray(archive[name])
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise ValueError(f"{name} holds pickled objects") from None
        raise


def _refuse_format(head: bytes) -> None:
    """Raise if the first bytes are not those of an archive; NumPy would treat such a file as a pickle."""
    if head.startswith(_ZIP):
        return
    if head == _NPY:
        raise ValueError("it holds a single array, as numpy.save writes it")
    if not head:
        raise ValueError("it is empty")
    text = all(byte in b"\t\n\r\f" or 32 <= byte < 127 or byte >= 128 for byte in head) and not head.startswith(b"\x80")
    raise ValueError("it is text" if text else "it is in another format")
