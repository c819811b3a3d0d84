"""Machine code of numba kept on disk until a file on which it depends changes (extra ``[fast]``).

Numba's own cache compares the file of the function alone: code of a changed `simd` would write out of bounds.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache

from linsolve.engines import elementary, vectors

__all__ = ["kept"]


def _digest(modules: tuple[Any, ...]) -> str:
    return hashlib.sha256(b"".join(Path(module.__file__).read_bytes() for module in modules)).hexdigest()


def kept(function: Any, *modules: Any) -> Any:
    """Return a compiled function whose machine code is kept beside its module, or in the user's cache.

    Parameters
    ----------
    function : numba dispatcher
    modules : modules
        Modules, besides its own and those that write vector instructions, whose functions it calls.
    """

    class Files(CompileResultCacheImpl):  # type: ignore[misc]
        def __init__(self, py_func: Any) -> None:
            super().__init__(py_func)
            own = self.locator.get_source_stamp()
            self.locator.get_source_stamp = lambda: (own, _digest((*modules, elementary, vectors)))

    class Cache(FunctionCache):  # type: ignore[misc]
        _impl_class = Files

    # without a folder to write to, the function is compiled in each process
    with contextlib.suppress(RuntimeError, OSError):
        function._cache = Cache(function.py_func)
    return function
