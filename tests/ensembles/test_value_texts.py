"""Texts of values in the record of a sweep: equal for equal values, different for values of other type or content."""

import collections
import dataclasses
import functools
import math
import pathlib
import re
import struct
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import linsolve as ls
from linsolve.ensembles import StoreError
from linsolve.ensembles.value_texts import Unrecordable, Writer

A = np.array([1.0, 2.0])


def text(value):
    return Writer(strict=True).text(value, "value")


def holding(value):
    """Return a function that holds a value in its closure."""

    def f(x):
        return (x, value)[0]

    return f


def typed(value):
    """Return a value with the types of all its parts and the bits of its floats, for comparison by ``==``."""
    if isinstance(value, float):
        return "float", struct.pack(">d", value)
    if isinstance(value, complex):
        return "complex", struct.pack(">dd", value.real, value.imag)
    if isinstance(value, dict):
        return "dict", [(typed(k), typed(v)) for k, v in value.items()]
    if isinstance(value, set | frozenset):
        return type(value).__name__, sorted(map(repr, map(typed, value)))
    if isinstance(value, list | tuple):
        return type(value).__name__, list(map(typed, value))
    if isinstance(value, np.ndarray):
        return "array", value.shape, str(value.dtype), value.tobytes()
    return type(value).__name__, value


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers()
    | st.floats(width=16)
    | st.complex_numbers(max_magnitude=2)
    | st.sampled_from(["", "1", "1.0", "True", "None", "nan", ", ", "'", "[1]", "#0", "a: 1", "sha256 0"])
    | st.text(max_size=3)
    | st.binary(max_size=3)
)
KEYS = st.recursive(SCALARS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
ARRAYS = st.builds(
    lambda entries, dtype, column: np.array(entries, dtype).reshape((-1, 1) if column else -1),
    st.lists(st.integers(0, 2), max_size=3),
    st.sampled_from(
        ["f8", ">f8", "f4", "i8", "?", "O", "S1", "U1", "longdouble", "c16", "m8[s]", [("a", "i1"), ("b", "O")]]
    ),
    st.booleans(),
)
VALUES = st.recursive(
    SCALARS | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.sets(KEYS, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None)
@given(VALUES, VALUES)
def test_texts_agree_exactly_where_values_and_types_do(a, b):
    assert (text(a) == text(b)) == (typed(a) == typed(b))


class Plain:
    pass


class Slotted:
    __slots__ = ("k",)


class Mixed(Slotted):
    """A slot of a base class beside a dictionary."""


@dataclasses.dataclass
class Fields:
    a: float = 1.0


class Attributed(np.ndarray):
    pass


class Located(type(pathlib.Path())):
    """A class whose inherited methods for pickling leave out its attributes."""


class Listed(list):
    pass


class Locked:
    def __init__(self, k):
        self.lock, self.k = threading.Lock(), k

    def scaled(self, x):
        return x * self.k


def set_to(thing, k):
    thing.k = k
    return thing


def local(k):
    class P:
        pass

    return set_to(P(), k)


def local_class(value):
    class P:
        k = value

        def get(self):
            return value

    return P


def wrapped(k):
    @functools.lru_cache
    def f(x):
        return k * x

    return f


def doubly(self):
    class Inner:
        def f(this, x):
            return x * self

    return Inner().f


class Called:
    def __init__(self, k):
        self.k = k

    def __call__(self, x, **more):
        return x * self.k


def added(x):
    return x + 1


def subtracted(x):
    return x - 1


def made_by_exec(source):
    space = {}
    exec(source, space)
    return space["f"]


MAKERS = {
    "object": lambda k: set_to(Plain(), k),
    "object with a lock": Locked,
    "method": lambda k: Locked(k).scaled,
    "object of a local class": local,
    "local class": local_class,
    "class without source": lambda k: type("P", (), {"k": k}),
    "object with a function": lambda k: set_to(Plain(), lambda x: x * k),
    "slot": lambda k: set_to(Slotted(), k),
    "slot of a base class": lambda k: set_to(Mixed(), k),
    "attribute beside the fields": lambda k: set_to(Fields(), k),
    "attribute of an array": lambda k: set_to(np.zeros(2).view(Attributed), k),
    "attribute of a list": lambda k: set_to(Listed(), k),
    "attribute of a path": lambda k: set_to(Located("a"), k),
    "attribute of a function": lambda k: set_to(holding(0), k),
    "closure of a closure": lambda k: holding([holding(k)]),
    "cache of a function": wrapped,
    "partial": lambda k: functools.partial(holding(0), k),
    "partial with a name": lambda k: functools.update_wrapper(functools.partial(holding(0), k), holding(0)),
    "partial of an object": lambda k: functools.partial(Called(k), k=5),
    "method of a class in a closure": doubly,
    "method of a dictionary": lambda k: {1: k}.get,
    "masked array": lambda k: np.ma.masked_equal([1.0, 2.0, 3.0], k),
    "array of objects": lambda k: np.array([None, [k]], dtype=object),
    "large array": lambda k: np.where(np.arange(5000) == 2500, k, 0),
    "default dictionary": lambda k: collections.defaultdict(list, {1: k}),
    "queue": lambda k: collections.deque([k]),
    "pattern": lambda k: re.compile(str(k)),
    "generator of random numbers": np.random.default_rng,
    "property": lambda k: property(lambda self: k),
    "names of arguments": lambda k: made_by_exec("f = lambda a, b: a" if k == 1 else "f = lambda b, a: b"),
    "wrapper": lambda k: functools.wraps(holding)(added if k == 1 else subtracted),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_everything_that_a_function_holds_is_in_its_text(make):
    record = {k: Writer(strict=True).function(make(k)) for k in (1, 2)} if callable(make(1)) else {}
    once, again, other = (text(holding(make(k))) for k in (1, 1, 2))
    assert once == again != other
    assert not record or record[1] != record[2]


PAIRS = [
    ({1: 1}, {"1": 1}),
    (1, True),
    (1, 1.0),
    (1, "1"),
    (1, np.int64(1)),
    (1.0, np.float64(1.0)),
    (np.float64(1.0), np.array(1.0)),
    (np.array(1.0), 1.0),
    ((1, 2), [1, 2]),
    ({1, 2}, frozenset({1, 2})),
    (0.0, -0.0),
    (complex(0.0, 0.0), complex(0.0, -0.0)),
    (math.nan, math.copysign(math.nan, -1.0)),
    ("a', 'b", ("a", "b")),
    (["a, b"], ["a", "b"]),
    ("#0", [[]]),
    (b"a", "a"),
    (b"a", bytearray(b"a")),
    (10**5000, 10**5000 + 1),
    ("x" * 100, b"x" * 100),
    (np.zeros(4), np.zeros((2, 2))),
    (np.zeros(2), np.zeros(2, dtype=np.int64)),
    (np.zeros(2), np.array([0.0, -0.0])),
    (np.longdouble(1) / 3, np.longdouble(1 / 3)),
    (np.array([b"a"], dtype="S1"), np.array([b"a"], dtype="S2")),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    (Plain, Slotted),
    (np.sin, np.cos),
]


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=range(len(PAIRS)))
def test_values_of_other_types_or_contents_have_other_texts(a, b):
    assert text(a) != text(b)
    assert text(holding(a)) != text(holding(b))


def test_recursive_functions_objects_and_lists_are_recorded():
    def power(k):
        def f(x, n=3):
            return x if n == 0 else f(x, n - 1) * k

        return f

    assert text(power(1)) == text(power(1)) != text(power(2))
    assert ls.sweep(power(2.0), x=A)["value"].tolist() == [8.0, 16.0]
    me, inner = Plain(), []
    me.me = me
    inner.append(inner)
    assert text(me) != text(set_to(Plain(), None))
    assert text(inner) != text([[]])
    once = []
    assert text([once, once]) != text([[], []])


def test_a_variable_that_is_not_set_is_recorded(tmp_path):
    def make(later):
        def f(x):
            return x if x[0] > 0 else unset

        if later:
            unset = 1
        return f

    assert ls.sweep(make(False), x=A, store=tmp_path / "s")["value"].tolist() == A.tolist()
    with pytest.raises(StoreError, match="fixed parameter unset = none there, 1 here"):
        ls.sweep(make(True), x=A, store=tmp_path / "s")


def test_evaluations_do_not_change_the_text_of_a_flow_or_a_trajectory():
    flow = ls.BalancedMode(s=2.0)
    found = flow([0.0, 1.0], 0.01)
    before = text((flow, found))
    assert flow(1.0, 0.01)["loss"] > 0
    assert found["loss"].shape == (2,)
    assert text((flow, found)) == before


DETERMINED = """
import re, sys
import numpy as np
from linsolve.ensembles.value_texts import Writer
class P: pass
p = P()
shared = ("gamma", frozenset({"delta", "epsilon"}))
p.names = {"alpha", "beta", ("zeta", shared), ("eta", shared), ("theta", shared), P}
print(Writer(strict=True).text([p, lambda x: x in {"a", "b", "c"}, re.compile("a"), np.sin, np.float64], ""))
"""


def test_texts_are_equal_in_every_process():
    found = {
        subprocess.run(
            [sys.executable, "-c", DETERMINED], env={"PYTHONHASHSEED": str(seed), "PYTHONPATH": ":".join(sys.path)},
            check=True, capture_output=True, text=True, timeout=60,
        ).stdout
        for seed in range(4)
    }  # fmt: skip
    assert len(found) == 1
    assert "at 0x" not in found.pop()


UNREADABLE = {
    "generator": (lambda: (k for k in ()), r"value is an object of builtins.generator \(its state cannot be read: "),
    "attribute": (lambda: set_to(Plain(), [0, memoryview(b"a")]), r"value\.k\[1\] is an object of builtins.memoryview"),
    "module": (lambda: types.ModuleType("math"), r"value is an object of builtins.module \(it is not imported under"),
    "function of NumPy": (lambda: np.frompyfunc(lambda x: x, 1, 1), "value is an object of numpy.ufunc"),
    "nested": (lambda: functools.reduce(lambda a, _: [a], range(10**5), []), "value is nested too deeply"),
}


@pytest.mark.parametrize(("make", "words"), UNREADABLE.values(), ids=UNREADABLE)
def test_values_without_readable_state_are_refused_only_with_a_store(make, words, tmp_path):
    remedy = "give the numbers it holds as arguments or axes, build it inside the function, or leave store out"
    with pytest.raises(StoreError, match=f"observe = .* depends, but {words}.*; {remedy}"):
        ls.sweep(holding(make()), x=A, store=tmp_path / "s")
    assert not (tmp_path / "s").exists()
    plain = ls.sweep(holding(make()), x=A)
    assert plain["value"].tolist() == A.tolist()
    assert re.search(f"not recorded: .*{words}", plain.source["fixed parameter value"])


def test_the_class_of_an_unreadable_default_is_named():
    with pytest.raises(Unrecordable, match=r"k is an object of builtins.generator"):
        Writer(strict=True).function(lambda x, *, k=(i for i in ()): x)


def test_an_object_without_readable_state_is_refused_only_with_a_store(tmp_path):
    class Opaque:
        def __call__(self, x):
            return x

        def __reduce__(self):
            raise ValueError("sealed")

    with pytest.raises(StoreError, match=r"but it is an object of .*Opaque \(its state cannot be read: sealed\)"):
        ls.sweep(Opaque(), x=A, store=tmp_path / "s")
    assert "not recorded: it is an object" in ls.sweep(Opaque(), x=A).source["fixed parameter state"]


def test_objects_with_locks_are_told_apart(tmp_path):
    assert ls.sweep(Locked(1.0).scaled, x=A, store=tmp_path / "s")["value"].tolist() == [1.0, 2.0]
    assert ls.sweep(Locked(1.0).scaled, x=A, store=tmp_path / "s")["value"].tolist() == [1.0, 2.0]
    with pytest.raises(StoreError, match=r"fixed parameter self = .*k: 1\.0.* there, .*k: 2\.0.* here"):
        ls.sweep(Locked(2.0).scaled, x=A, store=tmp_path / "s")


def test_functions_and_arrays_of_jax_are_told_apart():
    import jax

    jitted = {k: jax.jit(functools.partial(lambda x, k: x * k, k=k)) for k in (1.0, 2.0)}
    before = text(jitted[1.0])
    assert jitted[1.0](3.0) == 3.0
    assert text(jitted[1.0]) == before != text(jitted[2.0])
    assert text(jax.numpy.ones(2)) == text(jax.numpy.ones(2)) != text(jax.numpy.zeros(2))


def test_imported_modules_are_recorded_by_name():
    assert text(np) == text(np) != text(np.linalg)
    assert text(np).startswith(f"module numpy {np.__version__}")
