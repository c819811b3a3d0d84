"""Texts of values for the record of a sweep: equal in every process, different for different types and contents."""

from __future__ import annotations

import copyreg
import functools
import hashlib
import inspect
import pickle
import struct
import sys
import threading
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["Unrecordable", "Writer"]

LONGEST = 80  # characters of a number or string that is shown in full
LONGEST_ENTRY = 400  # characters of an entry that is shown in full
EXACT = frozenset("?bBhHiIlLqQefdFDSUMmV")  # NumPy's types whose bytes are their values; extended precision has padding
_SOURCES: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()
UNCHANGEABLE, ON_HEAP = 1 << 8, 1 << 9  # Py_TPFLAGS_IMMUTABLETYPE, Py_TPFLAGS_HEAPTYPE


class Unrecordable(Exception):
    """Raised for a value whose state cannot be read; the message gives its place, type and the reason."""


class Writer:
    """Writer of the texts of one record.

    Values are written with all that they hold: entries, attributes, slots, closures, defaults. An object whose class,
    or a base class in the same package, has methods for pickling is written as these reduce it. Functions and classes
    are written by their source, modules and classes found by their name without their attributes. A value that occurs
    again is written as ``#n``, its number.

    Parameters
    ----------
    strict : bool
        Whether a value whose state cannot be read raises `Unrecordable`; otherwise its text says so.
    """

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.seen: dict[int, tuple[int, Any]] = {}  # number and value by id; the reference keeps the id in use
        self.path: list[str] = []

    def function(self, function: Any) -> tuple[str, str, dict[str, str]]:
        """Return name, source hash and texts of the bound values of a function or callable object."""
        self._number(function)
        if type(function) is functools.partial:
            name, source, given = self.function(function.func)
            bound = _labelled(dict(enumerate(function.args)) | function.keywords)
            return name, source, self._joined(given, bound | _labelled(vars(function), "."))
        if inspect.ismethod(function):
            name, source, given = self.function(function.__func__)
            return name, source, self._joined(given, {"self": function.__self__})
        if inspect.isfunction(function):
            return function.__qualname__, _hash(_source(function)), self._joined({}, _bound(function))
        kind = function if inspect.isclass(function) else type(function)
        name, source = getattr(function, "__name__", kind.__qualname__), _hash(self._class(kind))
        if kind is function:
            return name, source, {}
        try:
            return name, source, self._joined({}, self._state(function))
        except Unrecordable as error:
            return name, source, {"state": self._refused(error)}

    def _joined(self, given: dict[str, str], more: dict[str, Any]) -> dict[str, str]:
        """Return texts with those of further values; a text under a name in use also contains the earlier text."""
        found = dict(given)
        for name, value in more.items():
            text = self._entry(value, name)
            found[name] = f"{text} (instead of {found[name]})" if name in found else text
        return found

    def _entry(self, value: Any, name: str) -> str:
        try:
            text = self.text(value, name)
        except (RecursionError, Unrecordable) as error:
            deep = f"{''.join([*self.path, name])} is nested too deeply"
            text = self._refused(error if isinstance(error, Unrecordable) else Unrecordable(deep))
        return text if len(text) <= LONGEST_ENTRY else f"{text[:100]} ..., {_hash(text)}"

    def text(self, value: Any, name: str) -> str:
        """Return the text of a value; `name` is its place in the value that holds it."""
        if type(value) in _PLAIN:
            text = _PLAIN[type(value)](value)
            return text if len(text) <= LONGEST else _hash(text)
        if isinstance(value, np.generic) and type(value) is value.dtype.type:
            return f"{type(value).__name__}: {self._array(np.asarray(value))}"
        if id(value) in self.seen:
            return f"#{self.seen[id(value)][0]}"
        self._number(value)
        self.path.append(name)
        try:
            return self._composed(value)
        finally:
            self.path.pop()

    def _number(self, value: Any) -> None:
        self.seen.setdefault(id(value), (len(self.seen), value))

    def _composed(self, value: Any) -> str:
        kind = type(value)
        if kind is list or kind is tuple:
            inner = self._sequence(value)
            return f"[{inner}]" if kind is list else f"({inner})"
        if kind is set or kind is frozenset:
            return f"{kind.__name__} {{{', '.join(sorted(map(self._element, value)))}}}"
        if kind is dict:
            return "{" + ", ".join(self._item(*item) for item in value.items()) + "}"
        if kind is np.ndarray:
            return self._array(value)
        if kind is types.FunctionType:
            name, source, given = self.function(value)
            return f"{name} ({', '.join([source, *_pairs(given)])})"
        if kind is types.CodeType:
            return f"code {_hash(_instructions(value))}"
        if kind is types.ModuleType:
            return self._module(value)
        if issubclass(kind, type):
            return self._class(value)
        of = self.text(kind, "'s class")
        given = {name: self.text(held, f".{name}") for name, held in self._state(value).items()}
        return f"{of} ({', '.join(_pairs(given))})"

    def _sequence(self, values: Iterable[Any]) -> str:
        return ", ".join(self.text(value, f"[{k}]") for k, value in enumerate(values))

    def _item(self, key: Any, value: Any) -> str:
        key = self.text(key, ".keys()")
        return f"{key}: {self.text(value, f'[{key:.40}]')}"

    def _element(self, value: Any) -> str:
        """Return the text of an element of a set, whose order is arbitrary: numbers given within it are given back."""
        known = len(self.seen)
        text = self.text(value, ".pop()")
        while len(self.seen) > known:
            self.seen.popitem()
        return text

    def _array(self, value: np.ndarray) -> str:
        about = f"array {value.shape} of {value.dtype}"
        if value.dtype.names is not None:
            return f"{about} {{{', '.join(f'{n!r}: {self._array(value[n])}' for n in value.dtype.names)}}}"
        if value.dtype.char in EXACT:
            shown = f" {value.item()!r}" if value.size == 1 else ""
            return f"{about}{shown}, {_hash(value.tobytes())}"
        if value.dtype.char in "gG":
            return f"{about}, {_hash(repr([repr(entry) for entry in value.ravel()]))}"
        return f"{about} [{self._sequence(value.ravel().tolist())}]"

    def _module(self, value: types.ModuleType) -> str:
        name = value.__name__
        if sys.modules.get(name) is not value:
            raise self._unrecordable(value, "it is not imported under its name")
        return f"module {name} {vars(value).get('__version__', '')} ({_hash(_source(value) or name)})"

    def _class(self, kind: type) -> str:
        """Return the text of a class by source and bases; of one that its module does not define also by members."""
        self._number(kind)
        source, bases = _class_source(kind), [base for base in kind.__bases__ if base is not object]
        given = {f"base {k}": self.text(base, "'s base") for k, base in enumerate(bases)}
        if not _defined_in_module(kind, source):
            members = _labelled(dict(_members(kind))) | {"metaclass": type(kind)}
            given |= {name: self.text(value, f".{name}") for name, value in members.items()}
        return f"{kind.__qualname__} ({', '.join([_hash(source or repr(kind)), *_pairs(given)])})"

    def _state(self, value: Any) -> dict[str, Any]:
        """Return the values that an object holds, by name."""
        try:
            return _held(value)
        except Exception as error:  # third-party classes raise anything if they cannot be pickled
            raise self._unrecordable(value, f"its state cannot be read: {error}") from error

    def _unrecordable(self, value: Any, reason: str) -> Unrecordable:
        kind, place = type(value), "".join(self.path) or "it"
        return Unrecordable(f"{place} is an object of {kind.__module__}.{kind.__qualname__} ({reason})")

    def _refused(self, error: Unrecordable) -> str:
        if self.strict:
            raise error
        return f"not recorded: {error}"


