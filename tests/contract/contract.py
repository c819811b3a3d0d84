"""The contract of a call: a right answer, or one error that names an argument the user gave."""

import contextlib
import copy
import dataclasses
import re
import signal
import time
import traceback
import types
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from linsolve.core.flow import Flow
from linsolve.core.query import NotExact
from linsolve.core.trajectory import Trajectory

REFUSALS = (ValueError, TypeError, OverflowError, ArithmeticError, KeyError)
LIMIT = 60.0  # seconds of processor time a call
HEAD = re.compile(r"(?s)^[\w.]+: (.*)")
STRICT = ("junk", "nan", "held")  # kinds of odd values after which no other argument may be blamed


STATED = {("FrozenKernel.one_target", "error")}  # nan where the docstring says so


class Hang(BaseException):
    """Raised by the alarm of a call that takes too long."""


class Outcome(NamedTuple):
    """Value or error of a call."""

    value: Any
    error: BaseException | None
    seconds: float


def _ring(*_: Any) -> None:
    raise Hang


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    before = signal.signal(signal.SIGPROF, _ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcome(call: Any, given: Mapping[str, Any], limit: float = LIMIT) -> Outcome:
    """Return the value or error of a call, with warnings as errors; observables of a trajectory are evaluated too."""
    began = time.perf_counter()
    try:
        with limited(limit), warnings.catch_warnings():
            warnings.simplefilter("error")
            value = call(**given)
            return Outcome(list(leaves(value)), None, time.perf_counter() - began)
    except (Exception, Hang) as error:
        return Outcome(None, error, time.perf_counter() - began)


def leaves(value: Any, name: str = "result", depth: int = 0) -> Iterator[tuple[str, np.ndarray]]:
    """Yield every array of a result with its name."""
    if isinstance(value, Trajectory):
        for key in value.names:
            with contextlib.suppress(OverflowError):  # observables beyond doubles are refused by name
                yield (f"state.{key}" if key in value.state._fields else key), np.asarray(value[key])
    elif isinstance(value, np.ndarray | float | int | np.generic) and not isinstance(value, bool):
        array = np.asarray(value)
        if array.dtype.kind in "fiu":
            yield name, array.astype(float)
    elif depth > 3:
        return
    elif isinstance(value, Flow):
        for key, held in value.parameters().items():
            yield key, np.asarray(held)
    elif isinstance(value, Mapping):
        for key, held in value.items():
            yield from leaves(held, str(key), depth + 1)
    elif hasattr(value, "_fields"):
        for key in value._fields:
            yield from leaves(getattr(value, key), key, depth + 1)
    elif isinstance(value, tuple | list):
        for held in value:
            yield from leaves(held, name, depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in (field for field in dataclasses.fields(value) if field.name != "seconds"):
            yield from leaves(getattr(value, field.name), field.name, depth + 1)


def names_any(message: str, names: frozenset[str]) -> bool:
    """Return whether a message ``<Who>: <argument> ...`` names one of the arguments."""
    found = HEAD.match(message)
    if not found:
        return False
    words = set(re.findall(r"(?<!')[A-Za-z]\w*", found.group(1)[:200]))
    if "a" in words and not re.search(r"(?<!\w)a( = | has | of (up to|magnitude) | is |,| \()", message):  # the article
        words.remove("a")
    return bool(words & names)


def fingerprint(value: Any) -> Any:
    """Return what must not change in an argument."""
    if isinstance(value, np.ma.MaskedArray):
        return value.filled(0.0).tobytes(), np.ma.getmaskarray(value).tobytes()
    if isinstance(value, np.ndarray):
        return (
            value.dtype.str,
            value.shape,
            value.flags.writeable,
            value.tobytes() if value.dtype != object else repr(value),
        )
    if hasattr(value, "to_numpy"):
        return type(value), value.to_numpy().tobytes()
    if isinstance(value, tuple | list):
        return [fingerprint(part) for part in value]
    if isinstance(value, dict):
        return {key: fingerprint(part) for key, part in value.items()}
    if isinstance(value, Flow):
        return {key: fingerprint(part) for key, part in value.parameters().items()}
    return repr(value) if isinstance(value, str | int | float | bytes | None.__class__) else id(value)


def fresh(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of good arguments whose arrays may be changed."""
    return {k: v if callable(v) or isinstance(v, types.ModuleType) else copy.deepcopy(v) for k, v in given.items()}


def same(a: list[tuple[str, np.ndarray]], b: list[tuple[str, np.ndarray]], rtol: float = 1e-9) -> bool:
    """Return whether two results have the same arrays up to rounding, relative to the largest entry."""
    if [(n, v.shape) for n, v in a] != [(n, v.shape) for n, v in b]:
        return False
    top = max((np.abs(v[np.isfinite(v)]).max(initial=0.0) for _, v in b), default=0.0)
    with np.errstate(all="ignore"):
        return all(_close(v, w, rtol * top + 1e-300) for (_, v), (_, w) in zip(a, b, strict=True))


def _close(a: np.ndarray, b: np.ndarray, atol: float) -> bool:
    finite = np.isfinite(b)
    if not np.array_equal(np.where(finite, 0.0, a), np.where(finite, 0.0, b), equal_nan=True):
        return False
    a, b = np.where(finite, a, 0.0), np.where(finite, b, 0.0)
    return bool(np.abs(a - b).max(initial=0.0) <= atol)


def faults(subject: Any, name: str, odd: Any, found: Outcome) -> list[str]:
    """Return the violations of the contract by an outcome."""
    error = found.error
    if isinstance(error, Hang):
        return ["hang"]
    if isinstance(error, Warning):
        return ["warning"]
    if error is not None:
        if not isinstance(error, REFUSALS):
            return ["exception"]
        message = str(error.args[0]) if error.args else ""
        if not names_any(message, subject.names) and not (isinstance(error, NotExact) and " must vanish " in message):
            return ["bare"]
        if odd.kind in STRICT and not names_any(message, subject.aliases(name)):
            return ["blame"]
        return []
    if any(np.isnan(v).any() for key, v in found.value if (subject.name, key) not in STATED):
        return ["nan"]
    if odd.kind == "nan":
        return ["dropped"]  # an answer although an entry is nan
    if odd.kind != "inf" and any(key.startswith("state.") and not np.isfinite(v).all() for key, v in found.value):
        return ["infinite state"]
    return []


def brief(error: BaseException | None) -> str:
    """Return type, message and place of an error, in one line."""
    if error is None:
        return "answered"
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:240]} [{where.filename.rsplit('linsolve/', 1)[-1]}:{where.lineno}]"
