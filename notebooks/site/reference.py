"""Pages of the reference: directives for the docstrings of all public names."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

import linsolve as ls

__all__ = ["generated"]

SOLVED = [*ls.flows.WHERE, *ls.laws.WHERE]
REGISTRIES = ("flows", "laws")
# public modules by public name; `linsolve.ntk` is an alias of its folder
MODULES = {
    name: getattr(ls, name).__name__
    for name in ls.__all__
    if isinstance(getattr(ls, name), ModuleType) and name not in REGISTRIES
}


def generated() -> dict[str, str]:
    """Return path and reStructuredText of the pages: one for each module, and one for the package."""
    modules = [page for alias, name in sorted(MODULES.items()) for page in _module_pages(alias, name)]
    found = {f"reference/{alias}.rst": text for alias, _, text in modules}
    found["reference/package.rst"] = _package()
    names = [(alias, name) for alias, name, _ in modules]
    return found | {"reference/index.rst": _index(names)}


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}"


def _directive(name: str, argument: str, **options: str) -> str:
    lines = [f"   :{option.replace('_', '-')}: {value}".rstrip() for option, value in options.items()]
    return "\n".join([f".. {name}:: {argument}".rstrip(), *lines])


def _module_pages(alias: str, name: str) -> list[tuple[str, str, str]]:
    """Return public name, module and page of a module and of its public submodules."""
    module = importlib.import_module(name)
    public = {each: getattr(module, each) for each in module.__all__}
    inner = [each for each, value in public.items() if isinstance(value, ModuleType)]
    elsewhere = [each for each, value in public.items() if any(value is getattr(ls, own) for own in _own())]
    elsewhere += [each for each in public if each in {*SOLVED, "FLOWS", "LAWS", "PUBLISHED"}]
    options = {"members": ""} | ({"exclude_members": ", ".join(elsewhere)} if elsewhere else {})
    page = "\n\n".join([_title(f"linsolve.{alias}"), _directive("automodule", name, **options), ""])
    below = (found for each in inner for found in _module_pages(f"{alias}.{each}", public[each].__name__))
    return [(alias, name, page), *below]


def _package() -> str:
    """Return the page of the public functions and base classes of the package."""
    parts = [_title("linsolve"), _directive("currentmodule", "linsolve")]
    for name in _own():
        value = getattr(ls, name)
        if inspect.isclass(value):
            parts.append(_directive("autoclass", name, members="", special_members="__call__"))
        else:
            parts.append(_directive("autofunction", name))
    return "\n\n".join([*parts, ""])


def _own() -> list[str]:
    left_out = {*SOLVED, *MODULES, *REGISTRIES}
    return [name for name in ls.__all__ if name not in left_out and not name.startswith("_")]


def _listed(names: list[str], module: str = "linsolve") -> str:
    return _directive("autosummary", "") + "\n\n" + "\n".join(f"   ~{module}.{name}" for name in names)


def _toctree(pages: Any, caption: str) -> str:
    return _directive("toctree", "", hidden="", caption=caption) + "\n\n" + "\n".join(f"   {page}" for page in pages)


def _index(modules: list[tuple[str, str]]) -> str:
    def heading(text: str) -> str:
        return f"{text}\n{'-' * len(text)}"

    named = [f"   {name}" for _, name in modules]
    return "\n\n".join([
        _title("Reference"),
        "All public names, from their docstrings. Array parameters have shapes in place of types.",
        heading("Functions and base classes"),
        _listed(_own()),
        heading("Flows"),
        _listed(list(ls.flows.WHERE)),
        heading("Laws"),
        _listed(list(ls.laws.WHERE), "linsolve.systems.laws"),
        heading("Modules"),
        _directive("autosummary", "") + "\n\n" + "\n".join(named),
        _toctree(["package"], "Functions and base classes"),
        _toctree([alias for alias, _ in modules], "Modules"),
        "",
    ])  # fmt: skip
