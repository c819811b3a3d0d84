"""An explorable page: sliders, plots and a formula in one HTML file that needs no network.

The formulas of a page are the package's own, recorded as programs and printed as JavaScript for the ranges of the
sliders. ``page.js`` draws them; ``page.html`` and ``page.css`` are the frame.
"""

from __future__ import annotations

import html
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from string import Template
from types import MappingProxyType
from typing import Any, NamedTuple

from linsolve import arithmetic
from linsolve.core.version import VERSION
from linsolve.engines.interval import Range
from linsolve.engines.javascript import function, prelude
from linsolve.engines.program import Program, Tracer
from linsolve.engines.specialize import facts, without
from linsolve.plot.style import COLORS

__all__ = [
    "IMPORTS",
    "Axis",
    "Curve",
    "Explorable",
    "Orbit",
    "Panel",
    "Reading",
    "Slider",
    "document",
    "flow_with",
    "recorded",
]

IMPORTS = "import numpy as np\nimport linsolve as ls\n\n"  # of the code of every page
DARK = {"black": "#f2f2f2", "blue": "#56B4E9", "sky": "#9fd4f5"}  # colors that are too dark on a dark page
Given = Mapping[str, float | str]
NONE: Given = MappingProxyType({})


class Slider(NamedTuple):
    """A slider: an input of the formulas.

    Parameters
    ----------
    name : str
        Name of the input, and in the address of the page.
    label : str
        Meaning, in HTML.
    low, high, value : float
        Ends and initial value.
    step : float
        Distance of values; 0 for a logarithmic slider, whose values have three digits.
    """

    name: str
    label: str
    low: float
    high: float
    value: float
    step: float = 0


class Axis(NamedTuple):
    """An axis: its label, its ends (a number, the name of a slider, or None for those of the data), its scale."""

    label: str
    low: float | str | None = None
    high: float | str | None = None
    log: bool = False


class Orbit(NamedTuple):
    """Steps of a recursion.

    Parameters
    ----------
    begin, step : str
        Formulas: the numbers at the start; those after a step, from those before it.
    steps, skip : int
        Number of steps, and of first steps that are not drawn.
    """

    begin: str
    step: str
    steps: int
    skip: int = 0


class Curve(NamedTuple):
    """A curve or a set of points.

    Parameters
    ----------
    label : str
        Entry of the legend; none if empty.
    y, x : str
        Outputs of the formula; by default x is the input that varies.
    given : mapping
        Values of inputs other than those of the sliders: numbers, or names of other sliders.
    color, dash, width
        A color of `linsolve.plot.style.COLORS`; lengths of dashes and gaps, or "points".
    formula : str
        By default that of the panel.
    orbit : Orbit, optional
        Draws the numbers of a recursion in place of a formula; `x` names one of them, or is the input that varies.
    """

    label: str
    y: str
    x: str = ""
    given: Given = NONE
    color: str = "blue"
    dash: str = ""
    width: float = 2.2
    formula: str = ""
    orbit: Orbit | None = None


class Panel(NamedTuple):
    """A plot.

    Parameters
    ----------
    title : str
    x, y : Axis
    over : str
        Input that varies along curves.
    grid : tuple
        First and last value, and the scale: "linear", "log", or "odds", uniform in ``log(v/(1 - v))``. An end may be
        the name of a slider.
    curves : tuple of Curve
    formula : str
    points : int
        Number of points on a curve.
    line : str, optional
        A slider whose value is drawn as a vertical line.
    drag : tuple of str, optional
        Two sliders that follow the pointer on the plot.
    """

    title: str
    x: Axis
    y: Axis
    over: str
    grid: tuple[float | str, float | str, str]
    curves: tuple[Curve, ...]
    formula: str = ""
    points: int = 301
    line: str = ""
    drag: tuple[str, ...] = ()


class Reading(NamedTuple):
    """A number below the plots: its text, with ``{}`` for the number, and an output of a formula of the sliders."""

    text: str
    formula: str
    output: str
    given: Given = NONE


class Explorable(NamedTuple):
    """A page: title, text and formula in HTML, sliders, plots, readings, formulas and Python code.

    In the code, ``{name}`` is the value of a slider.
    """

    title: str
    text: str
    equation: str
    sliders: tuple[Slider, ...]
    panels: tuple[Panel, ...]
    formulas: Mapping[str, Callable[..., dict[str, Any]]]
    code: str
    readings: tuple[Reading, ...] = ()


def flow_with(xp: Any, cls: Any, **given: Any) -> Any:
    """Return a flow or law with these parameters, unchecked numbers of `xp`, the others 1 or at their defaults."""
    about = inspect.signature(cls).parameters
    made = cls(**{name: 1.0 for name, each in about.items() if each.default is inspect.Parameter.empty})
    rest = {name: arithmetic.cast(xp, value) for name, value in made.parameters().items() if name not in given}
    return made._with(**rest, **given)


def inputs_of(formula: Callable[..., dict[str, Any]]) -> list[str]:
    """Return the names of the inputs of a formula: its arguments after `xp`."""
    return list(inspect.signature(formula).parameters)[1:]


def recorded(formula: Callable[..., dict[str, Any]], ranges: Mapping[str, Range]) -> Program:
    """Return the program of a formula, without the branches that inputs in these ranges never take."""
    xp = Tracer()
    inputs = {name: xp.input(name) for name in inputs_of(formula)}
    for name, value in formula(xp, **inputs).items():
        xp.program.outputs[name] = xp.asarray(value).index
    known = {name: ranges[name] for name in inputs if name in ranges}
    return without(xp.program, facts(xp.program, known))


