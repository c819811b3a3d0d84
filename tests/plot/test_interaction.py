"""Sliders and animations of notebooks: values, fallbacks, and errors that name the argument."""

import io

import matplotlib.pyplot as plt
import pytest
from PIL import Image

import linsolve as ls
from linsolve.plot import interaction

pytest.importorskip("ipywidgets")


def draw(count=2, scale=1.0):
    with ls.plot.figure(figsize=(2, 1.5)) as (fig, ax):
        ax.plot([0, count], [0, scale])
    if count == 5:
        raise ValueError("count = 5 is refused")
    return fig


@pytest.fixture
def shown(monkeypatch):
    """Everything that is displayed."""
    found = []
    notebook = interaction._notebook("interact")[1]
    monkeypatch.setattr(
        interaction, "_notebook", lambda who: (lambda item, raw=False: found.append(item), lambda fig: notebook(fig))
    )
    yield found
    plt.close("all")


def controls(monkeypatch):
    import ipywidgets

    made = []
    monkeypatch.setattr(ipywidgets, "VBox", lambda children: made.append(children) or box(children))
    box = ipywidgets.widgets.widget_box.VBox
    return made


def test_sliders_have_the_defaults_redraw_and_show_an_error(shown, monkeypatch):
    made = controls(monkeypatch)
    ls.plot.interact(draw, count=(1, 6), scale=(0.0, 2.0, 0.5))
    (count, scale, said, image), first = made[0], bytes(made[0][3].value)
    assert (count.value, count.min, count.max, count.step) == (2, 1, 6, 1)
    assert (scale.value, scale.min, scale.max, scale.step) == (1.0, 0.0, 2.0, 0.5)
    assert first.startswith(b"\x89PNG")
    scale.value = 0.5
    assert bytes(image.value) != first
    count.value = 5
    assert said.value == "ValueError: count = 5 is refused"
    count.value = 3
    assert said.value == ""
    (bundle,) = shown
    assert interaction.MIME in bundle
    assert "text/plain" in bundle


def test_a_range_of_two_numbers_has_forty_steps(shown, monkeypatch):
    made = controls(monkeypatch)
    ls.plot.interact(draw, scale=(-1.0, 3.0))
    assert made[0][0].step == 0.1


def test_no_output_area_is_used(monkeypatch, shown):
    """An output area makes clients without a browser send messages, which delays their cells."""
    import ipywidgets

    def refuse(*args, **kwargs):
        raise AssertionError("an output area")

    monkeypatch.setattr(ipywidgets, "Output", refuse)
    monkeypatch.setattr(ipywidgets.widgets.widget_output, "Output", refuse)
    ls.plot.interact(draw, count=(1, 6))
    assert len(shown) == 1


def test_the_figure_alone_is_shown_without_ipywidgets(monkeypatch, shown):
    monkeypatch.setitem(__import__("sys").modules, "ipywidgets", None)
    ls.plot.interact(draw, count=(1, 6))
    assert [type(each).__name__ for each in shown] == ["Figure"]


def test_an_animation_has_all_frames_loops_and_duration(shown):
    ls.plot.animate(draw, range(5), seconds=2.0, loops=2)
    image = Image.open(io.BytesIO(shown[0]["image/png"]))
    assert image.n_frames == 5
    assert image.info["loop"] == 2
    assert image.info["duration"] == 400.0


@pytest.mark.parametrize(
    ("ranges", "error", "message"),
    [
        ({"count": 3}, TypeError, r"plot.interact: count = 3 must be \(low, high\)"),
        ({"count": (3, 1)}, ValueError, r"count = \(3, 1\) must have low < high"),
        ({"scale": (1.0, 1.0, 0.1)}, ValueError, r"scale = \(1.0, 1.0, 0.1\) must have low < high"),
        ({"scale": (0.0, 1.0, -0.1)}, ValueError, "scale = .* a positive step"),
        ({"scale": (0.0, float("nan"))}, ValueError, "plot.interact: scale = nan"),
        ({"scale": ("a", 1.0)}, ValueError, "plot.interact: scale = 'a'"),
        ({"scale": (2.0, 3.0)}, ValueError, r"scale = \(2.0, 3.0\) must contain 1.0 \(default in draw\)"),
        ({"other": (0, 1)}, ValueError, "other must be a parameter of draw with a default"),
    ],
)
def test_ranges_are_checked_by_name(ranges, error, message):
    with pytest.raises(error, match=message):
        ls.plot.interact(draw, **ranges)
    with pytest.raises(TypeError, match=r"plot\.interact: draw = <.* must have parameters that Python can inspect"):
        ls.plot.interact(dict, x=(0, 1))  # without a signature in every version of Python


def test_arguments_of_animations_are_checked():
    with pytest.raises(ValueError, match=r"plot\.animate: values has length 1"):
        ls.plot.animate(draw, [1])
    with pytest.raises(ValueError, match=r"plot\.animate: seconds = 0"):
        ls.plot.animate(draw, range(3), seconds=0.0)
    with pytest.raises(ValueError, match=r"plot\.animate: loops = -1"):
        ls.plot.animate(draw, range(3), loops=-1)
    with pytest.raises(TypeError, match=r"plot\.animate: draw = 3 must be a function"):
        ls.plot.animate(3, range(3))
    with pytest.raises(TypeError, match=r"plot\.animate: draw returns None and must return a figure"):
        ls.plot.animate(lambda k: None, range(3))
    with pytest.raises(ValueError, match=r"plot\.animate: draw = .* must return figures of one size"):
        ls.plot.animate(lambda k: plt.figure(figsize=(1 + k, 1)), range(2))
    with pytest.raises(TypeError, match=r"plot\.interact: draw = 3 must be a function"):
        ls.plot.interact(3, count=(0, 1))
    plt.close("all")
