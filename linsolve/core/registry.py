"""Lazy imports: names are imported on first access, so that `import linsolve` is nearly as fast as `import numpy`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from linsolve.core.arguments import unknown_name

__all__ = ["on_use"]


def on_use(
    package: str, where: Mapping[str, str], public: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose modules are imported on first access.

    Parameters
    ----------
    package : str
        Name of the package.
    where : dict of str to str
        For each name ``"module"``, for the attribute of that name, or ``"module:attribute"``; an empty attribute means
        the module itself.
    public : iterable of str, optional
        Further names of the package, for the error.

    Raises
    ------
    AttributeError
        Raised by the returned ``__getattr__`` if the name is unknown.
    """

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(unknown_name(package, "attribute", name, {*where, *public}))
        module, colon, attribute = where[name].partition(":")
        value: Any = importlib.import_module(module)
        if attribute or not colon:
            value = getattr(value, attribute or name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(where)
