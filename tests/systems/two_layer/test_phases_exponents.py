"""Exponents on the boundaries between phases, in thirds, fifths and sevenths, and on either side of each boundary.

No double is a third or a seventh, so that only rational arithmetic lands on these boundaries; what the phase is there,
and next to it, is measured as slopes of the exact solution over random networks.
"""

from fractions import Fraction

import numpy as np
import pytest

from linsolve import phases
from linsolve.studies.phases import Exponents
from linsolve.systems.two_layer.phase_classes import classify

STEP = Fraction(1, 9)
EACH = 10


def rational(rng, low, high):
    unit = int(rng.choice([3, 5, 7]))
    return Fraction(int(rng.integers(low * unit, high * unit + 1)), unit)


def generic(rng, width=True):
    """Return a network of growing or of fixed width, its model scale still to be chosen."""
    c_d = rational(rng, 1, 2) if width else Fraction(0)
    c_u, c_w, rate_u, rate_w = (rational(rng, -1, 1) for _ in range(4))
    return Exponents(c_d, Fraction(0), c_u, c_w, rate_u, rate_w)


def balance(given):
    """Return the network with kernels of both layers of the same order."""
    return given._replace(c_w=given.c_eta_w + given.c_u - given.c_eta_u)


def scaled(given, **goal):
    """Return the network with its model scale, and learning rates where both are asked, such that A and B are these."""
    now = classify(*given)
    if "A" in goal:
        shift = (now.A - goal["A"]) - (now.B - goal["B"])  # both rates by -shift: A by twice as much as B
        given = given._replace(c_eta_u=given.c_eta_u - shift, c_eta_w=given.c_eta_w - shift)
    return given._replace(c_gamma=given.c_gamma + (goal["B"] - classify(*given).B) / 2)


def on_kernel(rng):
    """``B = 0 > A``."""
    given = generic(rng)
    return scaled(given, A=-rational(rng, 1, 2), B=Fraction(0))


def on_corner(rng):
    """``A = B = 0``."""
    return scaled(generic(rng), A=Fraction(0), B=Fraction(0))


def on_log_slow(rng):
    """``A = 0 > 2 B``."""
    return scaled(generic(rng), A=Fraction(0), B=-rational(rng, 1, 2))


def on_balance(rng):
    """``B = 0 > A`` at fixed width, both layers' kernels of the same order: ``P/Q`` stays of order one."""
    return scaled(balance(generic(rng, width=False)), A=-rational(rng, 1, 2), B=Fraction(0))


# the phase on each boundary, from an output of order one or 0, and whether leaving the saddle takes long
FAMILIES = {
    on_kernel: ("kernel", "kernel", False),
    on_corner: ("feature", "feature", False),
    on_log_slow: ("feature", "feature", True),
    on_balance: ("feature", "kernel", False),
}


def sets():
    """Return the exponents on boundaries and on both sides of them, with the phase that theory has there."""
    found = {}
    for family, (phase, still, slow) in FAMILIES.items():
        for seed in range(EACH):
            given = family(np.random.default_rng(seed))
            found[given] = (phase, slow)
            found[given._replace(zero_output=True)] = (still, slow)
            found[given._replace(c_gamma=given.c_gamma + STEP)] = ("unstable", False)
            found[given._replace(c_gamma=given.c_gamma - STEP)] = ("frozen", False)
    for seed in range(EACH):
        corner = on_corner(np.random.default_rng(seed))
        less = {name: getattr(corner, name) - STEP for name in ("c_eta_u", "c_eta_w")}
        more = {name: getattr(corner, name) + STEP for name in ("c_eta_u", "c_eta_w")}
        found[corner._replace(c_gamma=corner.c_gamma + STEP / 2, **less)] = ("kernel", False)
        found[corner._replace(c_gamma=corner.c_gamma - STEP, **more)] = ("feature", True)
        balanced = on_balance(np.random.default_rng(seed))
        found[balanced._replace(c_w=balanced.c_w - 2 * STEP)] = ("kernel", False)
    return found


SETS = sets()


def test_they_are_many_and_none_of_table_1():
    table = {entry.exponents for entry in phases.table()}
    boundary = [given for given in SETS if classify(*given).speed == 0]
    assert len(SETS) >= 150
    assert len(boundary) >= 80
    assert not table & set(SETS)
    thirds = [given for given in boundary if any(Fraction(v).denominator % 2 for v in given[:6] if v % 1)]
    assert len(thirds) >= 40


@pytest.mark.parametrize("phase", phases.PHASES)
@pytest.mark.quick(1)
def test_boundaries_and_their_sides_are_as_the_slopes_of_the_exact_solution_say(phase):
    chosen = [(given, slow) for given, (name, slow) in SETS.items() if name == phase]
    assert len(chosen) >= 30
    for k, (given, slow) in enumerate(chosen):
        predicted, measured = classify(*given), phases.slopes(given, (1e30, 1e60), count=200, rng=k)
        assert (predicted.phase, predicted.log_slow) == (phase, slow), given
        assert phases.measured_phase(measured) == phase, given
        assert measured.rate == pytest.approx(float(predicted.speed), abs=0.02)
        assert measured.ntk == pytest.approx(float(predicted.B), abs=0.02)
        assert measured.kernel_change == pytest.approx(float(predicted.kernel_change), abs=0.03)


def test_a_step_that_no_double_resolves_still_crosses_a_boundary():
    tiny = Fraction(1, 10**40)
    for family, (phase, still, _) in FAMILIES.items():
        for seed in range(EACH):
            given = family(np.random.default_rng(seed))
            assert classify(*given).phase == phase
            assert classify(*given._replace(zero_output=True)).phase == still
            assert classify(*given._replace(c_gamma=given.c_gamma + tiny)).phase == "unstable"
            assert classify(*given._replace(c_gamma=given.c_gamma - tiny)).phase == "frozen"


def test_doubles_would_not_land_on_these_boundaries():
    missed = 0
    for given, (phase, _) in SETS.items():
        if classify(*given).speed == 0:
            # 17 digits are what a double says of a third
            rounded = [Fraction(float(v)) for v in given[:6]]
            missed += classify(*rounded, given.zero_output).phase != phase
    assert missed > 40


def test_exponents_may_be_tuples_strings_and_arrays_of_both_kinds_of_start():
    one = phases.slopes(Exponents(1, -0.5, 0, 0, 0, 0), rng=0)
    assert phases.slopes((1, "-1/2", 0, 0, 0, Fraction(0)), rng=0) == one
    given = Exponents(0, ["1", "-1/2"], 0, 0, -2, -2, [[True], [False]])
    measured = phases.measured_phase(phases.slopes(given, (1e30, 1e60), count=200, rng=0))
    assert measured.tolist() == classify(*given).phase.tolist() == [["kernel", "frozen"], ["feature", "frozen"]]
