"""Every published formula on record, evaluated: the form that holds has a small error, a corrected one has not."""

import dataclasses
import json

import pytest

import linsolve as ls
from linsolve import published
from linsolve.__main__ import main
from linsolve.core.published_formula import REJECTED
from linsolve.papers.published import Evidence, Order
from linsolve.papers.references import REFERENCES

FORMULAS = published.find()


@pytest.mark.parametrize("formula", FORMULAS, ids=[each.name for each in FORMULAS])
def test_the_formula_holds_and_what_is_printed_does_not(formula):
    errors = formula.errors()
    assert errors.stated <= formula.tolerance
    assert (errors.printed is not None) == bool(formula.printed)
    if formula.printed:
        assert errors.printed >= REJECTED * formula.tolerance
    assert formula.holds(errors)


def test_there_are_enough_of_them():
    assert {each.source for each in FORMULAS} == set(published.SOURCES)
    assert len(FORMULAS) >= 60
    assert sum(each.verdict == published.CORRECTED for each in FORMULAS) >= 25
    assert len({each.name for each in FORMULAS}) == len(FORMULAS)


@pytest.mark.parametrize("formula", FORMULAS, ids=[each.name for each in FORMULAS])
def test_the_record_is_complete(formula):
    assert formula.source in REFERENCES
    assert formula.number
    assert formula.states
    assert formula.latex
    assert formula.evidence.endswith(".")
    assert formula.latex != formula.printed
    assert set(formula.about) <= {*ls.flows.WHERE, *ls.laws.WHERE}
    for text in (formula.latex, formula.printed):
        assert text.count("{") == text.count("}")
        assert text.count(r"\left") == text.count(r"\right")
    assert formula.condition or formula.verdict not in ("exact under a condition", "leading order")


@pytest.mark.parametrize("formula", [each for each in FORMULAS if each.printed], ids=lambda each: each.name)
def test_the_printed_form_in_place_of_the_correction_is_rejected(formula):
    found = formula.check()
    swapped = found._replace(stated=found.printed)
    assert not dataclasses.replace(formula, check=lambda: swapped).holds(swapped.errors())


def test_errors_are_relative_to_the_truth_and_nothing_passes_for_nan():
    assert Evidence([1.0, -4.0], [1.0, -3.0]).errors().stated == 0.25
    assert Evidence([0.0, 0.0], [0.0, 0.5], [2.0, 0.0]).errors() == (0.5, 2.0)
    lost = Evidence(1.0, float("nan"))
    assert not FORMULAS[0].holds(lost.errors())
    assert Order((1e-2, 1e-3), (3e-4, 3e-6), 2, 1).errors() == pytest.approx((0, 1))


def test_formulas_are_chosen_by_verdict_and_source():
    wrong = published.find(verdict="corrected")
    assert set(wrong) < set(FORMULAS)
    assert all(each.printed for each in wrong)
    assert {each.source for each in published.find("geiger_2020")} == {"geiger_2020"}
    with pytest.raises(ValueError, match="did you mean 'atanasov_2022'"):
        published.find("atanasov_2023")
    with pytest.raises(ValueError, match="published: verdict = 'correct' is unknown; did you mean 'corrected'"):
        published.find(verdict="correct")
    assert {each for verdict in published.VERDICTS for each in published.find(verdict=verdict)} == set(FORMULAS)
    assert "below (4)" in [each.number for each in published.about("TwoLayer")]


def test_the_command_prints_them(capsys):
    assert main(["published"]) == 0
    out = capsys.readouterr().out
    assert all(each.name in out and (each.latex in out or not each.printed) for each in FORMULAS)
    assert out.rstrip().splitlines()[-1].startswith(f"{len(FORMULAS)} formulas of 5 papers: ")


def test_the_command_evaluates_them(capsys):
    assert main(["published", "--source", "geiger_2020", "--check", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(published.find("geiger_2020"))
    assert all(row["holds"] and row["error"] <= row["tolerance"] for row in rows)
    assert main(["errata", "--source", "xu_ziyin_2024", "--check"]) == 0
    assert "FAILS" not in (out := capsys.readouterr().out)
    assert "as published" in out


def test_the_command_says_when_one_fails(capsys, monkeypatch):
    from linsolve.systems.kernel_regime import published as file

    first = dataclasses.replace(file.FORMULAS[0], check=lambda: Evidence(1.0, 2.0))
    monkeypatch.setattr(file, "FORMULAS", (first,))
    assert main(["published", "--source", "ortiz_jimenez_2021", "--check"]) == 1
    assert "FAILS" in capsys.readouterr().out


def test_the_command_writes_a_table_in_markdown(capsys):
    assert main(["errata", "--markdown"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(published.find(verdict="corrected"))
    assert {row.count("|") for row in rows} == {8}


def test_the_command_refuses_an_unknown_paper(capsys):
    assert main(["published", "--source", "nobody"]) == 2
    assert "published: source = 'nobody' is unknown" in capsys.readouterr().err
    assert main(["published", "--verdict", "wrong"]) == 2
    assert "published: verdict = 'wrong' is unknown; one of corrected" in capsys.readouterr().err


def test_errata_is_an_alias_for_the_corrected_formulas(capsys):
    assert main(["published", "--verdict", "corrected", "--json"]) == 0
    corrected = json.loads(capsys.readouterr().out)
    assert main(["errata", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == corrected
    assert {row["verdict"] for row in corrected} == {"corrected"}
