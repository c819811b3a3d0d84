"""Contract of every public call: a right answer, or one error that names an argument the user gave."""

import collections
import os
import random
import time
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pytest
from contract import Outcome, brief, faults, fingerprint, fresh, outcome, same
from hypothesis import HealthCheck, Phase, currently_in_test_context, given, note, settings
from hypothesis import strategies as st
from known import KNOWN
from odd_values import MAGNITUDES, Odd, odd
from subjects import COMPILED_SLOWLY, EXACT, Subject, flow_call, good_flow, subjects

import linsolve as ls
from linsolve.engines.evaluate import ENGINES, traceable

PARTS = 8
FLOWS = [cls for cls in ls.flows.ALL if traceable(cls, None)]
quick = settings(
    max_examples=6, derandomize=True, deadline=None, database=None, phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
randoms = st.randoms(use_true_random=False)


class Call(NamedTuple):
    """A call with one odd argument, its outcome, and the ways in which it breaks the contract."""

    subject: Subject
    argument: str
    odd: Odd
    found: Outcome
    faults: list[str]

    def __str__(self) -> str:
        given = " ".join(repr(self.odd.value).split())[:200]
        return f"{', '.join(self.faults)}: {self.subject.name}({self.argument} = {given}) -> {brief(self.found.error)}"


def has_arguments(subject: Subject) -> bool:
    return any(name != "xp" for name in subject.good())


def called(subject: Subject, draw: Any) -> Call:
    """Return a call of a subject with one odd argument drawn from `draw`, judged."""
    arguments = fresh(subject.good())
    name = draw.choice([name for name in sorted(arguments) if name != "xp"])
    changed = odd(draw, arguments[name])
    arguments[name] = changed.value
    before = {key: fingerprint(value) for key, value in arguments.items()}
    found = outcome(subject.call, arguments)
    plt.close("all")
    broken = faults(subject, name, changed, found)
    if {key: fingerprint(value) for key, value in arguments.items()} != before:
        broken.append("changed input")
    if changed.like is not None and found.error is None and not broken:
        plain = outcome(subject.call, fresh(subject.good()) | {name: changed.like})
        # the tolerance of conditions is that of the given dtype
        wider = changed.kind == "typed" and isinstance(plain.error, ls.NotExact)
        alike = plain.error is None and same(found.value, plain.value)
        broken += [] if alike or wider else ["unlike plain numbers"]
    return Call(subject, name, changed, found, broken)


def is_known(call: Call) -> bool:
    return call.argument in KNOWN.get(call.subject.name, ())


@pytest.mark.parametrize("part", range(PARTS))
def test_a_call_answers_or_refuses_by_name(part):
    for subject in list(subjects().values())[part::PARTS]:
        if subject.cost < 40 and has_arguments(subject):  # the long run calls the others
            fuzz(subject, 4 if subject.cost == 1 else 1)


def fuzz(subject: Subject, examples: int) -> None:
    @settings(quick, max_examples=examples)
    @given(draw=randoms)
    def check(draw):
        call = called(subject, draw)
        note(str(call))
        assert is_known(call) or not call.faults

    check()


@pytest.mark.parametrize("part", range(2))
def test_good_arguments_are_answered(part):
    for subject in list(subjects().values())[part::2]:
        if subject.cost < 5:
            found = outcome(subject.call, fresh(subject.good()))
            assert found.error is None, (subject.name, brief(found.error))
            assert not any(np.isnan(v).any() for _, v in found.value), subject.name


# engines


def extreme(cls: Any, draw: Any) -> dict[str, Any]:
    """Return parameters, start and times of a flow, of which one or two entries are extreme."""
    arguments = fresh(good_flow(cls))
    for name in draw.sample(sorted(arguments), draw.choice([1, 1, 2])):
        array = np.array(arguments[name], dtype=float)
        array.flat[draw.randrange(array.size)] = draw.choice(MAGNITUDES) * draw.choice([1, -1])
        arguments[name] = array
    return arguments


def agree(a: Outcome, b: Outcome, rtol: float) -> bool:
    """Return whether two engines refuse alike, or give the same values entry by entry."""
    if a.error is not None or b.error is not None:
        return type(a.error) is type(b.error)
    with np.errstate(all="ignore"):
        return all(
            name == other and (np.abs(v - w) <= rtol * np.abs(w) + 1e-307)[np.isfinite(w)].all() and
            np.array_equal(np.isfinite(v), np.isfinite(w))
            for (name, v), (other, w) in zip(a.value, b.value, strict=True)
        )  # fmt: skip


@pytest.mark.parametrize("cls", FLOWS, ids=lambda c: c.__name__)
def test_engines_agree_or_none_answers(cls):
    engines = [engine for engine in ENGINES if not (engine == "compiled" and cls.__name__ in COMPILED_SLOWLY)]

    @settings(quick, max_examples=25)
    @given(draw=randoms)
    def check(draw):
        engines_agree(cls, draw, engines)

    check()


def told(arguments: Any) -> None:
    """Show the arguments if a test of Hypothesis fails; others print their seed."""
    if currently_in_test_context():
        note(str(arguments))


def engines_agree(cls: Any, draw: Any, engines: list[str]) -> None:
    arguments = extreme(cls, draw)
    told(arguments)
    plain, *others = (outcome(flow_call(cls, engine), dict(arguments), 120.0) for engine in engines)
    for engine, found in zip(engines[1:], others, strict=True):
        assert agree(found, plain, 0.0 if engine == "blocks" else 1e-11), (
            engine,
            brief(found.error),
            brief(plain.error),
        )


@pytest.mark.parametrize("cls", [cls for cls in EXACT if cls is not ls.DeepMode], ids=lambda c: c.__name__)
def test_answers_are_right_to_many_digits(cls):
    @settings(quick, max_examples=20)
    @given(draw=randoms)
    def check(draw):
        right(cls, draw)

    check()


def right(cls: Any, draw: Any) -> None:
    """Compare a state with its value in many digits, each entry relative to the largest of its field."""
    arguments = extreme(cls, draw)
    found = outcome(flow_call(cls, "plain"), dict(arguments))
    if found.error is not None:
        return
    told(arguments)
    state = {name: v for name, v in found.value if name.startswith("state.")}
    for dps in (60, 900):  # 900 digits where sixty leave cancellations of the whole range of doubles
        xp = ls.arithmetic.precise(dps)
        exact = flow_call(cls, "plain")(**{name: xp.asarray(value) for name, value in arguments.items()})
        errors = {}
        for name, value in state.items():
            truth = ls.arithmetic.to_numpy(exact[name.removeprefix("state.")])
            errors[name] = float(np.max(np.abs(value - truth) / (np.abs(truth) + 1e-280)))
        if all(error <= 1e-10 for error in errors.values()):
            return
    raise AssertionError(errors)


BATCH = 200_000


@pytest.mark.parametrize("engine", [None, "plain", "blocks", "compiled"])
@pytest.mark.parametrize("cls", FLOWS, ids=lambda c: c.__name__)
@pytest.mark.quick(6)
def test_one_bad_member_of_many_is_found(cls, engine):
    """A bad member in a large batch is refused as it is alone."""
    if engine == "compiled" and cls.__name__ in COMPILED_SLOWLY:
        engine = "blocks"
    draw = random.Random(cls.__name__)
    for bad in (np.nan, draw.choice([1e155, 1.7e308])):
        bad_member(cls, engine, bad, draw)


def bad_member(cls: Any, engine: str | None, bad: float, draw: Any) -> None:
    arguments = {name: np.array(v, dtype=float).reshape(-1)[:1] for name, v in good_flow(cls).items()}
    arguments["t"] = np.array(1.0)
    name, place = draw.choice(sorted(set(arguments) - {"t"})), draw.randrange(BATCH)
    alone = outcome(flow_call(cls, "plain"), arguments | {name: np.array([bad])})
    many = np.full(BATCH, arguments[name][0])
    many[place] = bad
    found = outcome(flow_call(cls, engine), arguments | {name: many})
    if np.isnan(bad):
        assert f"{name} = nan at index ({place},)" in str(found.error)
    elif alone.error is not None:
        assert type(found.error) is type(alone.error), (name, bad, brief(found.error), brief(alone.error))
    else:
        picked = [(key, v[..., [place]]) for key, v in found.value]
        assert agree(Outcome(picked, None, 0.0), alone, 1e-11), (name, bad)


# the long run


def seeds() -> list[int]:
    """Return the seeds of FUZZ_SEEDS, or two new ones."""
    named = os.environ.get("FUZZ_SEEDS")
    return [int(seed) for seed in named.split(",")] if named else [random.SystemRandom().randrange(2**32) for _ in "ab"]


@pytest.mark.exhaustive
def test_many_calls_with_new_seeds(capsys):
    """FUZZ_CALLS calls or FUZZ_SECONDS of each seed of FUZZ_SEEDS, whichever ends first."""
    most, budget = int(os.environ.get("FUZZ_CALLS", "50000")), float(os.environ.get("FUZZ_SECONDS", "600"))
    broken: dict[str, Call] = {}
    for seed in seeds():
        draw, began, calls, counts = random.Random(seed), time.monotonic(), 0, collections.Counter()
        choices = [subject for subject in subjects().values() if has_arguments(subject)]
        while calls < most and time.monotonic() - began < budget:
            subject = draw.choice(choices)
            if draw.random() > 1 / subject.cost:
                continue
            call, calls = called(subject, draw), calls + 1
            known = " (known)" if is_known(call) else ""
            counts.update(f"{fault}{known}" for fault in call.faults)
            name = f"{subject.name}.{call.argument} {call.faults[:1]}"
            if call.faults and not known and name not in broken:
                broken[name] = call
                with capsys.disabled():
                    print(f"\n{call}", flush=True)
        with capsys.disabled():
            print(f"\ncontract fuzz: seed {seed}, {calls} calls, {dict(counts) or 'no fault'}")
    assert not broken, "\n".join(map(str, broken.values()))


@pytest.mark.exhaustive
@pytest.mark.parametrize("cls", FLOWS, ids=lambda c: c.__name__)
def test_engines_and_digits_with_new_seeds(cls):
    for seed in seeds():
        draw, began = random.Random(seed), time.monotonic()
        while time.monotonic() - began < float(os.environ.get("FUZZ_SECONDS", "600")) / 10:
            engines_agree(cls, draw, list(ENGINES))
            if cls in EXACT and (cls is not ls.DeepMode or draw.random() < 0.1):  # seconds each
                right(cls, draw)
            bad_member(cls, draw.choice([None, *ENGINES]), draw.choice(MAGNITUDES), draw)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", KNOWN)
def test_known_faults_are_still_faults(name):
    """An entry of `known` that is mended is removed."""
    draw, left = random.Random(0), set(KNOWN[name])
    for _ in range(4000):
        if not left:
            return
        call = called(subjects()[name], draw)
        left -= {call.argument} if call.faults else set()
    raise AssertionError(f"mended: {name} {sorted(left)}; remove from tests/contract/known.py")
