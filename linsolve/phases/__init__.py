"""Phases of learning: which one a network is in, exactly, and maps of where they meet."""

from __future__ import annotations

from linsolve.phases.classify import PHASES, Classification, Exponents, classify
from linsolve.phases.diagnostics import (
    Diagnosis,
    Slopes,
    diagnose,
    measured_phase,
    medians,
    networks,
    slopes,
    wishart,
)
from linsolve.phases.diagram import DIAGRAMS, Axis, Curve, Diagram, Mark, diagram, write
from linsolve.phases.table import Entry, table, table_text

__all__ = [
    "DIAGRAMS",
    "PHASES",
    "Axis",
    "Classification",
    "Curve",
    "Diagnosis",
    "Diagram",
    "Entry",
    "Exponents",
    "Mark",
    "Slopes",
    "classify",
    "diagnose",
    "diagram",
    "measured_phase",
    "medians",
    "networks",
    "slopes",
    "table",
    "table_text",
    "wishart",
    "write",
]
