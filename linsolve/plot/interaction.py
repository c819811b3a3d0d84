"""Figures that move in a notebook: with sliders, or as an animation."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Any

from linsolve.core.arguments import integer, number, shown

__all__ = ["animate", "interact"]

MIME = "application/vnd.jupyter.widget-view+json"
SHADES = 32  # colors of an animation


def interact(draw: Callable[..., Any], **ranges: tuple[float, ...]) -> None:
    """Show the figure of a function in a notebook, under one slider for each range.

    The figure at the defaults is part of the output, so that a page without a kernel, or a notebook without ipywidgets,
    shows this figure. The sliders send images and hold no output area: clients that execute notebooks without a
    browser run them like any other cell.

    Parameters
    ----------
    draw : callable
        Function of numbers with defaults that returns a Matplotlib figure.
    **ranges : tuple
        ``(low, high)`` or ``(low, high, step)`` for parameters of `draw`; a slider of integers if all are integers.

    Raises
    ------
    ValueError
        If a range holds other values than numbers, is not increasing or excludes the default, its step is not
        positive, or it names no parameter of `draw` with a default.
    TypeError
        If `draw` is not a function that returns a figure, or a range is not a tuple.
    ImportError
        If IPython is not installed.

    Examples
    --------
    >>> import linsolve as ls
    >>> def picture(exponent=-3):
    ...     with ls.plot.figure() as (fig, ax):
    ...         ls.plot.trajectory(ls.BalancedMode(s=1.0)([0.0, 5.0, 10.0], 10.0**exponent), "a", ax)
    ...     return fig
    >>> ls.plot.interact(picture, exponent=(-6, -1))  # doctest: +SKIP
    """
    display, formatted = _notebook("interact")
    defaults = _defaults(draw, ranges)
    checked = {name: _range(name, each, defaults[name]) for name, each in ranges.items()}
    first = draw(**defaults)
    picture = _png("interact", first)
    try:
        import ipywidgets
    except ImportError:
        display(first)
        return
    sliders = {name: _slider(ipywidgets, name, checked[name], defaults[name]) for name in ranges}
    image, said = ipywidgets.Image(value=picture), ipywidgets.Label()

    def redraw(_: Any) -> None:
        try:
            image.value = _png("interact", draw(**{name: each.value for name, each in sliders.items()}))
            said.value = ""
        except Exception as error:
            said.value = f"{type(error).__name__}: {error}"

    for each in sliders.values():
        each.observe(redraw, "value")
    box = ipywidgets.VBox([*sliders.values(), said, image])
    display(formatted(first) | {MIME: box._repr_mimebundle_()[MIME]}, raw=True)


def animate(draw: Callable[[Any], Any], values: Iterable[Any], *, seconds: float = 4.0, loops: int = 3) -> None:
    """Show the figures of a function at a sequence of values as an animation in a notebook.

    The animation is one image in animated PNG, which browsers and viewers of repositories play without a program. It
    repeats `loops` times and stops at its last frame.

    Parameters
    ----------
    draw : callable
        Function of one value that returns a Matplotlib figure; all figures have one size.
    values : iterable
        One value for each frame.
    seconds : float
        Duration of one loop.
    loops : int
        Number of loops; 0 repeats for ever.

    Raises
    ------
    ValueError
        If there are fewer than two values, the figures differ in size, the duration is not positive, or `loops` is
        negative.
    TypeError
        If `draw` is not a function that returns a figure.
    ImportError
        If IPython is not installed.
    """
    from PIL import Image

    display, formatted = _notebook("animate")
    number("plot.animate", "seconds", seconds, meaning="duration of one loop", domain="[1e-3, 1e4]", example=4.0)
    integer("plot.animate", "loops", loops, meaning="number of loops, 0 for ever", low=0, example=3)
    _refuse_other_than_function("animate", draw)
    if not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0:
        raise TypeError(f"plot.animate: values = {shown(values)} must be a sequence (one value a frame); say range(30)")
    figures = [draw(value) for value in values]
    if len(figures) < 2:
        raise ValueError(
            f"plot.animate: values has length {len(figures)} and must have two or more (one a frame); say range(30)"
        )
    pages = [Image.open(io.BytesIO(_png("animate", fig, tight=False))).convert("RGB") for fig in figures]
    if len({page.size for page in pages}) > 1:
        raise ValueError(
            f"plot.animate: draw = {shown(draw)} must return figures of one size (frames of an animation); set figsize"
        )
    last = pages[-1].quantize(SHADES, method=Image.Quantize.MAXCOVERAGE)
    frames = [page.quantize(palette=last, dither=Image.Dither.NONE) for page in pages]
    made, duration = io.BytesIO(), 1000 * seconds / len(frames)
    frames[0].save(made, "PNG", save_all=True, append_images=frames[1:], duration=duration, loop=loops, optimize=True)
    display(formatted(figures[-1]) | {"image/png": made.getvalue()}, raw=True)


def _notebook(who: str) -> tuple[Callable[..., Any], Callable[[Any], dict[str, Any]]]:
    """Return IPython's `display`, and a function that formats an object as a bundle of MIME types."""
    try:
        from IPython.core.formatters import DisplayFormatter
        from IPython.core.getipython import get_ipython
        from IPython.display import display
    except ImportError:
        raise ImportError(
            f'plot.{who}: IPython is not installed (shows figures in a notebook); run pip install ".[notebooks]"'
        ) from None
    shell = get_ipython()
    formatter = (shell.display_formatter if shell is not None else None) or DisplayFormatter()
    return display, lambda item: dict(formatter.format(item)[0])


