"""Colors of figures under color-vision deficiencies and in gray print."""

import itertools

import numpy as np
import pytest
from legibility import APART, DEFICIENCIES, GRAY, alike, distances, seen

from linsolve import plot
from linsolve.plot.style import INK, ladder


def test_the_simulation_keeps_grays_and_has_the_confusions_of_each_deficiency():
    for name, matrix in DEFICIENCIES.items():
        np.testing.assert_allclose(np.sum(matrix, axis=1), 1.0, atol=2e-6)  # white and grays stay
        assert np.linalg.norm(seen("#808080", name) - seen("#808080")) <= 0.1
    # pairs that are far apart for normal sight, and near with the deficiency
    confused = {
        "protanopia": ("#CC79A7", "#56B4E9"),
        "deuteranopia": ("#CC79A7", "#009E73"),
        "tritanopia": ("#0072B2", "#009E73"),
    }
    for name, (first, second) in confused.items():
        found = distances(first, second)
        assert found[name] < 0.5 * found[None]


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(INK, 2)))
def test_the_colors_of_lines_are_told_apart_by_every_sight_and_in_gray(first, second):
    found = distances(first, second)
    assert min(found[each] for each in (None, *DEFICIENCIES)) >= 19 > APART
    assert found["gray"] >= GRAY


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_a_ladder_rises_in_gray_and_its_neighbors_are_told_apart(count):
    colors = ladder(count)
    steps = np.diff([seen(color)[0] for color in colors])
    assert (steps >= GRAY).all()
    for first, second in itertools.combinations(colors, 2):
        assert min(distances(first, second)[each] for each in (None, *DEFICIENCIES)) >= 13


def test_routes_and_differences_are_told_apart():
    import linsolve as ls

    flow, t = ls.BalancedMode(s=2.0), np.linspace(0.0, 3.0, 31)
    exact = flow(t, 0.01)
    others = {f"step {step}": ls.descend(flow, t, 0.01, step=step) for step in (0.1, 0.05, 0.02)}
    with plot.figure(1, 2) as (_, axes):
        plot.routes({"exact": exact, **others}, ax=axes[0])
        plot.differences(exact, others, ax=axes[1])
        assert [alike(ax) for ax in axes] == [[], []]


def test_the_check_sees_lines_that_look_alike():
    with plot.figure() as (_, ax):
        ax.plot([0, 1], [0, 1], color="#D55E00", label="a")
        ax.plot([0, 1], [1, 0], color="#009E73", label="b")  # of equal lightness
        assert [each[2] for each in alike(ax)] == [["gray"]]
        ax.lines[1].set_linestyle("--")
        assert alike(ax) == []
