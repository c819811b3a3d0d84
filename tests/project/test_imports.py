"""The import graph of the package, read from its code: no circle of files, and imports point downward."""

import ast
import importlib
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import linsolve

ROOT = Path(linsolve.__file__).parent

# a room and what it may import, besides itself
BELOW = {
    "arithmetic": set(),
    "core": {"arithmetic"},
    "numerics": {"arithmetic", "core"},
    "plot": {"arithmetic", "core"},
    "data": {"arithmetic", "core"},
    "engines": {"arithmetic", "core", "numerics"},
    "systems": {"arithmetic", "core", "numerics", "engines"},
    "ensembles": {"arithmetic", "core", "numerics", "plot", "engines", "systems"},
    "solvability": {"arithmetic", "core", "numerics", "plot", "data", "engines", "systems"},
    "studies": {"arithmetic", "core", "numerics", "plot", "data", "engines", "systems", "ensembles", "solvability"},
    "papers": {"arithmetic", "core", "systems"},
}
TOP = {"cli", "__init__", "__main__"}  # may import everything

# a system and the systems that it extends
EXTENDS = {
    "mode": set(),
    "two_layer": {"mode"},
    "deep": {"mode"},
    "whitened": {"deep"},
    "small_start": {"mode", "whitened", "deep"},
    "kernel_regime": set(),
    "collapse": {"mode", "two_layer", "whitened", "kernel_regime"},
    "random_networks": set(),
    "streaming_sgd": set(),
    "generalization": {"mode"},
}


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def graph(root=ROOT):
    """Return the modules that each module imports anywhere in its code."""
    files = {module_of(path): path for path in root.rglob("*.py")}
    found = {}
    for module, path in files.items():
        found[module] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found[module] |= {alias.name for alias in node.names if alias.name in files}
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("linsolve"):
                full = {f"{node.module}.{alias.name}" for alias in node.names}
                found[module] |= {name if name in files else node.module for name in full}
    return found


def room(module, level=1):
    parts = module.split(".")
    return parts[level] if len(parts) > level else "__init__"


def test_no_circle_of_files():
    TopologicalSorter(graph()).prepare()  # raises CycleError


def test_imports_point_downward():
    wrong = [
        f"{module} imports {other}"
        for module, others in graph().items()
        for other in others
        if room(module) not in TOP and room(other) != room(module) and room(other) not in BELOW[room(module)]
    ]
    assert wrong == []


def test_systems_import_only_systems_that_they_extend():
    wrong = [
        f"{module} imports {other}"
        for module, others in graph().items()
        for other in others
        if room(module) == room(other) == "systems"
        and room(module, 2) in EXTENDS
        and room(other, 2) in EXTENDS
        and room(other, 2) not in {room(module, 2), *EXTENDS[room(module, 2)]}
    ]
    assert wrong == []


def test_the_top_level_is_small():
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py", "__main__.py"}
    assert len([path for path in ROOT.iterdir() if (path / "__init__.py").exists()]) <= 12


def test_no_module_shares_its_name_with_a_function_beside_it():
    for path in ROOT.rglob("__init__.py"):
        beside = {each.stem for each in path.parent.iterdir()} - {"__init__", "__main__", "__pycache__", "py"}
        package = importlib.import_module(module_of(path))
        assert [name for name in beside if callable(getattr(package, name, None))] == [], package.__name__


SLOW = {"csv", "decimal", "difflib", "html", "json", "shutil", "tempfile"}  # a millisecond or more each


def test_the_import_loads_numpy_and_little_else():
    code = (
        "import sys, numpy; before = set(sys.modules); import linsolve; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert set(told) - sys.stdlib_module_names == {"linsolve"}
    assert not set(told) & SLOW


def test_a_circle_is_seen():
    with pytest.raises(CycleError):
        TopologicalSorter({"a": {"b"}, "b": {"a"}}).prepare()
