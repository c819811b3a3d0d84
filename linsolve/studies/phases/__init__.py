"""Phases of learning: exact classification of a network, and phase diagrams."""

from __future__ import annotations

from linsolve.studies.phases.diagrams import DIAGRAMS, Axis, Curve, Diagram, Mark, diagram, write
from linsolve.systems.two_layer.phase_classes import PHASES, Classification, Exponents, classify
from linsolve.systems.two_layer.phase_measures import (
    Diagnosis,
    Slopes,
    diagnose,
    measured_phase,
    medians,
    networks,
    slopes,
    wishart,
)
from linsolve.systems.two_layer.phase_table import Entry, table, table_text

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
