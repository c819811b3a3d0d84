"""Phase diagrams: a map on a grid, exact boundaries, and their distance from the boundaries of the map."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.arguments import choice
from linsolve.core.results import folder_to_fill, whole_files
from linsolve.ensembles import diagram as on_grids
from linsolve.ensembles.axes import Axis
from linsolve.studies.comparison import save_arrays, save_figure

__all__ = ["DIAGRAMS", "Axis", "Curve", "Diagram", "Mark", "diagram", "write"]

# name and title of each diagram, a function of this name (with underscores) in the module in `WHERE`
DIAGRAMS = {
    "exponents": "kernel, feature, frozen and unstable over the exponents of model scale and learning rate",
    "lazy": "lazy and feature training over output scale and width, with the crossover alpha*",
    "start": "alignment, disalignment and rescaling over the lengths of the two layers at the start",
    "rates": "which layer learns, over the ratio of the learning rates and that of the layers",
    "time": "time to 1 % of the loss over the size of the start and the target",
    "chaos": "ordered and chaotic networks over the variances of weights and biases, with the edge of chaos",
    "dispersion": "dispersion of the tangent kernel over depth and gain, through the three phases",
    "depth": "time to learn over the start and the depth of a balanced mode, with its contributions",
    "descent": "gradient descent over learning rate and imbalance: convergence, catapult, cycles, chaos, divergence",
    "double-descent": "test error of a linear model over samples and time, with the optimal stopping time",
    "grokking": "time to learn the test set over that to learn the training set, over samples and tolerance",
    "reversal": "time to learn a second task over its angle to the first one and the imbalance of the layers",
}
WHERE = dict.fromkeys(DIAGRAMS, "two_layer") | dict.fromkeys(("chaos", "dispersion"), "kernel")
WHERE |= {"depth": "depth", "descent": "descent"} | dict.fromkeys(("double-descent", "grokking"), "generalization")
WHERE |= {"reversal": "reversal"}

MOST = 2001  # largest number of points along an axis; larger maps exceed the memory of a laptop


class Curve(NamedTuple):
    """An exact curve in a phase diagram.

    Parameters
    ----------
    label : str
        Text of the legend; "" for none.
    x, y : ndarray, shape (point,)
        Points of the curve, in the units of the axes.
    boundary : str
        Name of the boundary in `Diagram.sides` that the curve draws.
    style : mapping
        Properties of the line, as in ``Axes.plot``.
    inline : str
        Text on the curve; "" for none.

    Examples
    --------
    >>> import numpy as np
    >>> from linsolve.studies.phases import Curve
    >>> x = np.linspace(0.0, 1.0, 3)
    >>> Curve("speed = 0", x, 1 - x, boundary="frozen").y.tolist()
    [1.0, 0.5, 0.0]
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    boundary: str
    style: Mapping[str, Any] = {}
    inline: str = ""


class Mark(NamedTuple):
    """A named point of a phase diagram.

    Parameters
    ----------
    label : str
        Name of the point.
    x, y : float
        Place, in the units of the axes.
    offset : (float, float)
        Shift of the name from the point, right and up, in points of print; to the left if the first is negative.

    Examples
    --------
    >>> from linsolve.studies.phases import Mark
    >>> Mark("NTK", x=-0.5, y=0.0).offset
    (7, 5)
    """

    label: str
    x: float
    y: float
    offset: tuple[float, float] = (7, 5)


