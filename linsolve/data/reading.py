"""Data sets by name or file: NumPy archives, tables of text, and built-in sets."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from linsolve.core.arguments import shown, unknown_name
from linsolve.data.archive import plain_arrays
from linsolve.data.dataset import Dataset
from linsolve.data.hierarchy import tree
from linsolve.data.table import read_table
from linsolve.data.whitening import samples

__all__ = ["BUILT_IN", "Dataset", "load"]

WHO = "data.load"


def load(
    source: str | os.PathLike[str],
    *,
    classes: Iterable[Any] | None = None,
    target: str | None = None,
    test: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Load a data set by name or from a file.

    Parameters
    ----------
    source : str or path
        ``"digits"`` or ``"breast_cancer"`` (shipped inside scikit-learn, extra ``[learn]``), ``"tree"`` (see `tree`),
        a ``.npz`` file with arrays ``X`` and ``Y`` (or ``x``, ``y``; ``X_train``, ``y_train``; ``arr_0``, ``arr_1``),
        or a ``.csv`` file with or without a header. No part of a file is executed.
    classes : iterable, optional
        Classes to keep; at least two.
    target : str, optional
        Name of the label column of a ``.csv`` file (its number, from 1, if there is no header); by default the last.
    test : str or path, optional
        Another such file, of test samples with the same columns and classes, `Dataset.test`. By default these are the
        arrays ``X_test`` and ``Y_test`` (or ``x_test``, ``y_test``) of a ``.npz`` file that has both.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If the content is not a learning problem; the message names the row and column.
    TypeError
        If the source is not a name or path, or the classes are not a list.
    OSError
        If the file cannot be read.
    ImportError
        If scikit-learn, which provides the built-in sets, is missing.

    Notes
    -----
    Labels that are text, booleans or integers are classes and become one-hot; a column of labels with decimal points is
    real (regression). A matrix of targets is unchanged, and its columns are classes if its rows are one-hot. The first
    row of a ``.csv`` file is a header if it is text, if it mixes text with increasing numbers, or if it counts the
    columns from 0 or 1 above numbers that are not all integers; otherwise it is a sample. Files with semicolons or tabs
    may have decimal commas; commas that may separate thousands raise an error.

    Examples
    --------
    >>> from linsolve import data
    >>> animals = data.load("tree")
    >>> animals.inputs.shape, animals.targets.shape
    ((8, 8), (8, 14))
    """
    if not isinstance(source, str | os.PathLike):
        raise TypeError(f"{WHO}: source = {shown(source)} must be a name or a path (of a data set); give one in quotes")
    name = str(os.fspath(source))
    if target is not None and not name.lower().endswith(".csv"):
        raise ValueError(f"{WHO}: target = {target!r} needs a .csv file (it names a column), not {name}; leave it out")
    X, labels, features = BUILT_IN[name]() if name in BUILT_IN else _read(_existing(name), target)
    found = _assemble(Path(name).stem, X, labels, features, classes)
    pairs: list[list[np.ndarray]] = [[]]
    if name not in BUILT_IN and name.lower().endswith(".npz"):
        arrays, _ = plain_arrays(WHO, "file", Path(name), "|".join((*_TEST_INPUTS, *_TEST_TARGETS)))
        pairs = [[arrays[each] for each in names if each in arrays] for names in (_TEST_INPUTS, _TEST_TARGETS)]
    if test is not None:
        if all(pairs):
            rule = f"does not go with the test samples in {name} (X_test, Y_test); leave one of them out"
            raise ValueError(f"{WHO}: test = {os.fspath(test)} {rule}")
        return _with_file(found, labels, str(os.fspath(test)), target, classes)
    return _with_test(found, labels, pairs[0][0], pairs[1][0], classes) if all(pairs) else found


def _read(path: Path, target: str | None) -> tuple[np.ndarray, np.ndarray, tuple[str, ...] | None]:
    return (*_read_npz(path), None) if path.suffix.lower() == ".npz" else read_table(path, target)


