"""Arrays by name from ``.npz``, ``.csv`` and ``.json`` files; no part of a file is executed."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from linsolve.data.archive import plain_arrays

__all__ = ["WHO", "read_arrays"]

WHO = "compare"
_COLUMN = re.compile(r"(?P<name>[^\[\]]+?)\s*(\[(?P<index>\d+(\s*,\s*\d+)*)\])?")  # w, w[0], w[0, 1]


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name.

    Parameters
    ----------
    path : Path
        A ``.npz`` file; a ``.json`` file with an object of numbers and nested lists; or a ``.csv`` file whose header
        names its columns ``NAME``, ``NAME[i]`` or ``NAME[i,j]``.

    Raises
    ------
    ValueError
        If the file cannot be read as arrays.
    OSError
        If there is no such file.
    """
    reader = {".npz": _archive, ".json": _json, ".csv": _csv}.get(path.suffix.lower())
    if reader is None:
        raise ValueError(
            f"{WHO}: run = {path} must end in .npz, .csv or .json (times and arrays by name); write it with numpy.savez"
        )
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"{WHO}: run = {path} {state} (a run of a simulator); check the path")
    return reader(path)


def _archive(path: Path) -> dict[str, np.ndarray]:
    return plain_arrays(WHO, "run", path, ".*")[0]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{WHO}: run = {path} is not text in UTF-8; save it in UTF-8, or with numpy.savez") from None


def _json(path: Path) -> dict[str, np.ndarray]:
    try:
        found = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        if str(error).startswith(WHO):
            raise
        raise ValueError(f"{WHO}: run = {path} is not valid JSON ({error}); write it with json.dump") from None
    if not isinstance(found, Mapping):
        raise ValueError(
            f'{WHO}: run = {path} must hold an object (times and arrays by name); write {{"t": [...], "w": [...]}}'
        )
    return {name: _array(path, name, value) for name, value in found.items()}


def _array(path: Path, name: str, value: Any) -> np.ndarray:
    """Return nested lists of numbers or of text as an array; null is nan."""
    if isinstance(value, str):
        return np.asarray(value)
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{WHO}: {name} of {path} must be a number or a rectangular list of numbers (array of a run); repair it, "
            "or leave it out"
        ) from None


def _csv(path: Path) -> dict[str, np.ndarray]:
    rows = [row for row in csv.reader(_text(path).splitlines(), skipinitialspace=True) if row]
    if len(rows) < 2:
        raise ValueError(
            f"{WHO}: run = {path} must have a header and rows of numbers (table); write 't,w[0],w[1]' first"
        )
    header, body = [cell.strip() for cell in rows[0]], rows[1:]
    for number, row in enumerate(body, start=2):
        if len(row) != len(header):
            raise ValueError(
                f"{WHO}: run = {path} has {len(row)} cells in row {number} but {len(header)} in its header (table); "
                "repair the row"
            )
    columns: dict[str, dict[tuple[int, ...], np.ndarray]] = {}
    for k, label in enumerate(header):
        match = _COLUMN.fullmatch(label)
        if match is None:
            raise ValueError(f"{WHO}: run = {path} has a column {label!r} (header); name it NAME, NAME[i] or NAME[i,j]")
        index = tuple(int(i) for i in match["index"].split(",")) if match["index"] else ()
        entries = columns.setdefault(match["name"], {})
        if index in entries:
            raise ValueError(f"{WHO}: run = {path} has two columns {label!r} (header); rename one")
        entries[index] = _column(path, label, [row[k] for row in body])
    return {name: _assembled(path, name, entries) for name, entries in columns.items()}


def _column(path: Path, label: str, cells: Iterable[str]) -> np.ndarray:
    try:
        return np.array([float(cell) if cell.strip() else np.nan for cell in cells])
    except ValueError as error:
        raise ValueError(
            f"{WHO}: column {label!r} of {path} has a cell that is no number ({error}); repair it, or leave the column "
            "out"
        ) from None


def _assembled(path: Path, name: str, entries: Mapping[tuple[int, ...], np.ndarray]) -> np.ndarray:
    """Return the array of columns ``NAME[i,j]``; raise if one is missing."""
    own = tuple(np.max(list(entries), axis=0) + 1) if all(entries) else ()
    if len({len(index) for index in entries}) > 1 or len(entries) != np.prod(own, dtype=int):
        raise ValueError(
            f"{WHO}: run = {path} has columns of {name} whose indices leave a gap (entries of one array, from 0); add "
            "the missing ones"
        )
    return np.stack([entries[index] for index in np.ndindex(*own)], axis=-1).reshape(-1, *own)
