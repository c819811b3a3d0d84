"""Settings of Sphinx; ``__main__.py`` runs the build."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import linsolve

# each public name and the name under which it is documented
NAMES = {name: f"linsolve.{name}" for name in linsolve.__all__}
NAMES |= {name: f"linsolve.systems.laws.{name}" for name in linsolve.laws.WHERE}

SOLVED = {NAMES[name] for name in (*linsolve.flows.WHERE, *linsolve.laws.WHERE)}

# public modules that are folders of another name
MODULES = {
    name: getattr(linsolve, name).__name__
    for name in linsolve.__all__
    if isinstance(getattr(linsolve, name), ModuleType) and name not in ("flows", "laws")
}

project = "linsolve"
author = copyright = "the linsolve developers"
version = release = linsolve.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "myst_nb",
]
# files that other pages include
exclude_patterns = ["README.md", "linsolve", "tests"]

html_theme = "furo"
html_title = f"linsolve {version}"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_show_sphinx = False
pygments_style, pygments_dark_style = "friendly", "monokai"

myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

# MathJax with SVG output is one file without fonts, so that formulas need no network and no web server
MATHJAX = "static/mathjax/tex-svg-full.js"
mathjax_path = "mathjax.js"

# notebooks are committed with the outputs of a clean run; a test compares them
nb_execution_mode = "off"
nb_merge_streams = True

# single backticks in docstrings: a link if the name is documented, code otherwise
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autosummary_generate = False
viewcode_follow_imported_members = False
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 100

# single backticks also mark parameters; only dotted names of the package must resolve
nitpicky = True
_INTERNAL = "core|numerics|engines|ensembles|systems|solvability|studies|papers|cli"  # not on the site
nitpick_ignore_regex = [("py:.*", r"(?!linsolve\.).*"), ("py:.*", rf"linsolve\.({_INTERNAL})\..*")]


def setup(app: Any) -> None:
    """Connect the handlers of this file."""
    app.connect("build-finished", _copy_mathjax)
    app.connect("autodoc-skip-member", _fields_without_words)
    app.connect("autodoc-process-docstring", _on_the_page_already)
    app.connect("autodoc-process-docstring", _numbers_of_equations)
    app.connect("doctree-read", _types_are_words)


def _copy_mathjax(app: Any, error: Exception | None) -> None:
    """Copy MathJax from the package ``sphinx-mathjax-offline`` into the site."""
    package = find_spec("sphinx-mathjax-offline")
    if package is None or package.origin is None:
        raise RuntimeError('site: sphinx-mathjax-offline is not installed; run pip install ".[docs]"')
    if error is None:
        source = Path(package.origin).parent / MATHJAX
        (Path(app.outdir) / "_static" / mathjax_path).write_bytes(source.read_bytes())


def _fields_without_words(app: Any, what: str, name: str, item: Any, skip: bool, options: Any) -> bool | None:
    """Skip fields of named tuples without a docstring of their own; the docstring of the tuple describes them."""
    return True if (getattr(item, "__doc__", None) or "").startswith("Alias for field number") else None


def _on_the_page_already(app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Leave out the docstrings of flows and laws: their pages are written from them."""
    if what == "class" and name in SOLVED:
        lines[:] = ["See above for the statement and the parameters."]


def _numbers_of_equations(app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Escape ``(10)`` in the first column of a table, which is otherwise read as a list item."""
    lines[:] = [re.sub(r"^(\s*)\((\w+)\)  ", r"\1\(\2) ", line) for line in lines]


def _types_are_words(app: Any, doctree: Any) -> None:
    """Link names of this package in the types of parameters, and no other words."""
    from sphinx.addnodes import pending_xref

    for link in list(doctree.findall(pending_xref)):
        head, _, rest = link["reftarget"].removeprefix("linsolve.").partition(".")
        if link["reftarget"].startswith("linsolve.") and head in MODULES:
            link["reftarget"] = ".".join(filter(None, (MODULES[head], rest)))
    for link in list(doctree.findall(pending_xref)):
        if link.get("refspecific") and link["refdomain"] == "py" and link["reftype"] in ("class", "exc", "obj"):
            if link["reftarget"] in NAMES:
                link["reftarget"] = NAMES[link["reftarget"]]
                link["refspecific"], link["reftype"] = False, "obj"
            else:
                link.replace_self(link.children)