def _with_file(
    found: Dataset, labels: np.ndarray, test: str, target: str | None, classes: Iterable[Any] | None
) -> Dataset:
    """Return the data set with the test samples of a file; errors name it."""
    if Path(test).suffix.lower() not in (".npz", ".csv"):
        raise ValueError(f"{WHO}: test = {test} must be a file ending in .npz or .csv (of test samples); give its path")
    try:
        return _with_test(found, labels, *_read(_existing(test), target)[:2], classes)
    except (ValueError, OSError) as error:
        prefix, _, rest = str(error).partition(f"{WHO}: ")
        if prefix or not rest:  # of the operating system
            raise
        rest = rest.removeprefix("file = ")
        raise type(error)(f"{WHO}: test = {rest if rest.startswith(test) else f'{test}: {rest}'}") from None


def _existing(name: str) -> Path:
    path = Path(name)
    if path.suffix.lower() not in (".npz", ".csv"):
        raise ValueError(
            unknown_name(WHO, "data set", name, BUILT_IN)
            + "; or give a file ending in .npz or .csv (with commas, semicolons or tabs)"
        )
    if not path.is_file():
        state = "is not a file" if path.exists() else "does not exist"
        raise FileNotFoundError(f"{WHO}: file = {name} {state}; check the path")
    return path


def _from_sklearn(loader: str) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError(
            f'{WHO}: scikit-learn is needed for its built-in data; pip install ".[learn]" in the clone'
        ) from error
    bunch = getattr(datasets, loader)()
    return bunch.data, bunch.target_names[bunch.target], tuple(str(n) for n in bunch.feature_names)


def _from_tree() -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    found = tree()
    return found.inputs, found.targets, found.features


BUILT_IN: dict[str, Callable[[], tuple[np.ndarray, np.ndarray, tuple[str, ...]]]] = {
    "breast_cancer": lambda: _from_sklearn("load_breast_cancer"),
    "digits": lambda: _from_sklearn("load_digits"),
    "tree": _from_tree,
}


_INPUTS = ("X", "x", "X_train", "x_train", "arr_0")
_TARGETS = ("Y", "y", "Y_train", "y_train", "arr_1")
_TEST_INPUTS, _TEST_TARGETS = ("X_test", "x_test"), ("Y_test", "y_test")


def _read_npz(path: Path) -> tuple[np.ndarray, np.ndarray]:
    found, has = plain_arrays(WHO, "file", path, "|".join((*_INPUTS, *_TARGETS)))
    pair = []
    for names in (_INPUTS, _TARGETS):
        there = [name for name in names if name in found]
        if not there:
            raise ValueError(
                f"{WHO}: file = {path} has no array {names[0]} or {names[1]} (it has {has}); add it with numpy.savez"
            )
        if len(there) > 1:
            raise ValueError(
                f"{WHO}: file = {path} has the arrays {', '.join(there)} (samples); leave one of them in the file"
            )
        pair.append(found[there[0]])
    return pair[0], pair[1]


def _assemble(
    name: str, X: Any, labels: np.ndarray, features: tuple[str, ...] | None, classes: Iterable[Any] | None
) -> Dataset:
    X = samples(WHO, "X", X)
    count = len(labels) if labels.ndim else 0
    if count != len(X):
        raise ValueError(f"{WHO}: Y has {count} rows but X has {len(X)}; give one target for every sample")
    targets, names = _targets(labels)
    if classes is not None:
        X, targets, names = _subset(X, targets, names, _wanted(classes))
    _refuse_class_count(len(X), names)
    for column, label in enumerate(names):
        if not targets[:, column].any():
            raise ValueError(f"{WHO}: class = {label} has no samples; remove its column from the targets")
    features = tuple(str(i + 1) for i in range(X.shape[1])) if features is None else features
    return Dataset(name, X, targets, names, features)


