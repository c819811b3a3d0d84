"""Bases of trajectories: access by name, table, figure and key completion of values over time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import shown
from linsolve.core.table import Columns, chosen, frame, tidy, write_csv

__all__ = ["NamedSeries", "Series", "draw_by"]

_drawer: list[Callable[..., Any]] = []


def draw_by(drawer: Callable[..., Any]) -> None:
    """Set the function that draws a trajectory, ``drawer(traj, name, ax, log=, **style)``."""
    _drawer[:] = [drawer]


class Series:
    """Values by name over times: ``keys()``, ``t`` and ``[name]`` are those of the subclass."""

    t: Any

    def keys(self) -> list[str]:
        """Return the names of the values."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.keys()

    if not TYPE_CHECKING:  # mypy would accept every attribute

        def __getattr__(self, name: str) -> Any:
            cls = type(self)
            if name.startswith("_") or hasattr(cls, name) or name in getattr(cls, "__dataclass_fields__", ()):
                return object.__getattribute__(self, name)  # missing, or a property that failed
            from difflib import get_close_matches

            nearest = [name] if name in self else get_close_matches(name, self.keys(), 1)
            fix = "".join(f' (values are read by name); use traj["{each}"]' for each in nearest)
            raise AttributeError(f"{cls.__name__!r} object has no attribute {name!r}{fix}", name=name, obj=self)

    def _require_name(self, name: Any) -> None:
        """Raise KeyError if a name is not a string."""
        if not isinstance(name, str):
            masks = getattr(name, "dtype", None) == np.dtype(bool)
            index = "mask" if masks else name if type(name) is int else "index"
            given = f"{shown(name)} ({type(name).__name__})"
            raise KeyError(
                f"{type(self).__name__}: name = {given} must be a string (value over time); "
                f'index the value, traj["{self.keys()[0]}"][{index}]; names: {", ".join(self.keys())}'
            )

    def _lead(self) -> dict[str, Any]:
        """Return the columns of the leading axes, which broadcast to their common shape."""
        return {"t": arithmetic.to_numpy(self.t)}

    def _tabled(self) -> list[str]:
        """Return the names of a table by default."""
        return self.keys()

    def _columns(self, method: str, names: str | Iterable[str] | None, more: tuple[str, ...]) -> Columns:
        who, lead = f"{type(self).__name__}.{method}", self._lead()
        fields = {name: arithmetic.to_numpy(self[name]) for name in chosen(who, names, more, self._tabled())}
        return tidy(who, lead, np.broadcast_shapes(*(np.shape(each) for each in lead.values())), fields)

    def to_dataframe(self, names: str | Iterable[str] | None = None, *more: str) -> Any:
        """Return a tidy ``pandas.DataFrame`` (extra ``[labelled]``) with one row for each number.

        Parameters
        ----------
        names : str or iterable of str, optional
            Values to list; by default all, without the tangent kernel of a `NetworkTrajectory`.
        *more : str
            Further names.

        Returns
        -------
        pandas.DataFrame
            Columns: ``t``; ``batch0``, ... and parameters of the members, for a batch; ``name``; ``axis0``, ``axis1``,
            ..., the indices of an array, missing where it has fewer axes; ``value``.

        Raises
        ------
        ImportError
            If pandas is missing.
        KeyError
            If a name is unknown.
        TypeError
            If a name is not a string.

        Examples
        --------
        >>> import linsolve as ls
        >>> traj = ls.TwoLayer(y=1.0, x=[1.0])([0.0, 1.0], ([0.5, 0.1], [[0.5], [0.2]]))
        >>> traj.to_dataframe(["loss", "u"]).shape  # 2 times, one loss and two entries of u
        (6, 4)
        """
        return frame(f"{type(self).__name__}.to_dataframe", self._columns("to_dataframe", names, more))

    def to_csv(self, path: str | os.PathLike[str], names: str | Iterable[str] | None = None, *more: str) -> Path:
        """Write the table of `to_dataframe` to a file of comma-separated values, and return its path.

        Parameters
        ----------
        path : str or path
            An existing file is replaced as a whole; missing folders are created.
        names : str or iterable of str, optional
            Values to list, as in `to_dataframe`.
        *more : str
            Further names.

        Raises
        ------
        ValueError
            If the file cannot be written.
        KeyError
            If a name is unknown.
        TypeError
            If a name is not a string.
        """
        return write_csv(f"{type(self).__name__}.to_csv", path, self._columns("to_csv", names, more))

    def plot(self, name: str = "loss", ax: Any = None, *, log: bool | None = None, **style: Any) -> Any:
        """Draw a value over time and return the matplotlib axes; the same as ``linsolve.plot.trajectory``.

        Parameters
        ----------
        name : str
        ax : matplotlib Axes, optional
            Axes to draw on; new ones by default.
        log : bool, optional
            Logarithmic vertical axis; by default for a positive loss that falls by more than a factor of 10.
        **style
            Passed to ``Axes.plot``.

        Returns
        -------
        matplotlib Axes
        """
        return _drawer[0](self, name, ax, log=log, **style)

    def _ipython_key_completions_(self) -> list[str]:
        return self.keys()


class NamedSeries(Series):
    """Values by name over times, from the mapping `values`, which may evaluate each at its first access."""

    route: str
    values: Mapping[str, Any]

    def keys(self) -> list[str]:
        """Return the names of the values."""
        return list(self.values)

    def __getitem__(self, name: str) -> Any:
        self._require_name(name)
        if name not in self:
            raise KeyError(self._unknown(name))
        return self.values[name]

    def __repr__(self) -> str:
        shape = "no time" if self.t is None else f"t: shape {self.t.shape}"
        return f"{type(self).__name__}({shape}, route: {self.route}; {', '.join(self.keys())})"

    def _unknown(self, name: Any) -> str:
        """Return the message for a name that is not among the values."""
        raise NotImplementedError

    def _tabled(self) -> list[str]:
        # arrays whose size is the square of that of the outputs or weights are listed on demand
        return [name for name in self.keys() if name not in ("ntk", "covariance")]
