"""Machine code kept on disk: loaded again while its sources are unchanged, and never afterwards."""

import importlib.util
import sys
import types

import pytest

pytest.importorskip("numba")

from linsolve.systems.whitened import flow_map_compiled, simd
from linsolve.systems.whitened.kept_code import kept

SOURCE = """
from numba import njit
import kept_other

@njit
def times(x):
    return kept_other.FACTOR * x
"""


def loaded(folder, name, source):
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("changed", ["nothing", "own", "other"])
@pytest.mark.quick(3)
def test_code_is_compiled_again_only_if_a_source_changes(changed, tmp_path, monkeypatch):
    found = []
    for again in (False, True):
        factor = 20.0 if again and changed == "other" else 2.0
        other = loaded(tmp_path, "kept_other", f"FACTOR = {factor}\n")
        monkeypatch.setitem(sys.modules, "kept_other", other)
        own = loaded(tmp_path, "kept_own", SOURCE + ("# more\n" if again and changed == "own" else ""))
        function = kept(own.times, other)
        assert function(1.5) == 1.5 * factor
        found.append(sum(function.stats.cache_hits.values()))
    assert found == [0, int(changed == "nothing")]


def test_a_function_without_a_file_is_compiled_in_each_process():
    namespace = {}
    exec("def same(x):\n    return x\n", namespace)
    function = types.SimpleNamespace(py_func=namespace["same"])
    assert kept(function, simd) is function
    assert not hasattr(function, "_cache")


def test_the_code_of_the_flow_map_is_kept():
    assert type(flow_map_compiled.fill._cache).__name__ == "Cache"
