"""The pages with sliders in Chromium: numbers, sliders, keyboard, touch, address, copied code, no error, no request."""

import json

import numpy as np
import pytest
from studies import test_explorables

from benchmarks.browser import Browser, chromium
from linsolve.studies import explorables
from linsolve.studies.explorables import EXPLORABLES

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(chromium() is None, reason="no Chromium on this computer"),
]
every_page = pytest.mark.parametrize("name", EXPLORABLES)


@pytest.fixture(scope="module")
def browser():
    with Browser() as started:
        yield started


@pytest.fixture
def page(browser, name, tmp_path):
    """Open the page, and assert at the end that nothing was requested and no error reported."""
    explorables.write(name, tmp_path / "page.html")
    browser.url = (tmp_path / "page.html").as_uri()
    browser.events.clear()
    browser.open(browser.url)
    yield browser
    browser.evaluate("0", frame=True)
    assert browser.faults() == []


def move(browser, slider, share):
    """Move a slider as a hand does, and return the value shown."""
    low_high = "[input.min, input.max].map(Number)"
    return browser.evaluate(
        f"(() => {{ const {{input}} = controls[{json.dumps(slider.name)}], [low, high] = {low_high};"
        f"input.value = low + {share} * (high - low); input.dispatchEvent(new Event('input'));"
        f"return values[{json.dumps(slider.name)}]; }})()"
    )


def place(browser, expression, share):
    """Return the coordinates of a point of an element: this share of its width, half of its height."""
    box = f"(({expression}).getBoundingClientRect())"
    return browser.evaluate(f"[{box}.x + {share} * {box}.width, {box}.y + {box}.height / 2]")


@every_page
def test_numbers_in_the_browser_are_those_of_numpy(name, page, monkeypatch, tmp_path):
    def answers(questions):
        found = []
        for question in questions:
            asked = f"JSON.stringify(answer(formulas, {test_explorables.plain(question)}))"
            columns = json.loads(page.evaluate(f"(() => {{ {test_explorables.ANSWER} return {asked}; }})()"))
            found.append({key: np.array(values, dtype=float) for key, values in columns.items()})
        return found

    monkeypatch.setattr(test_explorables, "answers", answers)
    worst = test_explorables.errors_of(name, tmp_path, np.random.default_rng(5), 1000)
    assert all(np.max(error) == 0 or (error[0] <= 4 and error[1] <= 0.01) for error in worst.values()), worst


@every_page
def test_every_slider_changes_the_plots_and_the_address(name, page):
    for slider in EXPLORABLES[name].sliders:
        pictures = set()
        for share in (0.0, 0.3, 0.6, 1.0):
            value = move(page, slider, share)
            assert slider.low <= value <= slider.high
            if f"{{{slider.name}}}" in EXPLORABLES[name].code:
                assert page.evaluate(f"element('code').textContent.includes(String({value}))")
            pictures.add(page.evaluate("page.panels.map((panel) => panel.canvas.toDataURL()).join()", frame=True))
        assert len(pictures) >= 3, slider.name  # the lengths of two layers may be exchanged
    page.evaluate("new Promise((done) => setTimeout(done, 400))")
    shown, address = page.evaluate("[JSON.stringify(values), location.hash]")
    page.open(page.url + address)
    assert page.evaluate("JSON.stringify(values)") == shown
    page.evaluate("element('reset').click()")
    initial = {slider.name: slider.value for slider in EXPLORABLES[name].sliders}
    assert json.loads(page.evaluate("JSON.stringify(values)")) == initial


@every_page
def test_keyboard_and_touch_move_a_slider(name, page):
    slider = EXPLORABLES[name].sliders[0]
    page.evaluate(f"controls[{json.dumps(slider.name)}].input.focus()")
    for key in ("ArrowRight", "ArrowLeft", "ArrowLeft"):
        before = page.evaluate(f"values[{json.dumps(slider.name)}]")
        for kind in ("keyDown", "keyUp"):
            page.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"R": 39, "L": 37}[key[5]]
            )
        after = page.evaluate(f"values[{json.dumps(slider.name)}]")
        assert (after > before) == (key == "ArrowRight")
        assert after != before
    touched = []
    for share in (0.1, 0.9):
        x, y = place(page, f"controls[{json.dumps(slider.name)}].input", share)
        page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        touched.append(page.evaluate(f"values[{json.dumps(slider.name)}]", frame=True))
    assert touched[0] < touched[1]
    assert before not in touched


@pytest.mark.parametrize("name", ["phase"])
def test_the_start_follows_the_pointer(name, page):
    x, y = place(page, "page.panels[0].canvas", 0.5)
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=x + 80, y=y - 30, button="left", buttons=1, clickCount=1)
    u, w = page.evaluate("[values.u, values.w]")
    assert 0.2 < u < 1.2
    assert 0.0 < w < 0.6


SHADE = """(() => {
  const one = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  one.drawImage(page.panels[0].canvas, 3, 3, 1, 1, 0, 0, 1, 1);
  return one.getImageData(0, 0, 1, 1).data[0];
})()"""  # red of a corner of the first plot


@pytest.mark.parametrize("name", ["lazy"])
def test_a_dark_page_is_printed_in_light_colors(name, page):
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    shades = []
    for kind in ("resize", "beforeprint", "afterprint"):
        page.evaluate(f"dispatchEvent(new Event('{kind}'))", frame=True)
        shades.append(page.evaluate(SHADE))
    page.call("Emulation.setEmulatedMedia", features=[])
    assert shades[0] < 50
    assert shades[1] == 255
    assert shades[2] == shades[0]


@pytest.mark.parametrize("name", ["stages"])
def test_a_wrong_address_is_named(name, page):
    for address, shown in (
        ("#s1=abc", "s1 = abc must be from 0.1 to 5"),
        ("#a0=1", "a0 = 1 must be"),
        ("#s2=", "s2 =  must"),
    ):
        page.open(page.url + address)
        assert shown in page.evaluate("element('notice').textContent")
        assert page.evaluate("[values.s1, values.s2, values.a0]") == [4, 2, 1e-4]


@pytest.mark.parametrize("name", ["stages"])
def test_the_code_is_copied(name, page):
    page.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page.evaluate("element('copy').click()")
    page.evaluate("0", frame=True)
    assert page.evaluate("element('notice').textContent") in (
        "Copied.",
        "The browser does not allow copying; select the text instead.",
    )
