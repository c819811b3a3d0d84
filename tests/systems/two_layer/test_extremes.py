"""Flows of modes and two-layer networks at numbers of every size: the value of sixty digits, or a named error."""

import dataclasses
import warnings

import numpy as np
import pytest

import linsolve as ls
from linsolve import arithmetic
from linsolve.core.arguments import Interval

XP, MORE = arithmetic.precise(60), arithmetic.precise(700)  # more where sixty digits cancel
SPECIAL = (0.0, 5e-324, 1e-310, 1e-300, 1e-200, 1e-150, 1.0, 1e150, 1e200, 1e300, 1e308)
TIMES = (0.0, 1e-300, 1.0, 1e300, np.inf)
DEPTHS = (1.0, 1.3, 2.0, 3.0, 7.5, 100.0, np.inf)
FLOWS = ("BalancedMode", "DeepMode", "BiasedMode", "HiddenMode", "TwoLayerOrder", "TwoLayer", "LazyTwoLayer")
REACH = {"DeepMode": 100, "TwoLayer": 150, "LazyTwoLayer": 75, "TwoLayerOrder": 75}  # products stay doubles


def drawn(rng, domain, shape, reach):
    """Return numbers in a domain, half of them of size 1, a quarter of any size, a quarter special ones."""
    found = np.empty(shape)
    for place in np.ndindex(*shape):
        value = np.inf
        while value not in domain or not np.isfinite(value):
            kind = rng.integers(4)
            size = 10 ** rng.uniform(-3, 3) if kind < 2 else 10 ** rng.uniform(-reach, reach)
            size = rng.choice([v for v in SPECIAL if v == 0 or abs(np.log10(v)) <= reach + 15]) if kind == 3 else size
            value = float(size * rng.choice([-1, 1]))
        found[place] = value
    return found


def case(name, seed):
    """Return a flow, a start, a time and a loss."""
    rng, cls = np.random.default_rng([FLOWS.index(name), seed]), getattr(ls, name)
    sizes, reach = {"d": int(rng.integers(1, 4)), "d0": int(rng.integers(1, 3))}, REACH.get(name, 308)
    fields = {field.name: field.metadata for field in dataclasses.fields(cls)}
    given = {n: drawn(rng, about["domain"], [sizes[a] for a in about["axes"]], reach) for n, about in fields.items()}
    if name == "DeepMode":
        given["depth"] = rng.choice(DEPTHS)
    start = [drawn(rng, Interval("(-inf, inf)"), [sizes[a] for a in cls.axes[f]], reach) for f in cls.State._fields]
    if name == "TwoLayerOrder":
        P, Q = (np.abs(v) for v in start[:2])
        start = [P, Q, rng.uniform(-1, 1) * np.sqrt(P) * np.sqrt(Q)]
    loss = drawn(rng, Interval("[0, inf)"), [], reach)
    return cls(**given), cls.State(*start), float(rng.choice(TIMES)), float(loss)


def close(found, exact, tolerance):
    """Whether a value is within a share of the largest entry of the exact one, or that is beyond doubles."""
    exact = np.array([XP.to_float(v) for v in np.ravel(exact)])
    found = np.ravel(np.asarray(found, dtype=float))
    with np.errstate(all="ignore"):
        if not np.isfinite(exact).all():
            return True
        return bool(np.max(np.abs(found / 4 - exact / 4)) <= tolerance * np.max(np.abs(exact / 4)) + 1e-280)


def answer(question):
    """Return what a call gives, or None where it raises an error that names the flow."""
    try:
        return question()
    except (ValueError, OverflowError) as error:
        if str(error).split(":")[0] not in FLOWS:
            raise
        return None


def compare(name, seed):
    """Return the names of wrong answers of one case; a warning or a bare message is an error."""
    return judged(name, seed, XP) and judged(name, seed, MORE)


def judged(name, seed, xp):
    """Return the names of answers that differ from those of an arithmetic."""
    flow, start, t, loss = case(name, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trajectory = answer(lambda: flow(t, start))
        values = {} if trajectory is None else {n: answer(lambda n=n: trajectory[n]) for n in ("loss", *start._fields)}
        time = answer(lambda: flow.when(start, loss=loss))
    exact, z0 = flow.cast(xp), type(start)(*(xp.asarray(v[None]) for v in start))
    wrong = [n for n, v in values.items() if v is not None and not np.isfinite(v).all() and n != "loss"]
    if any(v is not None for v in values.values()):
        state = exact.solution(xp, xp.asarray([t]), z0)
        truth = state._asdict() | {"loss": exact.along(xp, xp.asarray([t]), z0)["loss"]}
        wrong += [n for n, v in values.items() if v is not None and not close(v, truth[n], 1e-9)]
    if time is not None:
        truth = xp.to_float(np.ravel(exact.time_to(xp, z0, loss=xp.asarray([loss])))[0])
        if not (time == truth or abs(time - truth) <= 1e-6 * truth or (time == np.inf and truth > 1e303)):
            wrong.append(f"when {time} {truth}")
    return wrong


@pytest.mark.parametrize("name", FLOWS)
@pytest.mark.quick(3)
def test_the_right_value_or_a_named_error(name):
    count = 4 if name in ("BiasedMode", "DeepMode") else 12
    assert {seed: wrong for seed in range(count) if (wrong := compare(name, seed))} == {}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FLOWS)
def test_the_right_value_or_a_named_error_of_many(name):
    assert {seed: wrong for seed in range(600) if (wrong := compare(name, seed))} == {}


def test_order_parameters_of_weights_whose_squares_overflow_are_refused_by_name():
    with pytest.raises(OverflowError, match=r"TwoLayerOrder.of: u of magnitude 1e\+300"):
        ls.TwoLayerOrder.of(ls.TwoLayer(y=1.0, x=[1.0]), ls.TwoLayer.State([1e300], [[1.0]]))
    with pytest.raises(TypeError, match=r"TwoLayerOrder.of: flow = 3 must be a TwoLayer"):
        ls.TwoLayerOrder.of(3, ls.TwoLayer.State([1.0], [[1.0]]))
