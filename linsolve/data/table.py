"""Tables of comma-, semicolon- or tab-separated values: header, delimiter, decimal sign and label column."""

from __future__ import annotations

import csv
import itertools
import re
from pathlib import Path

import numpy as np

from linsolve.core.arguments import unknown_name

__all__ = ["read_table"]

WHO = "data.load"
_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?|[+-]?\d+,([eE][+-]?\d+)?")  # 1,5
_INTEGER = re.compile(r"[+-]?\d+")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # 1,500
MISSING = ("?", "-", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None")


def read_table(path: Path, target: str | None) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return inputs, labels and the inputs' names from a table of numbers with one column of labels.

    Parameters
    ----------
    path : Path
        Text in UTF-8, columns separated by commas, semicolons or tabs; with the latter two, numbers may have decimal
        commas.
    target : str, optional
        Name of the label column; by default the last.

    Raises
    ------
    ValueError
        If a row is too short or long, a cell is not a number, or the label column is missing.
    """
    delimiter, rows = _rows(path)
    if delimiter != ",":
        rows = _with_points(path, rows)
    first, body = rows[0][1], rows[1:]
    if _is_header(first, [cells for _, cells in body]):
        names = [cell.strip() for cell in first]
    else:
        names, body = [str(i + 1) for i in range(len(first))], rows
    if not body:
        raise ValueError(f"{WHO}: file = {path} has a header but no rows; add data")
    if target is not None and names.count(target) != 1:
        if target in names:
            raise ValueError(f"{WHO}: target column = {target!r} is the name of several columns; rename all but one")
        raise ValueError(unknown_name(WHO, "target column", target, names))
    label = names.index(target) if target is not None else len(names) - 1
    if len(names) < 2:
        raise ValueError(f"{WHO}: file = {path} has one column; it needs at least one input and the labels")
    columns = [i for i in range(len(names)) if i != label]
    X = np.array([[_number(path, line, names[i], cells[i]) for i in columns] for line, cells in body])
    found = [_label(path, line, names[label], cells[label].strip()) for line, cells in body]
    return X, _labels(found), tuple(names[i] for i in columns)


def _rows(path: Path) -> tuple[str, list[tuple[int, list[str]]]]:
    """Return the delimiter, and the non-empty rows with their line numbers, all of one length."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{WHO}: file = {path} is not text in UTF-8; save it as a .csv in UTF-8") from None
    lines = text.split("\n")  # str.splitlines would also split at characters allowed in a cell
    first = next((line for line in lines if line.strip()), "")
    try:
        delimiter = max(",;\t", key=lambda each: len(next(csv.reader([first], delimiter=each), [])))
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
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
    return delimiter, rows


def _with_points(path: Path, rows: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """Return rows with decimal points for decimal commas; raise for commas that may separate thousands.

    Commas are decimal if no number has a point, each number has at most one comma, and at least one comma is not
    followed by exactly three digits.
    """
    commas = [(line, cell.strip()) for line, cells in rows for cell in cells if _COMMA.fullmatch(cell.strip())]
    if not commas:
        return rows
    pointed = any("." in cell and _is_number(cell) for _, cells in rows for cell in cells)
    clear = any(not _THOUSANDS.fullmatch(cell) for _, cell in commas)
    if pointed or not clear:
        line, cell = commas[0]
        raise ValueError(
            f"{WHO}: {path.name} line {line}, {cell!r} has a comma that may be decimal or separate thousands; write "
            "numbers with decimal points and no other marks"
        )
    return [(line, [c.replace(",", ".") if _COMMA.fullmatch(c.strip()) else c for c in cells]) for line, cells in rows]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python ignores underscores in numbers


def _is_header(first: list[str], body: list[list[str]]) -> bool:
    """Return whether the first row names the columns.

    A row of text is a header. A row of text and numbers is a header if its numbers increase, like column numbers, years
    or wavelengths, and a text in it is above numbers, or its numbers count from 0 or 1. A text that occurs again below,
    or begins like a number, is a value. A row of numbers is a header if it counts three or more columns from 0 or 1 and
    the numbers below are not all integers.
    """
    row = [cell.strip() for cell in first]
    if len(row) > 2 and row in ([str(i) for i in range(len(row))], [str(i + 1) for i in range(len(row))]):
        return any(_is_number(cell) and not _INTEGER.fullmatch(cell.strip()) for cells in body for cell in cells)
    texts = [i for i, cell in enumerate(row) if cell and not _is_number(cell)]
    if any(row[i] in MISSING for i in texts):
        return False
    if len(texts) == len(row):
        return True
    if any(row[i][0] in "0123456789+-.," or row[i] in (cells[i].strip() for cells in body) for i in texts):
        return False
    numbers = [float(cell) for cell in row if _is_number(cell)]
    rise = all(a < b for a, b in itertools.pairwise(numbers))
    counted = len(numbers) > 1 and numbers in ([*range(len(numbers))], [*range(1, len(numbers) + 1)])
    above = any(body and all(_is_number(cells[i]) for cells in body) for i in texts)
    return bool(texts) and rise and (above or counted)


def _number(path: Path, line: int, name: str, cell: str) -> float:
    if not _is_number(cell):
        what = "is empty" if not cell.strip() else f"= {cell.strip()!r} is not a number"
        raise ValueError(f"{WHO}: {path.name} line {line}, column {name!r} {what}; fill, convert or remove it")
    value = float(cell)
    if not np.isfinite(value):
        raise ValueError(f"{WHO}: {path.name} line {line}, column {name!r} = {value} must be finite; fill or remove it")
    return value


def _label(path: Path, line: int, name: str, cell: str) -> str:
    if cell.lower() in ("", "nan"):
        what = f"= {cell!r} is missing" if cell else "is empty"
        raise ValueError(f"{WHO}: {path.name} line {line}, column {name!r} {what}; fill or remove it")
    return cell


def _labels(cells: list[str]) -> np.ndarray:
    """Return labels as integers, as reals, or otherwise as text."""
    if not all(_is_number(cell) for cell in cells):
        return np.array(cells)
    try:
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    except OverflowError:  # labels of many digits are names
        return np.array(cells)
    except ValueError:
        return np.array([float(cell) for cell in cells])
