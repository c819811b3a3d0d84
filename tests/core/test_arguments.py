"""Declared checks of arguments: each accepts every number of its kind, and refuses all else in one form."""

from fractions import Fraction

import numpy as np
import pytest

import linsolve as ls
from linsolve.core.arguments import choice, integer, number, refuse_beyond_memory, shown

NO_INTEGERS = [True, np.True_, np.array(True), 2.0, np.float64(2), "2", None, [2], np.array([2]), 2j, {}, Fraction(2)]


@pytest.mark.parametrize("value", [2, np.int8(2), np.uint64(2), np.array(2)], ids=repr)
def test_integers_become_python_integers(value):
    found = integer("f", "n", value, meaning="units", high=2)
    assert type(found) is int
    assert found == 2


@pytest.mark.parametrize("value", [*NO_INTEGERS, 0, -1, -(10**5000)], ids=lambda v: shown(v)[:20])
def test_anything_but_an_integer_in_range_is_refused(value):
    with pytest.raises(ValueError, match=r"^f: n = .* must be a positive integer \(units\); say 7$"):
        integer("f", "n", value, meaning="units", example=7)
    with pytest.raises(ValueError, match=r"^f: n = .* must be an integer from 1 to 5 \(units\); say 1$"):
        integer("f", "n", value, meaning="units", high=5)


def test_integers_have_ends():
    assert integer("f", "n", 10**5000, meaning="units") == 10**5000
    for value in (1, 6, 10**5000):
        with pytest.raises(ValueError, match=r"^f: n = .* must be an integer from 2 to 5 \(units\); say 2$"):
            integer("f", "n", value, meaning="units", low=2, high=5)
    with pytest.raises(ValueError, match=r"^f: seed = -1 must be an integer of at least 0 \(seed\); say 0$"):
        integer("f", "seed", -1, meaning="seed", low=0)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int8(2), np.array(2.0), Fraction(2)], ids=repr)
def test_real_numbers_become_floats(value):
    found = number("f", "x", value, meaning="size", example=1.0)
    assert type(found) is float
    assert found == 2.0


@pytest.mark.parametrize(
    "value",
    [
        True,
        np.True_,
        np.array(True),
        "2",
        None,
        [2],
        np.array([2.0]),
        2j,
        np.complex128(2),
        np.nan,
        10**400,
        -1,
        0,
        np.inf,
    ],
    ids=lambda v: shown(v)[:20],
)
def test_anything_but_a_positive_number_is_refused(value):
    with pytest.raises(ValueError, match=r"^f: x = .* must be positive and finite \(size\); say 0.5$"):
        number("f", "x", value, meaning="size", example=0.5)


@pytest.mark.parametrize(
    ("domain", "inside", "outside", "rule"),
    [
        ("[0, inf)", 0.0, -1e-300, "be finite and not negative"),
        ("(-inf, inf)", -1e308, np.inf, "be finite"),
        ("[1, inf]", np.inf, 0.5, r"be a number in \[1, inf\]"),
    ],
)
def test_domains_are_intervals(domain, inside, outside, rule):
    assert number("f", "x", inside, meaning="size", domain=domain, example=1.0) == inside
    with pytest.raises(ValueError, match=rf"^f: x = .* must {rule} \(size\); say 1$"):
        number("f", "x", outside, meaning="size", domain=domain, example=1.0)


@pytest.mark.parametrize("value", [None, 3, [], {}, np.array(["log", "linear"]), b"log", "Log"], ids=repr)
def test_choices_are_strings(value):
    assert choice("f", "spacing", "log", {"log": 1}) == "log"
    with pytest.raises(ValueError, match=r"^f: spacing = .* is unknown; .*one of linear, log$"):
        choice("f", "spacing", value, ("log", "linear"))


@pytest.mark.parametrize("width", [10**20, 10**400, 10**9])
def test_sizes_beyond_memory_are_refused(width):
    refuse_beyond_memory("f", {"width": 1000, "n_in": 1000}, "weights")
    with pytest.raises(ValueError, match=r"^f: width = 1\.00e\+\d+ makes arrays of .* bytes \(weights\), more than"):
        refuse_beyond_memory("f", {"n_in": 10**4, "width": width}, "weights")


def test_small_arrays_are_shown_by_their_numbers():
    assert [shown(v) for v in (np.array(0.1), np.float64(0.1), np.array([1.0, 2.0]))] == ["0.1", "0.1", "[1.0, 2.0]"]
    assert shown(np.zeros((64, 2))) == "ndarray of shape (64, 2)"
    assert shown(np.zeros((0, 3))).startswith("array([]")


@pytest.mark.parametrize("flag", [True, np.True_])
def test_a_boolean_is_no_seed(flag):
    for call in (lambda: ls.TwoLayer.init(3, 2, rng=flag), lambda: ls.phases.wishart(3, 4, rng=flag)):
        with pytest.raises(TypeError, match="rng = True must be None, an integer"):
            call()


@pytest.mark.parametrize("flag", [True, np.True_])
def test_a_boolean_is_no_number(flag):
    flow, z0 = ls.TwoLayer(y=1.0, x=[1.0]), ([0.5], [[0.5]])
    cases = {
        "step": lambda: flow.discrete(1, z0, step=flag),
        "a": lambda: ls.BalancedMode(s=2.0)(0, flag),
        "weight_variance": lambda: ls.ntk.sample_kernels(0, 5, "relu", np.eye(2), [5, 10], flag, 0.0),
    }
    for name, call in cases.items():
        with pytest.raises(TypeError, match=f"{name} = True is a boolean"):
            call()
