"""Every statement and figure of the papers has a call that runs, or a reason for having none."""

import contextlib
import io
import re

import numpy as np
import pytest

import linsolve as ls
from linsolve import published
from linsolve.__main__ import main
from linsolve.papers.statements import BACKGROUND, MISSING, NONLINEAR, STATEMENTS

ROWS = [(key, row) for key, rows in STATEMENTS.items() for row in rows]
CALLS = [pytest.param(row.call, id=f"{key} {row.place}") for key, row in ROWS if row.call]


def test_every_paper_is_there_and_every_empty_row_says_why():
    assert set(STATEMENTS) == set(published.SOURCES)
    assert len({(key, row.place, row.states) for key, row in ROWS}) == len(ROWS)
    for _, row in ROWS:
        assert row.place
        assert row.states
        assert (row.reason in (BACKGROUND, MISSING, NONLINEAR)) == (not row.call)


def equations(places, chapter=""):
    """Return the numbers in parentheses of places, ranges filled; of a thesis, those behind "3.1: " and so on."""
    found = set()
    for place in places:
        parts = [
            part.removeprefix(f"{chapter}: ")
            for part in place.split("; ")
            if not chapter or part.startswith(f"{chapter}: ")
        ]
        for low, high in re.findall(r"\((?:2\.)?(\d+)\)(?:-\((?:2\.)?(\d+)\))?", "; ".join(parts)):
            found |= set(range(int(low), int(high or low) + 1))
    return found


@pytest.mark.parametrize(
    ("key", "chapter", "last"),
    [
        ("xu_ziyin_2024", "", 38),
        ("atanasov_2022", "", 62),
        ("geiger_2020", "", 33),
        ("ortiz_jimenez_2021", "", 13),
        ("seleznova_2024", "2", 63),
        ("seleznova_2024", "3.1", 10),
        ("seleznova_2024", "3.2", 44),
        ("seleznova_2024", "3.3", 80),
    ],
)
def test_every_numbered_equation_has_a_row(key, chapter, last):
    assert equations([row.place for row in STATEMENTS[key]], chapter) == set(range(1, last + 1))


@pytest.mark.parametrize("call", [each for each in CALLS if not each.values[0].startswith("linsolve ")])
def test_the_call_gives_numbers(call):
    names = {"np": np, "ls": ls, "rng": np.random.default_rng(0), "t": 0.5}
    *before, last = call.split("; ")
    exec("\n".join([*before, f"found = {last}"]), names)
    assert names["found"] is not None
    if isinstance(names["found"], np.ndarray):
        assert np.all(np.isfinite(names["found"]))


@pytest.mark.exhaustive
@pytest.mark.parametrize("call", [each for each in CALLS if each.values[0].startswith("linsolve ")])
def test_the_command_writes_its_files(call, tmp_path):
    _, command, *rest = call.split()
    out = tmp_path / "figure.png" if command == "figure" else tmp_path / "found"
    with contextlib.redirect_stdout(io.StringIO()):
        assert main([command, *rest, "--out", str(out)]) == 0
    assert out.exists()
