"""The last start of a flow, with its checks and the quantities that do not depend on time, kept for the next call."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Begun", "Last", "begun_from", "recalled"]

KEPT = 2**12  # largest number of entries of parameters and start, whose comparison costs time in every call
_DOUBLE = np.dtype(float)


class Begun:
    """A start that satisfies the checks of a flow, and its quantities: the part of a call that does not depend on time.

    Parameters
    ----------
    bits : tuple of (shape, bytes)
        Parameters of the flow and fields of the start, as they were checked.
    z0 : State
        The start, in the memory of `bits`, which nothing can write to.
    batch : tuple of int

    Attributes
    ----------
    known : bool
        Whether a call has used the start, and no operation of it has overflowed. Later calls only read it then.
    life : (float, float) or None
        Open interval of the times of existence, if evaluated.
    given : (Flow, State) or None
        Flow and start as the closed form takes them, if evaluated.
    found : object
        ``flow.begun`` of these.
    """

    __slots__ = ("batch", "bits", "found", "given", "known", "life", "z0")

    def __init__(self, bits: tuple[Any, ...], z0: Any, batch: tuple[int, ...]) -> None:
        own = bits[len(bits) - len(z0) :]
        self.z0 = type(z0)(*(np.frombuffer(data).reshape(shape) for shape, data in own))
        self.bits, self.batch, self.known = bits, batch, False
        self.life: tuple[float, float] | None = None
        self.given: tuple[Any, Any] | None = None
        self.found: Any = None

    def keep(self, flow: Any) -> None:
        """Keep the start for the next call of the flow, after a call without overflow in any operation."""
        if self.given is not None and not self.known:
            self.known = True
            flow._last.begun = self


class Last:
    """The last start of a flow, None at first; a copy or pickle is empty. Threads may share it."""

    __slots__ = ("begun",)

    def __init__(self) -> None:
        self.begun: Begun | None = None

    def __reduce__(self) -> tuple[type[Last], tuple[()]]:
        return Last, ()


def _bits(values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return shapes and bytes of arrays; None unless they are few numbers of NumPy or Python in double precision."""
    size, found = 0, []
    for v in values:
        if type(v) is float:
            v = np.float64(v)
        elif not _comparable(v):
            return None
        size += v.size
        found.append((v.shape, v))
    return tuple([(shape, v.tobytes()) for shape, v in found]) if size <= KEPT else None


def begun_from(flow: Any, given: Any, z0: Any, batch: tuple[int, ...]) -> Begun | None:
    """Return the checked start of a flow, which is the last one if it has its bits; None if it is not kept.

    It is not kept if `given` by the caller in other numbers than its own, which later calls could not tell from it.
    """
    bits, last = _bits(_values(flow, z0)), flow._last.begun
    if bits is None or _bits(_values(flow, given)) != bits:
        return None
    return last if last is not None and last.bits == bits else Begun(bits, z0, batch)


def recalled(flow: Any, given: Any) -> Begun | None:
    """Return the last start of a flow if the `given` one has its bits, and the parameters still have theirs.

    Values are compared, not objects: arrays that have been written to since are checked again.
    """
    last = flow._last.begun
    if last is None:
        return None
    values = _values(flow, given)
    if len(values) != len(last.bits):
        return None
    for v, (shape, data) in zip(values, last.bits, strict=True):
        if type(v) is float:
            v = np.float64(v)
        if not _comparable(v) or v.shape != shape or v.tobytes() != data:
            return None
    return last


def _values(flow: Any, z0: Any) -> tuple[Any, ...]:
    own = flow.parameters().values()
    return (*own, *z0) if isinstance(z0, tuple) else (*own, z0)


def _comparable(v: Any) -> bool:
    return (type(v) is np.ndarray or type(v) is np.float64) and v.dtype == _DOUBLE