def uses(page: Explorable) -> list[tuple[str, tuple[str, ...]]]:
    """Return each formula of a page with the inputs that vary, as often as it is printed."""
    found: dict[tuple[str, tuple[str, ...]], None] = {}
    for panel in page.panels:
        for curve in panel.curves:
            if curve.orbit is None:
                found[curve.formula or panel.formula, (panel.over,)] = None
                continue
            sliders = {slider.name for slider in page.sliders} | {panel.over}
            state = tuple(name for name in inputs_of(page.formulas[curve.orbit.step]) if name not in sliders)
            found[curve.orbit.begin, ()] = None
            found[curve.orbit.step, state] = None
    for reading in page.readings:
        found[reading.formula, ()] = None
    return list(found)


def ranges(page: Explorable) -> dict[str, Range]:
    """Return the range of each input of the formulas of a page, over its sliders and curves."""
    values = {slider.name: {slider.low, slider.high, slider.value} for slider in page.sliders}
    own = {name: set(ends) for name, ends in values.items()}

    def add(name: str, *ends: float | str) -> None:
        for end in ends:
            values.setdefault(name, set()).update(own[end] if isinstance(end, str) else {end})

    for panel in page.panels:
        add(panel.over, *panel.grid[:2])
        for curve in panel.curves:
            for name, value in curve.given.items():
                add(name, value)
    for reading in page.readings:
        for name, value in reading.given.items():
            add(name, value)
    return {name: Range(float(min(ends)), float(max(ends)), False) for name, ends in values.items()}


def script(page: Explorable) -> str:
    """Return the formulas of a page as JavaScript: an object `formulas`, by name and varying inputs."""
    known, parts = ranges(page), []
    for name, over in uses(page):
        state = [each for each in over if each not in known]
        own = {key: r for key, r in known.items() if key not in state}
        parts.append(f"{json.dumps(key_of(name, over))}: {function(recorded(page.formulas[name], own), *over)}")
    body = ",\n".join(parts)
    return f"{prelude()}const formulas = {{\n{body}\n}};\n"


def key_of(name: str, over: tuple[str, ...]) -> str:
    """Return the name of a printed formula."""
    return f"{name} over {', '.join(over)}" if over else name


def with_math(text: str) -> str:
    r"""Return text with formulas between dollars, in a subset of TeX, as HTML.

    The subset: italic single letters; ``_`` and ``^`` with braces, a digit or a letter; and HTML's names of characters
    after a backslash.

    Examples
    --------
    >>> with_math(r"at $a_0 < e^{-\tau}$")
    'at <var>a</var><sub>0</sub> &lt; e<sup>&minus;&tau;</sup>'
    """
    parts = text.split("$")
    return "".join(_formula(part) if k % 2 else part for k, part in enumerate(parts))


def _formula(tex: str) -> str:
    found = html.escape(tex).replace("-", "&minus;")
    found = re.sub(r"(?<![\\\w&])(?<!\^)([A-Za-df-z])(?![A-Za-z])", r"<var>\1</var>", found)  # e is a number
    found = re.sub(r"\\([A-Za-z]+)", r"&\1;", found)
    for mark, tag in (("_", "sub"), ("^", "sup")):
        found = re.sub(rf"\{mark}(?:{{([^{{}}]*)}}|([a-z\d]))", rf"<{tag}>\1\2</{tag}>", found)
    return found


def description(page: Explorable) -> dict[str, Any]:
    """Return the description that ``page.js`` reads, with labels in HTML; infinity, which JSON lacks, is a string."""

    def plain(item: Any) -> Any:
        if hasattr(item, "_asdict"):
            return plain(item._asdict())
        if isinstance(item, Mapping):
            return {name: plain(value) for name, value in item.items()}
        if isinstance(item, tuple | list):
            return [plain(value) for value in item]
        return "Infinity" if isinstance(item, float) and math.isinf(item) else item

    sliders = [slider._replace(label=with_math(slider.label)) for slider in page.sliders]
    panels = [
        panel._replace(curves=tuple(curve._replace(label=with_math(curve.label)) for curve in panel.curves))
        for panel in page.panels
    ]
    return plain(
        {
            "sliders": sliders,
            "panels": panels,
            "readings": page.readings,
            "code": page.code,
            "formulas": {
                key_of(name, over): [each for each in inputs_of(page.formulas[name]) if each not in over]
                for name, over in uses(page)
            },
        }
    )


def document(name: str, page: Explorable) -> str:
    """Return the page as HTML."""
    here = files("linsolve.studies.explorables")
    frame, style, view = (here.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js"))
    about = json.dumps(description(page), indent=1).replace("</", "<\\/")
    palettes = (COLORS, COLORS | DARK)
    light, dark = ("".join(f"--{key}: {value}; " for key, value in palette.items()) for palette in palettes)
    return Template(frame).substitute(
        title=html.escape(page.title),
        text=with_math(page.text),
        equation=with_math(f"${page.equation}$"),
        style=style.replace("/* light */", light).replace("/* dark */", dark),
        name=html.escape(name),
        version=VERSION,
        about=about,
        formulas=script(page),
        view=view,
    )
