"""Sections of the docstrings of public classes and functions: errors, parameters, returned values, sources."""

import inspect
import re

import numpy as np
import pytest

import linsolve as ls
from linsolve.papers.references import sources

SOLVED = [*ls.flows.ALL, *ls.laws.ALL]
PUBLIC = [*SOLVED, ls.collapse.GeneralBlocks]
ODD = (None, "text", -1.0, 1.5, 1e308, float("nan"), np.ones((2, 3, 5)))


def section(item, title):
    """Return the text of a section of a docstring, "" if it is missing."""
    found = re.search(rf"(?ms)^{title}\n-+\n(.*?)(?=\n\n\w[\w ]*\n-+\n|\Z)", inspect.getdoc(item) or "")
    return found[1] if found else ""


def error(call):
    """Return the name of the error of a call, "" if it succeeds."""
    try:
        call()
    except Exception as raised:
        return type(raised).__name__
    return ""


def errors(cls):
    """Return the names of the errors of missing, unknown and odd parameters, and of violated conditions."""
    example, rng = cls.example(np.random.default_rng(0)), np.random.default_rng(1)
    flow = issubclass(cls, ls.Flow)
    given = (example[0] if flow else example).parameters()
    found = {error(lambda: cls(**given, unknown=1.0))}
    for name in given:
        found |= {error(lambda name=name, value=value: cls(**{**given, name: value})) for value in ODD}
    for broken in cls.counterexamples(rng).values():
        found.add(error(lambda broken=broken: broken[0](1.0, broken[1]) if flow else cls(**broken)))
    return found - {""}


@pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)
def test_every_error_of_a_flow_or_law_is_in_its_docstring(cls):
    told = section(cls, "Raises")
    found = errors(cls)
    assert {"TypeError", "ValueError"} <= found
    assert [name for name in sorted(found) if not re.search(rf"(?m)^{name}$", told)] == []


@pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda cls: cls.__name__)
def test_flows_whose_closed_form_has_conditions_name_the_error_of_a_violation(cls):
    flow, z0 = cls.example(np.random.default_rng(0))
    assert bool(flow.conditions(np, flow.state(z0))) == ("NotExact" in section(cls, "Raises"))


@pytest.mark.parametrize("cls", SOLVED, ids=lambda cls: cls.__name__)
def test_every_flow_and_law_names_a_source_or_its_derivation(cls):
    assert sources(cls) or "erived here" in inspect.getdoc(cls)


def test_named_tuples_and_functions_of_formulas_describe_their_parameters():
    of = [ls.plot.figure, ls.ntk.parametrization, ls.ntk.spread, ls.ntk.correlation, ls.ntk.gradient_norms]
    of += [ls.ntk.Moments, ls.ntk.KernelDraws, ls.published.Errors, ls.published.Evidence]
    of += [getattr(ls.phases, name) for name in ("Curve", "Diagnosis", "Mark", "Slopes", "diagram")]
    for item in of:
        told = section(item, "Parameters")
        names = getattr(item, "_fields", None) or inspect.signature(item).parameters
        assert [name for name in names if not re.search(rf"(?m)^[\w*, ]*\b{name}\b.*$", told)] == [], item
    assert "Diagram" in section(ls.phases.diagram, "Returns")
