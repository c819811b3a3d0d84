"""Pages of the reference: directives that read the docstrings of all public names."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

import linsolve as ls

__all__ = ["generated"]

SOLVED = [*ls.flows.WHERE, *ls.laws.WHERE]
REGISTRIES = ("flows", "laws")
MODULES = [name for name in ls.__all__ if isinstance(getattr(ls, name), ModuleType) and name not in REGISTRIES]


def generated() -> dict[str, str]:
    """Return path and reStructuredText of the pages: one for each flow, law and module, and one for all else."""
    found = {f"reference/{name}.rst": _class_page(name) for name in SOLVED}
    modules = [page for name in sorted(MODULES) for page in _module_pages(f"linsolve.{name}")]
    found |= {f"reference/{name.removeprefix('linsolve.')}.rst": text for name, text in modules}
    found["reference/package.rst"] = _package()
    names = [name.removeprefix("linsolve.") for name, _ in modules]
    return found | {"reference/index.rst": _index(names)}


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}"


def _directive(name: str, argument: str, **options: str) -> str:
    lines = [f"   :{option.replace('_', '-')}: {value}".rstrip() for option, value in options.items()]
    return "\n".join([f".. {name}:: {argument}".rstrip(), *lines])


def _class_page(name: str) -> str:
    bases = "Flow, Expansion, Statistic, Law, tuple"  # what these bring to all is on their own page
    cls = getattr(ls, name)
    options = {"members": "", "inherited_members": bases}
    if any(
        vars(other).get("State") is getattr(cls, "State", None) is not None
        for other in ls.flows.ALL
        if other is not cls
    ):
        options["exclude_members"] = "State"  # it stands on the page of the flow whose network this is
    body = _directive("autoclass", name, **options)
    return "\n\n".join(
        [_title(name), _directive("currentmodule", "linsolve"), f"Its :doc:`card <../cards/{name}>`.", body, ""]
    )


def _module_pages(name: str) -> list[tuple[str, str]]:
    """Return the page of a module, and of the modules that it makes public."""
    module = importlib.import_module(name)
    public = {each: getattr(module, each) for each in module.__all__}
    inner = [each for each, value in public.items() if isinstance(value, ModuleType)]
    elsewhere = [each for each, value in public.items() if any(value is getattr(ls, own) for own in _own())]
    options = {"members": ""} | ({"exclude_members": ", ".join(elsewhere)} if elsewhere else {})
    page = "\n\n".join([_title(name), _directive("automodule", name, **options), ""])
    return [(name, page), *(found for each in inner for found in _module_pages(f"{name}.{each}"))]


def _package() -> str:
    """Return the page of what stands in the package itself and is neither flow nor law nor module."""
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
    return [name for name in ls.__all__ if name not in left_out]


def _listed(names: list[str]) -> str:
    return _directive("autosummary", "") + "\n\n" + "\n".join(f"   ~linsolve.{name}" for name in names)


def _toctree(pages: Any, caption: str) -> str:
    return _directive("toctree", "", hidden="", caption=caption) + "\n\n" + "\n".join(f"   {page}" for page in pages)


def _index(modules: list[str]) -> str:
    def heading(text: str) -> str:
        return f"{text}\n{'-' * len(text)}"

    named = [f"   linsolve.{name}" for name in modules]
    return "\n\n".join([
        _title("Reference"),
        "All public names, from their docstrings. In the place of types stand shapes.",
        heading("Functions and base classes"),
        _listed(_own()),
        heading("Flows"),
        _listed(list(ls.flows.WHERE)),
        heading("Laws"),
        _listed(list(ls.laws.WHERE)),
        heading("Modules"),
        _directive("autosummary", "") + "\n\n" + "\n".join(named),
        _toctree(["package"], "Functions and base classes"),
        _toctree(ls.flows.WHERE, "Flows"),
        _toctree(ls.laws.WHERE, "Laws"),
        _toctree(modules, "Modules"),
        "",
    ])  # fmt: skip
