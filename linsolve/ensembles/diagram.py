"""The result of a sweep: values on a grid, by name, with its axes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from linsolve.core.arguments import unknown_name
from linsolve.core.results import folder_to_fill, whole_files
from linsolve.core.table import chosen, frame, tidy, write_csv
from linsolve.ensembles.axes import Axis
from linsolve.plot.axes import FLOOR, LABELS, scale_axis
from linsolve.plot.style import drawing

__all__ = ["Diagram"]

WIDE = 100.0  # positive values that span more than this ratio are drawn on a logarithmic scale


@dataclass(frozen=True, eq=False, repr=False)
class Diagram:
    """Values on a grid; ``d["loss"]`` gives them by name, ``d["sigma"]`` the values of an axis.

    Parameters
    ----------
    axes : dict of Axis
        Axes by name, in the order of the axes of the values.
    values : mapping of array, shape grid + own
        Values by name. Values of a sweep with a store are read from the store at each access.
    own : dict of tuple of str
        Names of further axes of the values.
    meanings : dict of str
        Meanings of the values, if known.
    source : dict of str
        Provenance: function, version, seed, fixed parameters.

    Examples
    --------
    >>> import linsolve as ls
    >>> d = ls.sweep(lambda width, height: width * height, width=[1.0, 2.0], height=[3.0, 4.0, 5.0])
    >>> d, d["value"].tolist()
    (Diagram(width: 2, height: 3; value), [[3.0, 4.0, 5.0], [6.0, 8.0, 10.0]])
    """

    axes: Mapping[str, Axis]
    values: Mapping[str, np.ndarray]
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of the values."""
        return list(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis of the grid."""
        return tuple(len(axis.values) for axis in self.axes.values())

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self.axes:
            return self.axes[name].values
        if name in self.values:
            return self.values[name]
        raise KeyError(unknown_name("Diagram", "name", name, [*self.values, *self.axes]))

    def __iter__(self) -> Iterator[str]:
        """Yield every name that ``d[name]`` takes."""
        yield from (*self.values, *self.axes)

    def __repr__(self) -> str:
        grid = ", ".join(f"{name}: {len(axis.values)}" for name, axis in self.axes.items())
        return f"Diagram({grid}; {', '.join(self.names)})"

    def arrays(self) -> dict[str, np.ndarray]:
        """Return axes and values by name, as arrays."""
        return {name: axis.values for name, axis in self.axes.items()} | dict(self.values)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write axes and values to an ``.npz`` file; an existing file is replaced atomically.

        Raises
        ------
        ValueError
            If the name does not end in ``.npz``, the file cannot be written, or an axis or a value is named "file" or
            "allow_pickle", which are arguments of `numpy.savez_compressed`.
        """
        path, arrays = Path(path), self.arrays()
        if path.suffix != ".npz":
            raise ValueError(f"Diagram.save: path = {path} must end in .npz (NumPy's archives); rename it")
        if path.is_dir():
            raise ValueError(f"Diagram.save: path = {path} is a folder (where the archive goes); choose another name")
        if taken := {"file", "allow_pickle"} & set(arrays):
            raise ValueError(f"Diagram.save: name = {min(taken)!r} is reserved in NumPy's archives; rename it")
        with whole_files(folder_to_fill("Diagram.save", path.parent)) as made:
            np.savez_compressed(made / path.name, **arrays)  # type: ignore[arg-type]
        return path

    def to_xarray(self) -> Any:
        """Return axes and values as a labelled ``xarray.Dataset`` (extra ``[labelled]``).

        Raises
        ------
        ImportError
            If xarray is missing.
        """
        from linsolve.core.labelled import distinct, xarray_for

        xarray = xarray_for("Diagram.to_xarray")
        grid = tuple(self.axes)
        coordinates = {
            name: (name, axis.values, {"long_name": axis.meaning or axis.label, "symbol": axis.label})
            for name, axis in self.axes.items()
        }
        variables = {}
        for name, value in self.values.items():
            own = tuple(self.own.get(name, ()))
            if len(own) != value.ndim - len(grid):
                own = tuple(f"{name}_axis{k}" for k in range(value.ndim - len(grid)))
            variables[name] = (grid + distinct(own), value, {"long_name": self.meanings.get(name, name)})
        return xarray.Dataset(variables, coordinates, dict(self.source))

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def to_dataframe(self, names: str | Iterable[str] | None = None) -> Any:
        """Return a tidy ``pandas.DataFrame`` (extra ``[labelled]``) with one row for each number.

        Parameters
        ----------
        names : str or iterable of str, optional
            Values to list; by default all.

        Returns
        -------
        pandas.DataFrame
            Columns: one for each axis; ``name``; ``axis0``, ..., the indices of own axes; ``value``.

        Raises
        ------
        ImportError
            If pandas is missing.
        """
        return frame("Diagram.to_dataframe", self._columns("to_dataframe", names))

    def to_csv(self, path: str | os.PathLike[str], names: str | Iterable[str] | None = None) -> Path:
        """Write the table of `to_dataframe` to a file of comma-separated values, and return its path.

        Raises
        ------
        ValueError
            If the file cannot be written.
        """
        return write_csv("Diagram.to_csv", path, self._columns("to_csv", names))

    def _columns(self, method: str, names: str | Iterable[str] | None) -> dict[str, np.ndarray]:
        who = f"Diagram.{method}"
        lead = dict(zip(self.axes, np.meshgrid(*(a.values for a in self.axes.values()), indexing="ij"), strict=True))
        return tidy(
            who, lead, self.shape, {name: np.asarray(self[name]) for name in chosen(who, names, (), self.values)}
        )

    def plot(self, name: str | None = None, ax: Any = None, *, log: bool | None = None, **style: Any) -> Any:
        """Draw a value over one axis as a line, or over two axes as a map with the first axis vertical.

        Parameters
        ----------
        name : str, optional
            Value to draw; the first by default.
        ax : matplotlib Axes, optional
            Axes to draw on; new ones by default.
        log : bool, optional
            Whether the values are drawn on a logarithmic scale, which ends at 1e-12 of the largest; by default if they
            are positive and span more than two decades. The scale of an axis is given by `Axis.logarithmic`.
        **style
            Passed to ``Axes.plot`` or ``Axes.pcolormesh``.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ValueError
            For more than two axes, for own axes, for infinite values along an axis, or for the logarithm of a value
            that is not positive.
        """
        return _draw(self, self.names[0] if name is None else name, ax, log, style)


def _draw(diagram: Diagram, name: str, ax: Any, log: bool | None, style: dict[str, Any]) -> Any:
    """Draw one value of a sweep over its one or two axes, and return the matplotlib axes."""
    if name not in diagram.values:
        raise ValueError(unknown_name("Diagram.plot", "name", name, diagram.names))
    values, axes = diagram[name], list(diagram.axes.values())
    if len(axes) > 2 or values.ndim > len(axes):
        raise ValueError(
            f"Diagram.plot: {name} has shape {values.shape} but needs one or two axes (a line or a map); "
            "sweep fewer, or draw a part of d[name]"
        )
    for axis in axes:
        if not np.isfinite(axis.values).all() or len(np.unique(axis.values)) < 2:
            raise ValueError(f"Diagram.plot: {axis.name} must have two or more finite values; sweep such a range")
    if values.dtype.kind == "c":
        raise ValueError(f"Diagram.plot: {name} is complex (a figure shows real numbers); draw a part of d[name]")
    if log and not (values > 0).all():
        raise ValueError(f"Diagram.plot: {name} = {values.min()} must be positive (logarithmic scale); say log=False")
    log = bool((values > 0).all() and values.max() > WIDE * values.min()) if log is None else bool(log)
    label = LABELS.get(name, name.replace("_", " "))
    with drawing(ax) as ax:
        if len(axes) == 1:
            _line(ax, axes[0], values, label, log, style)
        else:
            _map(ax, axes[1], axes[0], values, label, log, style)
    return ax


def _line(ax: Any, axis: Axis, values: np.ndarray, label: str, log: bool, style: dict[str, Any]) -> None:
    order = np.argsort(axis.values, kind="stable")
    ax.plot(axis.values[order], values[order], **style)
    if axis.logarithmic:
        ax.set_xscale("log")
    if log:
        scale_axis(ax, values, log)
    ax.set_xlabel(axis.label or axis.name)
    ax.set_ylabel(label)
    ax.margins(x=0.01)


def _map(ax: Any, x: Axis, y: Axis, values: np.ndarray, label: str, log: bool, style: dict[str, Any]) -> None:
    ordered = values[np.ix_(np.argsort(y.values), np.argsort(x.values))]
    scale = {"norm": "log", "vmin": max(values.min(), FLOOR * values.max())} if log and "norm" not in style else {}
    look: dict[str, Any] = {"cmap": "viridis", "rasterized": True} | scale | style
    mesh = ax.pcolormesh(x.edges(), y.edges(), ordered, **look)
    for axis, set_scale, set_limits in ((x, ax.set_xscale, ax.set_xlim), (y, ax.set_yscale, ax.set_ylim)):
        if axis.logarithmic:
            set_scale("log")
        edges = axis.edges()
        set_limits(edges[0], edges[-1])
    ax.set_xlabel(x.label or x.name)
    ax.set_ylabel(y.label or y.name)
    ax.grid(False)
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02)
    bar.set_label(label)
    bar.outline.set_visible(False)
