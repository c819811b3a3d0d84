"""Programs printed as JavaScript: every operation against NumPy, sums over lists, and unknown operations refused."""

import json
import shutil
import subprocess

import mpmath
import numpy as np
import pytest

from linsolve.engines import javascript
from linsolve.engines.javascript import function, prelude
from linsolve.engines.program import Tracer

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js on this computer")
RNG = np.random.default_rng(0)
ALL, POSITIVE = RNG.normal(size=10_000) * 10 ** RNG.uniform(-8, 2, 10_000), 10 ** RNG.uniform(-12, 12, 10_000)
UNIT, SMALL = RNG.uniform(-1, 1, 10_000), RNG.normal(size=10_000)
# operation, its arguments, and the largest error in units in the last place
SAME = [
    (lambda xp, a, b: a + b, ALL, SMALL),
    (lambda xp, a, b: a - b, ALL, SMALL),
    (lambda xp, a, b: a * b, ALL, SMALL),
]
SAME += [
    (lambda xp, a, b: a / b, ALL, SMALL),
    (lambda xp, a, b: a % b, ALL, SMALL),
    (lambda xp, a, b: a**2, ALL, SMALL),
]
SAME += [(lambda xp, a, b: xp.sqrt(a), POSITIVE, SMALL), (lambda xp, a, b: -xp.abs(a), ALL, SMALL)]
SAME += [(lambda xp, a, b: xp.minimum(a, b), ALL, SMALL), (lambda xp, a, b: xp.maximum(a, b), ALL, SMALL)]
SAME += [
    (lambda xp, a, b: xp.sign(a), ALL, SMALL),
    (lambda xp, a, b: xp.astype((a < b) ^ (a < 0), xp.float64), ALL, SMALL),
]
SAME += [(lambda xp, a, b: xp.where((a <= b) & ~(a > 0) | (b >= 1), a, b), ALL, SMALL)]
SAME += [(lambda xp, a, b: xp.where((a == b) | xp.isinf(a) | xp.isnan(b) | ~xp.isfinite(a) | (a != a), a, b), ALL, ALL)]
CLOSE = ["exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "sinh", "cosh", "tanh"]
ARGUMENTS = {"log": POSITIVE, "log1p": POSITIVE, "asin": UNIT, "exp": -POSITIVE[POSITIVE < 800]}


def run(text):
    done = subprocess.run(["node", "-"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return np.array(json.loads(done.stdout), dtype=float)


def evaluated(formula, a, b):
    """Return the values of a formula of two numbers in JavaScript."""
    xp = Tracer()
    xp.program.outputs["y"] = formula(xp, xp.input("a"), xp.input("b")).index
    data = json.dumps([a.tolist(), b[: a.size].tolist()])
    return run(
        f"{prelude()}const f = {function(xp.program, 'a', 'b')};\nconst [a, b] = {data};\n"
        "console.log(JSON.stringify(a.map((x, k) => f({})({a: x, b: b[k]}).y)));"
    )


@needs_node
@pytest.mark.parametrize("case", range(len(SAME)))
def test_arithmetic_has_the_bits_of_numpy(case):
    formula, a, b = SAME[case]
    np.testing.assert_array_equal(evaluated(formula, a, b), formula(np, a, b))


@needs_node
@pytest.mark.parametrize("name", CLOSE)
def test_functions_are_close_to_those_of_numpy(name):
    a = ARGUMENTS.get(name, SMALL)
    expected, found = getattr(np, name)(a), evaluated(lambda xp, x, y: getattr(xp, name)(x), a, SMALL)
    errors = np.abs(found - expected) / np.spacing(np.abs(expected))
    assert errors.max() <= (3 if name in ("sinh", "cosh", "tanh") else 1)


# arguments, and the largest share of results that are not the nearest double, about 0.03 with those of ``Math``
ROUNDED = {
    "exp": (ARGUMENTS["exp"], 0.001),
    "expm1": (np.concatenate([SMALL, SMALL / 30, SMALL * 1e-6, ALL[np.abs(ALL) < 690]]), 0.006),
    "log": (np.concatenate([POSITIVE, 1 + UNIT / 2, 1 + UNIT / 1e6]), 0.004),
    "log1p": (np.concatenate([POSITIVE, UNIT[UNIT > -0.99], UNIT / 1e6]), 0.004),
}


@needs_node
@pytest.mark.parametrize("name", ROUNDED)
def test_exponentials_and_logarithms_are_rounded_nearly_correctly(name):
    a, share = ROUNDED[name]
    with mpmath.workprec(120):  # NumPy's own rounding depends on the processor
        right = np.array([float(getattr(mpmath, name)(float(x))) for x in a])
    found = evaluated(lambda xp, x, y: getattr(xp, name)(x), a, np.resize(SMALL, a.size))
    assert (np.abs(found - right) <= np.spacing(np.abs(right))).all()
    assert (found != right).mean() <= share


@needs_node
@pytest.mark.parametrize("name", ["pow", "hypot", "atan2"])
def test_functions_of_two_numbers_are_close_to_those_of_numpy(name):
    a, b = (POSITIVE, SMALL) if name == "pow" else (ALL, SMALL)
    expected = getattr(np, name)(a, b)
    found = evaluated(lambda xp, x, y: getattr(xp, name)(x, y), a, b)
    assert (np.abs(found - expected) / np.spacing(np.abs(expected))).max() <= 1


@needs_node
@pytest.mark.parametrize(
    ("table", "op", "wrong"), [("_INFIX", "sub", "+"), ("_CALL", "expm1", "exp"), ("_FORM", "neg", "{}")]
)
def test_a_wrong_printer_is_rejected(monkeypatch, table, op, wrong):
    def formula(xp, a, b):
        return -xp.expm1(a - b)

    monkeypatch.setitem(getattr(javascript, table), op, wrong)
    errors = np.abs(evaluated(formula, SMALL, UNIT) - formula(np, SMALL, UNIT)) / np.spacing(
        np.abs(formula(np, SMALL, UNIT))
    )
    assert errors.max() > 1e6


@needs_node
def test_a_sum_over_a_list_is_a_loop():
    xp = Tracer()
    x, s, nodes = xp.input("x"), xp.input("s"), xp.asarray([0.5, 1.0, 2.5])
    first = xp.sum(xp.exp(-(nodes**2) * s), axis=-1)
    xp.program.outputs["y"] = (xp.sum(first * nodes * x, axis=-1) + xp.sum(x, axis=-1)).index
    text = function(xp.program, "x")
    assert text.count("for (") == 2
    assert "[(-0.25), (-1.0), (-6.25)]" in text  # known beforehand
    found = run(f"{prelude()}console.log(JSON.stringify([({text})({{s: 0.3}})(2)['y']]));")
    v = np.array([0.5, 1.0, 2.5])
    assert abs(found[0] - (np.exp(-(v**2) * 0.3).sum() * 4 * 2 + 2)) <= 4 * np.spacing(20.0)


def test_constants_are_exact():
    xp = Tracer()
    outputs = {"tenth": 0.1, "below": -5e-324, "endless": -np.inf, "none": np.nan, "sure": True}
    for name, value in outputs.items():
        xp.program.outputs[name] = xp.asarray(value).index
    expected = "{tenth: 0.1, below: (-5e-324), endless: (-Infinity), none: NaN, sure: true}"
    assert expected in function(xp.program)


def test_an_unknown_operation_is_refused_by_name():
    xp = Tracer()
    xp.program.outputs["y"] = xp._record("erf", (xp.input("x"),), "real").index
    with pytest.raises(ValueError, match=r"javascript: op = 'erf' is unknown \(operation of a program\)"):
        function(xp.program, "x")