# state of objects, functions and classes


def _held(value: Any) -> dict[str, Any]:
    """Return the values that an object holds, by name: attributes and slots, or what pickle reduces it to."""
    kind = type(value)
    if kind in _PARTS:
        return _PARTS[kind](value)
    if _package(kind) == "jaxlib" and hasattr(value, "__wrapped__"):  # jax.jit, whose state has caches
        return {"__wrapped__": value.__wrapped__}
    made = copyreg.dispatch_table.get(kind, lambda value: value.__reduce_ex__(4))(value)
    if isinstance(made, str):  # a name in a module, which pickle looks up
        made = pickle.dumps(value, protocol=2), ()
    make, given, state, entries, items = (*made, None, None, None)[:5]
    methods = {name: getattr(kind, name) for name in ("__reduce_ex__", "__reduce__", "__getstate__")}
    own = [m for m in methods.values() if inspect.isfunction(m) and _package(m) == _package(kind)]
    found = {} if own else _attributes(object.__getstate__(value))  # type: ignore[attr-defined]
    if make is not copyreg.__newobj__ or len(given) > 1:  # type: ignore[attr-defined]
        found |= {"(made by)": make, "(made from)": given}
    if state is not None and any(method is not getattr(object, name) for name, method in methods.items()):
        found["(state)"] = state
    return found | {name: list(held) for name, held in (("(entries)", entries), ("(items)", items)) if held is not None}


