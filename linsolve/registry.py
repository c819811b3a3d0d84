"""Names that are imported when first asked for, so that `import linsolve` costs little more than `import numpy`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from linsolve.inputs import unknown_name

__all__ = ["on_use"]


def on_use(package: str, where: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package whose names live in its modules.

    Parameters
    ----------
    package : str
        Name of the package.
    where : dict of str to str
        Module of each name; `ALL` is the tuple of all of them, in this order.
    """

    def get(name: str) -> Any:
        if name == "ALL":
            value: Any = tuple(getattr(sys.modules[package], each) for each in where)
        elif name in where:
            value = getattr(importlib.import_module(f"{package}.{where[name]}"), name)
        else:
            raise AttributeError(unknown_name(package, "attribute", name, ["ALL", *where]))
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(["ALL", *where])