def _png(who: str, fig: Any, tight: bool = True) -> bytes:
    if not hasattr(fig, "savefig"):
        raise TypeError(f"plot.{who}: draw returns {shown(fig)} and must return a figure; write return fig")
    made = io.BytesIO()
    fig.savefig(made, format="png", dpi=fig.dpi, bbox_inches="tight" if tight else None)
    return made.getvalue()


def _refuse_other_than_function(who: str, draw: Any) -> None:
    if not callable(draw):
        raise TypeError(f"plot.{who}: draw = {shown(draw)} must be a function (returns a figure); say def draw")


def _defaults(draw: Any, ranges: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of the parameters that have a range."""
    import inspect

    _refuse_other_than_function("interact", draw)
    try:
        parameters = inspect.signature(draw).parameters
    except ValueError:  # builtins
        raise TypeError(
            f"plot.interact: draw = {shown(draw)} must have parameters that Python can inspect (returns a figure); "
            "write def draw(...)"
        ) from None
    defaults = {name: each.default for name, each in parameters.items() if each.default is not each.empty}
    for name in ranges:
        if name not in defaults:
            raise ValueError(
                f"plot.interact: {name} must be a parameter of draw with a default (the start of its slider); "
                f"write def draw({name}=...)"
            )
    return {name: defaults[name] for name in ranges}


def _range(name: str, given: Any, start: Any) -> tuple[float, ...]:
    """Return low, high and step of a slider."""
    fix = f"say {name}=(0.0, 1.0, 0.1)"
    if not isinstance(given, tuple) or len(given) not in (2, 3):
        raise TypeError(f"plot.interact: {name} = {shown(given)} must be (low, high) or (low, high, step); {fix}")
    for each in given:
        number("plot.interact", name, each, meaning="end or step of a slider", domain="(-inf, inf)", example=1.0)
    whole = all(isinstance(each, int) for each in given)
    low, high, step = given if len(given) == 3 else (*given, 1 if whole else (given[1] - given[0]) / 40)
    if not (low < high and step > 0):
        raise ValueError(f"plot.interact: {name} = {shown(given)} must have low < high and a positive step; {fix}")
    number("plot.interact", name, start, meaning="default in draw", domain="(-inf, inf)", example=low)
    if not low <= start <= high:
        raise ValueError(
            f"plot.interact: {name} = {shown(given)} must contain {shown(start)} (default in draw); change either"
        )
    return low, high, step


def _slider(ipywidgets: Any, name: str, limits: tuple[float, ...], start: Any) -> Any:
    kind = ipywidgets.IntSlider if all(isinstance(each, int) for each in limits) else ipywidgets.FloatSlider
    low, high, step = limits
    options = {"value": start, "min": low, "max": high, "step": step, "description": name}
    return kind(**options, continuous_update=False, style={"description_width": "initial"})
