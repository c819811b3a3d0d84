"""Diagrams of generalization in time: maps against the law, boundaries against the maps."""

import dataclasses

import numpy as np
import pytest

import linsolve as ls
from linsolve import phases
from linsolve.studies.phases.generalization import NOISE, QUANTILE, errors_on_grid


@pytest.fixture(scope="module")
def diagrams():
    return {name: phases.diagram(name, 61) for name in ("double-descent", "grokking")}


@pytest.mark.parametrize("name", ["double-descent", "grokking"])
def test_changes_of_the_map_are_on_the_curves(diagrams, name):
    drawn = diagrams[name]
    assert max(drawn.misfit().values()) <= 1
    first = next(iter(drawn.sides))
    moved = [c._replace(y=1.6 * c.y, x=1.15 * c.x) if c.boundary == first else c for c in drawn.curves]
    assert dataclasses.replace(drawn, curves=moved).misfit()[first] > 1.5


def test_the_map_of_double_descent_is_the_law(diagrams):
    found = diagrams["double-descent"]
    for row, column in np.random.default_rng(0).integers(0, 61, (40, 2)):
        law = ls.laws.GeneralizationInTime(1.0, found.x.values[column], noise_variance=NOISE)
        assert 10 ** found.values[row, column] == pytest.approx(float(law.test_error(found.y.values[row])), rel=1e-6)


def test_a_map_of_other_noise_and_times():
    law = ls.laws.GeneralizationInTime(1.0, np.geomspace(0.2, 5, 31), 0.5, 0.5, 2.0)
    t = np.geomspace(1e-3, 1e3, 41)
    assert errors_on_grid(law, t) == pytest.approx(law.test_error(t), rel=1e-6)


def test_learned_is_95_percent_accurate(diagrams):
    found = diagrams["grokking"]
    assert f"{QUANTILE:.2f}" == f"{1.96**2:.2f}" == "3.84"
    assert found.source.count(r"\epsilon/(3.84\,D_0)") == 2
    for row, column in ((5, 40), (50, 30)):
        tolerance = found.y.values[row]
        law = ls.laws.GeneralizationInTime(1.0, found.x.values[column])
        train, test = (bisected(f, tolerance / QUANTILE) for f in (law.train_error, law.test_error))
        assert np.log10(test / train) == pytest.approx(found.values[row, column], abs=2e-3)
        assert float(law.accuracy(test, tolerance)) == pytest.approx(0.95, abs=1e-6)
        assert float(law.train_accuracy(train, tolerance)) == pytest.approx(0.95, abs=1e-6)


def bisected(error, level):
    low, high = -5.0, 15.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if float(error(np.exp(middle))) > level else (low, middle)
    return np.exp(low)