def _attributes(state: Any) -> dict[str, Any]:
    """Return attributes and slots from Python's default state of an object: its dictionary, None, or with slots."""
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    named = _labelled(attributes) if isinstance(attributes, dict) else {}
    return named | {f"(slot) {name}": value for name, value in sorted(slots.items())}


def _package(thing: Any) -> str:
    return thing.__module__.partition(".")[0]


def _bound(function: types.FunctionType) -> dict[str, Any]:
    """Return closure, defaults and attributes of a function by name."""
    code, found = function.__code__, {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # a variable that is not set yet
            continue
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    found |= dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return found | (function.__kwdefaults__ or {}) | _labelled(vars(function), ".")


def _labelled(values: Mapping[Any, Any], before: str = "") -> dict[str, Any]:
    """Return values sorted by name; a name that is no identifier is quoted."""
    plain = {name: isinstance(name, str) and name.isidentifier() for name in values}
    return dict(sorted((before + (name if plain[name] else repr(name)), value) for name, value in values.items()))


def _pairs(texts: dict[str, str]) -> list[str]:
    return [f"{name}: {text}" for name, text in texts.items()]


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a class, without what Python derives from its source."""
    derived = types.GetSetDescriptorType | types.MemberDescriptorType
    for name, value in vars(kind).items():
        code = isinstance(value, types.FunctionType | staticmethod | classmethod | property)
        if code or not (name.startswith("__") or name == "_abc_impl" or isinstance(value, derived)):
            yield name, value


def _defined_in_module(kind: type, source: str) -> bool:
    """Return whether a class is compiled, or found by its name in a module that has its source or is a file."""
    compiled = kind.__flags__ & UNCHANGEABLE or not kind.__flags__ & ON_HEAP
    if compiled or type(kind).__module__ == "nanobind":  # classes of JAX can be changed, though compiled
        return True
    module: Any = sys.modules.get(kind.__module__)
    found = module
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is kind and bool(source or (kind.__module__ != "__main__" and hasattr(module, "__file__")))


# sources


def _source(thing: Any) -> str:
    """Return the source of a function, class or module; without it the bytecode of a function, "" for others."""
    code = thing.__code__ if inspect.isfunction(thing) else None
    try:
        text = inspect.getsource(thing if code is None else code)  # of code: not of a function that it wraps
    except (OSError, TypeError):
        return "" if code is None else _instructions(code)
    # the source line of a lambda may hold several
    return text + _instructions(code) if code is not None and code.co_name == "<lambda>" else text


def _class_source(kind: type) -> str:
    """Return the source of a class, found once: Python parses the whole file for it."""
    if kind not in _SOURCES:
        _SOURCES[kind] = _source(kind)
    return _SOURCES[kind]


def _instructions(code: types.CodeType) -> str:
    """Return bytecode, names and constants of a function and its inner functions, without addresses."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    constants = Writer(strict=True).text(code.co_consts, "constants")
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    return repr((code.co_code, names, constants, shape, code.co_exceptiontable))


def _hash(text: str | bytes) -> str:
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return f"sha256 {hashlib.sha256(data).hexdigest()[:16]}"


# numbers and strings


def _float(value: float) -> str:
    bits = struct.pack(">d", value).hex()
    return repr(value) if value == value or bits == "7ff8000000000000" else f"nan 0x{bits}"


_PLAIN: dict[type, Any] = {
    type(None): repr,
    type(...): repr,
    bool: repr,
    str: repr,
    bytes: repr,
    int: lambda value: repr(value) if value.bit_length() < 256 else hex(value),  # Python limits long decimal numbers
    float: _float,
    complex: lambda value: f"complex({_float(value.real)}, {_float(value.imag)})",
}
_PARTS: dict[type, Any] = {
    type(threading.Lock()): lambda value: {},  # no value depends on a lock
    type(threading.RLock()): lambda value: {},
    types.MethodType: lambda value: {"function": value.__func__, "self": value.__self__},
    types.MappingProxyType: lambda value: {"items": dict(value)},
    property: lambda value: {"fget": value.fget, "fset": value.fset, "fdel": value.fdel},
    functools.cached_property: lambda value: {"function": value.func},  # before Python 3.12 with a lock
    type(functools.lru_cache(len)): lambda value: _labelled(vars(value)),
    staticmethod: lambda value: {"function": value.__func__},
    classmethod: lambda value: {"function": value.__func__},
}
