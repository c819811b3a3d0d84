"""Named arrays over common leading axes as a tidy table: one row for each number."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from linsolve.core.arguments import listed, refuse_beyond_memory, shown

__all__ = ["chosen", "frame", "tidy", "write_csv"]

Columns = dict[str, np.ndarray]


def chosen(who: str, names: Any, more: Iterable[Any], known: Iterable[str]) -> list[str]:
    """Return the names of the fields of a table, a string or several, and `more`; by default all known ones."""
    if names is None:
        return list(known)
    found = [*listed(names), *more]
    if any(not isinstance(each, str) for each in found):
        raise TypeError(
            f"{who}: names = {shown(names)} ({type(names).__name__}) must be strings (fields of the table); pass "
            f"{next(iter(known), 'name')!r}, or a list of names"
        )
    if not found:
        raise ValueError(f"{who}: names = [] must name at least one (fields of the table); leave it out")
    return found


def tidy(who: str, lead: Mapping[str, Any], shape: tuple[int, ...], fields: Mapping[str, np.ndarray]) -> Columns:
    """Return columns with one row for each entry of each field: leading axes, name, own indices, value.

    Parameters
    ----------
    who : str
        Method that was called, for errors.
    lead : mapping of array
        Columns of the leading axes; each broadcasts to `shape`.
    shape : tuple of int
        Leading axes of all fields.
    fields : mapping of array, shape shape + own
        Fields with fewer axes are broadcast.

    Returns
    -------
    dict of array
        The columns of `lead`, "name", "axis0", "axis1", ... (masked where a field has fewer axes), "value".
    """
    values = {}
    for name, value in fields.items():
        own = value.shape[len(shape) :] if value.ndim > len(shape) else ()
        values[name] = np.broadcast_to(value, shape + own)
    most = max(value.ndim for value in values.values()) - len(shape)
    rows = sum(value.size for value in values.values())
    refuse_beyond_memory(who, {"rows": rows, "columns": len(lead) + most + 2}, "table; name fewer fields")
    parts: dict[str, list[Any]] = {name: [] for name in (*lead, "name", *(f"axis{k}" for k in range(most)), "value")}
    for name, value in values.items():
        own = value.shape[len(shape) :]
        size, members = int(np.prod(own, dtype=int)), int(np.prod(shape, dtype=int))
        for column, each in lead.items():
            parts[column].append(np.repeat(np.broadcast_to(each, shape).ravel(), size))
        parts["name"].append(np.full(value.size, name, dtype=object))
        index = np.indices(own).reshape(len(own), size)
        for k in range(most):
            there = k < len(own)
            axis = np.tile(index[k], members) if there else np.zeros(value.size, dtype=int)
            parts[f"axis{k}"].append(np.ma.array(axis, mask=np.full(value.size, not there)))
        parts["value"].append(value.ravel())
    return {
        name: np.ma.concatenate(each) if name.startswith("axis") else np.concatenate(each)  # type: ignore[no-untyped-call]
        for name, each in parts.items()
    }


def frame(who: str, columns: Columns) -> Any:
    """Return columns as a ``pandas.DataFrame``; masked integers are nullable.

    Raises
    ------
    ImportError
        If pandas is missing.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f'{who}: pandas is missing; pip install ".[labelled]" in the clone, or use to_csv') from error
    made = {
        name: pandas.arrays.IntegerArray(np.asarray(value.data), np.ma.getmaskarray(value))
        if isinstance(value, np.ma.MaskedArray)
        else value
        for name, value in columns.items()
    }
    return pandas.DataFrame(made)


def write_csv(who: str, path: str | os.PathLike[str], columns: Columns) -> Path:
    """Write columns to a file of comma-separated values, which replaces an existing one as a whole."""
    import csv

    from linsolve.core.results import folder_to_fill, whole_files

    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{who}: path = {path!r} must be the name of a file (where the table goes); say 'table.csv'")
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{who}: path = {path} is a folder (where the table goes); choose another name")
    with (
        whole_files(folder_to_fill(who, path.parent, "folder of path")) as made,
        (made / path.name).open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(columns)
        lists = [
            ["" if gone else each for each, gone in zip(value.data.tolist(), np.ma.getmaskarray(value), strict=True)]
            if isinstance(value, np.ma.MaskedArray)
            else value.tolist()
            for value in columns.values()
        ]
        writer.writerows(zip(*lists, strict=True))
    return path