@dataclass(frozen=True, eq=False)
class Diagram:
    """A map of a plane, from the exact solution, and the exact boundaries in it.

    Parameters
    ----------
    name, title : str
    x, y : Axis
    values : array, shape (y, x)
        The map; if there are `regions`, the number of one of them at each point.
    label : str
        Quantity of the map, with its unit.
    source : str
        Equations of the curves, computation of the map, and paper.
    sides : dict of array of bool, shape (y, x)
        For each boundary, by name, the side of each point of the map, according to the map.
    curves : tuple of Curve
        The same boundaries in closed form.
    regions : tuple of (str, color)
        Names of the values of a map of regions.
    strength : array, shape (y, x), optional
        Color strength of the regions, between 0 and 1.
    marks, notes : tuple of Mark
        Points, and words without a point.
    diverging : bool
        Whether the map has a neutral value, 0.

    Examples
    --------
    >>> from linsolve import phases
    >>> found = phases.diagram("rates", cells=11)
    >>> found.values.shape, max(found.misfit().values()) <= 1  # boundaries within a cell of where the map changes
    ((11, 11), True)
    """

    name: str
    title: str
    x: Axis
    y: Axis
    values: np.ndarray
    label: str
    source: str
    sides: Mapping[str, np.ndarray]
    curves: tuple[Curve, ...]
    regions: tuple[tuple[str, str], ...] = ()
    strength: np.ndarray | None = None
    marks: tuple[Mark, ...] = ()
    notes: tuple[Mark, ...] = field(default=())
    diverging: bool = False

    def __repr__(self) -> str:
        return f"Diagram({self.name}, {len(self.x.values)} x {len(self.y.values)} points; {', '.join(self.sides)})"

    def misfit(self) -> dict[str, float]:
        """Return, for each boundary, the largest distance between its curves and the changes of the map, in cells.

        Both ways: from every point of the curves to the nearest change of side between neighbors, and back.
        """
        from scipy.spatial import KDTree

        worst = {}
        for boundary, side in self.sides.items():
            curve, change = self._points(boundary), _changes(side)
            if len(curve) == 0 or len(change) == 0:
                raise ValueError(
                    f"Diagram.misfit: boundary {boundary!r} has no curve or no change on the grid; widen it"
                )
            last = np.array([len(self.x.values), len(self.y.values)]) - 1
            # a change at the edge may be nearest to a point beyond the grid
            within = ((curve >= 0) & (curve <= last)).all(axis=-1)
            there, back = KDTree(change).query(curve[within], p=np.inf)[0], KDTree(curve).query(change, p=np.inf)[0]
            worst[boundary] = float(max(there.max(), back.max()))
        return worst

    def _points(self, boundary: str) -> np.ndarray:
        """Return points of a boundary's curves on and next to the grid, in cells, a tenth of a cell apart or less."""
        found = []
        for curve in self.curves:
            if curve.boundary == boundary:
                ends = np.stack([self.x.cell(curve.x), self.y.cell(curve.y)], axis=-1)
                gaps = np.abs(np.diff(ends, axis=0)).max(axis=-1)
                share = np.linspace(0, 1, 1 + int(np.ceil(10 * gaps.max())))[:, None, None]
                found.append((ends[:-1] * (1 - share) + ends[1:] * share).reshape(-1, 2))
        points = np.concatenate(found) if found else np.empty((0, 2))
        near = (points >= -2) & (points <= np.array([len(self.x.values), len(self.y.values)]) + 1)
        return points[near.all(axis=-1)]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return everything drawn as named arrays: axes, map, sides and curves."""
        found: dict[str, np.ndarray] = {"x": self.x.values, "y": self.y.values, "values": self.values}
        if self.strength is not None:
            found["strength"] = self.strength
        if self.regions:
            found["regions"] = np.array([name for name, _ in self.regions])
        found |= {f"side: {name}": side for name, side in self.sides.items()}
        for k, curve in enumerate(self.curves):
            found[f"curve {k}: {curve.boundary}"] = np.stack([curve.x, curve.y])
        texts = {"title": self.title, "x_label": self.x.label, "y_label": self.y.label, "label": self.label}
        return found | {key: np.array(text) for key, text in (texts | {"source": self.source}).items()}

    @property
    def grid(self) -> on_grids.Diagram:
        """The map and the sides of its boundaries as values on a grid, as a sweep gives them."""
        sides = {name.replace(" ", "_"): side for name, side in self.sides.items()}
        meanings = {"map": self.label} | {name: f"side of the boundary {name}" for name in sides}
        values = {"map": self.values} | sides
        return on_grids.Diagram({"y": self.y, "x": self.x}, values, {}, meanings, {"source": self.source})

    def to_xarray(self) -> Any:
        """Return axes, map and sides as a labelled ``xarray.Dataset`` (extra ``[labelled]``)."""
        return self.grid.to_xarray()

    def draw(self, ax: Any = None) -> Any:
        """Draw the diagram on given or new axes, and return the axes."""
        from linsolve.studies.phases.drawing import draw

        return draw(self, ax)


def _changes(side: np.ndarray) -> np.ndarray:
    """Return the midpoints between neighbors on different sides, in cells, as (x, y)."""
    rows, columns = np.nonzero(side[:, 1:] != side[:, :-1])
    across = np.stack([columns + 0.5, rows], axis=-1)
    rows, columns = np.nonzero(side[1:] != side[:-1])
    return np.concatenate([across, np.stack([columns, rows + 0.5], axis=-1)])


def diagram(name: str, cells: int = 121, rng: Any = 0) -> Diagram:
    """Compute a phase diagram.

    Parameters
    ----------
    name : str
        One of `DIAGRAMS`.
    cells : int
        Points along each axis, from 11 to 2001.
    rng : None, int or numpy.random.Generator
        As in SPEC 7 of Scientific Python, for maps of random networks.

    Returns
    -------
    Diagram
        Map, shape (cells, cells), and the exact boundaries in it; ``misfit()`` compares the two.

    Raises
    ------
    ValueError
        If the name is unknown, the number of cells is out of range, or the seed is invalid.

    Examples
    --------
    >>> from linsolve import phases
    >>> found = phases.diagram("rates", cells=31)
    >>> max(found.misfit().values()) <= 1
    True
    """
    choice("phase", "name", name, DIAGRAMS)
    if isinstance(cells, bool) or not isinstance(cells, int | np.integer) or not 11 <= cells <= MOST:
        raise ValueError(
            f"phase: cells = {cells!r} must be an integer from 11 to {MOST} (points along each axis); say 121"
        )
    try:
        random = np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise ValueError(
            f"phase: seed = {rng!r} must be an integer of at least 0 (of random networks); say 0"
        ) from None
    maps = importlib.import_module(f"linsolve.studies.phases.{WHERE[name]}")
    return getattr(maps, name.replace("-", "_"))(int(cells), random)


def write(found: Diagram, out: str | os.PathLike[str]) -> list[Path]:
    """Write ``NAME.png``, ``NAME.pdf`` and the grid, ``NAME.npz``, into a folder, created if missing.

    Parameters
    ----------
    found : Diagram
    out : str or path
        The folder.

    Returns
    -------
    list of Path

    Raises
    ------
    ValueError
        If `out` is a file.
    """
    from linsolve.plot.style import figure

    folder = folder_to_fill("phase", out)
    paths = [folder / f"{found.name}.{ending}" for ending in ("png", "pdf", "npz")]
    with whole_files(folder) as made, figure(figsize=(7.6, 6.6)) as (fig, ax):
        found.draw(ax)
        save_figure(fig, made, found.name)
        save_arrays(made / f"{found.name}.npz", found.arrays())
    return paths