def _with_test(
    found: Dataset, labels: np.ndarray, X: np.ndarray, tests: np.ndarray, classes: Iterable[Any] | None
) -> Dataset:
    """Return the data set with test samples, whose labels are coded as those of the training samples, `labels`."""
    X, coded = samples(WHO, "X_test", X), labels.ndim == 1 or labels.shape[1] == 1
    if tests.ndim == 0 or len(tests) != len(X):
        count = len(tests) if tests.ndim else 0
        raise ValueError(f"{WHO}: Y_test has {count} rows but X_test has {len(X)}; give one target for every sample")
    if X.shape[1] != found.inputs.shape[1]:
        raise ValueError(
            f"{WHO}: X_test has {X.shape[1]} columns but X has {found.inputs.shape[1]} (inputs); give the same ones"
        )
    if found.classes and coded:
        names = [each.decode(errors="replace") if isinstance(each, bytes) else str(each) for each in tests.ravel()]
        kept = np.array([classes is None or name in found.classes for name in names])
        for name in (name for name, keep in zip(names, kept, strict=True) if keep and name not in found.classes):
            raise ValueError(
                f"{WHO}: Y_test = {name} is no class of the training samples ({', '.join(found.classes)}); leave "
                "such samples out"
            )
        index = [found.classes.index(name) for name, keep in zip(names, kept, strict=True) if keep]
        X, targets = X[kept], np.eye(len(found.classes))[index]
    else:
        targets = samples(WHO, "Y_test", tests)
    if not len(X):
        raise ValueError(
            f"{WHO}: Y_test has no sample of the classes {', '.join(found.classes)} (test samples); add some"
        )
    if targets.shape[1] != found.targets.shape[1]:
        raise ValueError(
            f"{WHO}: Y_test has {targets.shape[1]} columns but Y has {found.targets.shape[1]} (targets); give the "
            "same ones"
        )
    return dataclasses.replace(found, test=(X, targets))


def _targets(labels: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return targets and class names; labels become one-hot, real numbers and matrices are unchanged."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 1 and labels.dtype.kind in "iubUS":
        known, index = np.unique(labels, return_inverse=True)
        names = tuple(k.decode(errors="replace") if isinstance(k, bytes) else str(k) for k in known)
        for row in np.flatnonzero([name.strip().lower() in ("", "nan") for name in names])[:1]:
            first = int(np.flatnonzero(index == row)[0])
            raise ValueError(f"{WHO}: Y[{first}] = {names[row]!r} is not a label (missing); fill or remove it")
        _refuse_class_count(len(labels), names)
        return np.eye(len(known))[index], names
    targets = samples(WHO, "Y", labels)
    one_hot = targets.shape[1] > 1 and np.isin(targets, (0, 1)).all() and (targets.sum(axis=1) == 1).all()
    return targets, tuple(str(i) for i in range(targets.shape[1])) if one_hot else ()


def _wanted(classes: Iterable[Any]) -> list[str]:
    try:
        wanted = [str(c) for c in classes]
    except TypeError:
        rule = "must be a list (of classes to keep); name at least two"
        raise TypeError(f"{WHO}: classes = {shown(classes)} {rule}") from None
    if not wanted:
        raise ValueError(f"{WHO}: classes = {classes!r} is empty (classes to keep); name at least two, or leave it out")
    return wanted


def _subset(
    X: np.ndarray, targets: np.ndarray, names: tuple[str, ...], wanted: list[str]
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    if not names:
        raise ValueError(f"{WHO}: classes = {', '.join(wanted)} cannot be chosen, the targets are real; leave it out")
    for label in wanted:
        if label not in names:
            raise ValueError(unknown_name(WHO, "class", label, names))
    columns = [i for i, name in enumerate(names) if name in wanted]
    rows = targets[:, columns].any(axis=1)
    return X[rows], targets[rows][:, columns], tuple(names[i] for i in columns)


def _refuse_class_count(count: int, names: tuple[str, ...]) -> None:
    if len(names) == 1:
        raise ValueError(f"{WHO}: classes = {names[0]} is only one class; at least two are needed to tell them apart")
    if len(names) > count // 2:
        raise ValueError(
            f"{WHO}: classes = {len(names)} are too many for {count} samples (a class needs two on average); "
            "if the labels are quantities, write them with decimal points"
        )
