"""Statistics of an ensemble by name, as a labelled dataset or as a figure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from linsolve.core.arguments import unknown_name

__all__ = ["Ensemble"]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Ensemble:
    """Statistics of random networks; ``found["loss", "mean"]`` returns the mean of the loss.

    Parameters
    ----------
    flow : Flow
        Flow of the first members, used for its names.
    members : int
        Number of networks.
    t : array, shape () or (T,)
        Times.
    values : mapping of (observable, statistic) to array
        Statistics of shape t.shape + rest of the batch + own. ``"quantiles"`` has a leading axis of levels,
        ``"histogram"`` a trailing axis of bins; ``"below"`` and ``"above"`` count members outside the edges.
    levels : tuple of float
        Levels of the quantiles.
    edges : mapping of observable to array
        Edges of the bins of histograms.
    omitted : mapping of observable to array of int
        Numbers of members omitted because of nonfinite values.
    passes : int
        Number of passes over the members.

    Examples
    --------
    >>> import linsolve as ls
    >>> wide = ls.ensembles.random_networks(width=10**9, sigma_u=1e-5, sigma_w=1e-5, y=1.0)
    >>> found = ls.ensemble(wide, 100, [0.0, 1.0], reduce=("mean", "max"), rng=0)
    >>> found.observables, found.statistics, found["loss", "mean"].shape
    (['loss'], ['mean', 'max'], (2,))
    """

    flow: Any
    members: int
    t: np.ndarray
    values: Mapping[tuple[str, str], np.ndarray]
    levels: tuple[float, ...]
    edges: Mapping[str, np.ndarray]
    omitted: Mapping[str, np.ndarray]
    passes: int

    @property
    def observables(self) -> list[str]:
        """Observables, in the requested order."""
        return list(self.omitted)

    @property
    def statistics(self) -> list[str]:
        """Statistics of each observable."""
        return list(dict.fromkeys(statistic for _, statistic in self.values))

    def __getitem__(self, names: tuple[str, str]) -> np.ndarray:
        if not isinstance(names, tuple) or len(names) != 2:
            raise KeyError(f"Ensemble: names = {names!r} must be an observable and a statistic; say ['loss', 'mean']")
        for what, name, known in zip(
            ("observable", "statistic"), names, (self.observables, self.statistics), strict=True
        ):
            if name not in known:
                raise KeyError(unknown_name("Ensemble", what, name, known))
        return self.values[names]

    def _ipython_key_completions_(self) -> list[tuple[str, str]]:
        return list(self)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield every pair of names that ``found[names]`` takes."""
        yield from self.values

    def __repr__(self) -> str:
        what = f"{', '.join(self.statistics)} of {', '.join(self.observables)}"
        return f"Ensemble({type(self.flow).__name__}, {self.members} members, t: shape {self.t.shape}; {what})"

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything as named arrays: ``t``, ``loss_mean``, ``loss_edges``, ``levels``, ..."""
        found = {"t": self.t, "members": np.array(self.members)}
        if self.levels:
            found["levels"] = np.array(self.levels)
        for (name, statistic), value in self.values.items():
            found[f"{name}_{statistic}"] = value
        for name in self.observables:
            found[f"{name}_omitted"] = self.omitted[name]
            if name in self.edges:
                found[f"{name}_edges"] = self.edges[name]
        return found

    def to_xarray(self) -> Any:
        """Return a labelled ``xarray.Dataset`` (extra ``[labelled]``).

        Dimensions are ``quantile``, ``t``, then ``loss_axis0, ...`` for batch and own axes, and ``loss_bin``, whose
        coordinates are the centers and the edges of the bins.

        Raises
        ------
        ImportError
            If xarray is missing.
        """
        from linsolve.core.labelled import xarray_for

        xarray = xarray_for("Ensemble.to_xarray")
        time = ("t",) if self.t.ndim else ()
        coordinates: dict[str, Any] = {"t": (time, self.t, {"long_name": "time", "units": "units of time"})}
        if self.levels:
            coordinates["quantile"] = ("quantile", np.array(self.levels), {"long_name": "probability"})
        variables: dict[str, Any] = {}
        for name, omitted in self.omitted.items():
            dims = time + tuple(f"{name}_axis{k}" for k in range(omitted.ndim - self.t.ndim))
            variables[f"{name}_omitted"] = (dims, omitted, {"long_name": f"members left out of {name}"})
            if name in self.edges:
                low, high = self.edges[name][:-1], self.edges[name][1:]
                coordinates[f"{name}_bin"] = (f"{name}_bin", low + (high - low) / 2, {"long_name": f"{name}, bin"})
                coordinates[f"{name}_low"], coordinates[f"{name}_high"] = (f"{name}_bin", low), (f"{name}_bin", high)
            for (of, statistic), value in self.values.items():
                if of == name:
                    before = ("quantile",) if statistic == "quantiles" else ()
                    after = (f"{name}_bin",) if statistic == "histogram" else ()
                    about = {"long_name": f"{statistic.replace('_', ' ')} of {name}"}
                    variables[f"{name}_{statistic}"] = (before + dims + after, value, about)
        attributes = {"flow": type(self.flow).__name__, "members": self.members}
        return xarray.Dataset(variables, coordinates, attributes)

    def plot(self, name: str | None = None, ax: Any = None, *, log: bool | None = None, **style: Any) -> Any:
        """Draw an observable over time: the mean as a line, with bands between quantiles or of a standard deviation.

        Parameters
        ----------
        name : str, optional
            Observable of one number at each time; the first by default.
        ax : matplotlib Axes, optional
        log : bool, optional
            Whether the vertical axis is logarithmic; by default for a loss that decreases by more than a factor of 10.
        **style
            Passed to ``Axes.plot`` for the mean and the median.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ValueError
            If there is a single time, more than one number per time, or neither mean nor quantiles; or if `log` is True
            and a mean or median is negative. Bands below 0 are cut off.
        """
        from linsolve.plot.axes import falls, label_axes, refuse_log, scale_axis
        from linsolve.plot.style import COLORS, drawing

        name = self.observables[0] if name is None else name
        lines, bands = self._drawn(name)
        seen = np.isfinite(self.t)
        if log:
            for _, values in lines:
                refuse_log("Ensemble.plot", name, values[seen])
        with drawing(ax) as ax:
            shades = (0.24, 0.36, 0.45)
            for k, (label, low, high) in enumerate(bands):
                shade = {"color": COLORS["sky"], "alpha": shades[min(k, 2)], "linewidth": 0}
                ax.fill_between(self.t[seen], low[seen], high[seen], label=label, **shade)
            for (label, values), color, dash in zip(lines, ("blue", "vermilion"), ("-", (0, (5, 2))), strict=False):
                look = {"label": label, "color": COLORS[color], "linestyle": dash} | style
                ax.plot(self.t[seen], values[seen], **look)
            label_axes(ax, (self.flow,), name)
            shown = np.stack([v[seen] for _, *values in [*lines, *bands] for v in values], axis=-1)
            central = lines[0][1][seen, None]
            scale_axis(ax, shown, falls(name, central) and bool((shown > 0).all()) if log is None else log)
            ax.legend()
        return ax

    def _drawn(self, name: str) -> tuple[list[tuple[str, np.ndarray]], list[tuple[str, np.ndarray, np.ndarray]]]:
        """Return lines and bands, with labels, outermost first."""
        if name not in self.observables:
            raise ValueError(unknown_name("Ensemble.plot", "name", name, self.observables))
        shape = self.omitted[name].shape
        if self.t.ndim != 1 or shape != self.t.shape:
            raise ValueError(
                f"Ensemble.plot: {name} has shape {shape} but needs one number at each of several times; draw a part "
                "with Matplotlib from .values"
            )
        known = {statistic: value for (of, statistic), value in self.values.items() if of == name}
        lines = [(f"mean of {self.members:,} networks", known["mean"])] if "mean" in known else []
        bands = []
        if "quantiles" in known:
            values, levels = known["quantiles"], self.levels
            for k in range(len(levels) // 2):
                label = f"{100 * levels[k]:g} % to {100 * levels[-1 - k]:g} %"
                bands.append((label, values[k], values[-1 - k]))
            if 0.5 in levels:
                lines.append(("median", values[levels.index(0.5)]))
        elif "variance" in known and "mean" in known:
            spread = np.sqrt(known["variance"])
            bands.append(("mean ± standard deviation", known["mean"] - spread, known["mean"] + spread))
        if not lines:
            raise ValueError(f"Ensemble.plot: {name} has neither a mean nor a median to draw; add 'mean' to reduce")
        return lines, bands
