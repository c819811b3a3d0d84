"""Comma-separated values: header, delimiter and label column found without guessing at the content."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from linsolve.inputs import unknown_name

__all__ = ["read_table"]

WHO = "data.load"


def read_table(path: Path, target: str | None) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return inputs, labels and the inputs' names from a table of numbers with one column of labels.

    Parameters
    ----------
    path : Path
        Text in UTF-8, columns separated by commas, semicolons or tabs.
    target : str, optional
        Name of the label column; by default the last.

    Raises
    ------
    ValueError
        If a row is too short or long, a cell is not a number, or the label column is missing.
    """
    rows = _rows(path)
    first, body = rows[0][1], rows[1:]
    if _is_header(first, [cells for _, cells in body]):
        names = [cell.strip() for cell in first]
    else:
        names, body = [str(i + 1) for i in range(len(first))], rows
    if not body:
        raise ValueError(f"{WHO}: file = {path} has a header but no rows; add data")
    if target is not None and target not in names:
        raise ValueError(unknown_name(WHO, "target column", target, names))
    label = names.index(target) if target is not None else len(names) - 1
    if len(names) < 2:
        raise ValueError(f"{WHO}: file = {path} has one column; it needs at least one input and the labels")
    columns = [i for i in range(len(names)) if i != label]
    X = np.array([[_number(path, line, names[i], cells[i]) for i in columns] for line, cells in body])
    labels = _labels([cells[label].strip() for _, cells in body])
    empty = [line for line, cells in body if not cells[label].strip()]
    if empty:
        raise ValueError(f"{WHO}: {path.name} line {empty[0]}, column {names[label]!r} is empty; fill or remove it")
    return X, labels, tuple(names[i] for i in columns)


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """Return the non-empty rows with their line numbers, all of one length."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{WHO}: file = {path} is not text in UTF-8; save it as a .csv in UTF-8") from None
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    try:
        reader = csv.reader(text.splitlines(), delimiter=delimiter)
        rows = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise ValueError(f"{WHO}: file = {path} is not a table ({error}); save it as plain .csv") from None
    if not rows:
        raise ValueError(f"{WHO}: file = {path} is empty; add a header and rows")
    width = len(rows[0][1])
    for line, cells in rows:
        if len(cells) != width:
            raise ValueError(
                f"{WHO}: {path.name} line {line} has {len(cells)} columns but the first row has {width}; repair the row"
            )
    return rows


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_header(first: list[str], body: list[list[str]]) -> bool:
    """Return whether the first row names the columns: all text, or text above a column of numbers."""
    texts = [i for i, cell in enumerate(first) if cell.strip() and not _is_number(cell)]
    if len(texts) == len(first):
        return True
    return any(body and all(_is_number(cells[i]) for cells in body) for i in texts)


def _number(path: Path, line: int, name: str, cell: str) -> float:
    if not _is_number(cell):
        what = "is empty" if not cell.strip() else f"= {cell.strip()!r} is not a number"
        raise ValueError(f"{WHO}: {path.name} line {line}, column {name!r} {what}; fill, convert or remove it")
    value = float(cell)
    if not np.isfinite(value):
        raise ValueError(f"{WHO}: {path.name} line {line}, column {name!r} = {value} must be finite; fill or remove it")
    return value


def _labels(cells: list[str]) -> np.ndarray:
    """Return labels as integers, as reals, or else as text."""
    for kind in (int, float):
        try:
            return np.array([kind(cell) for cell in cells])
        except (ValueError, OverflowError):
            continue
    return np.array(cells)
