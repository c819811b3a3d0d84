"""Every published formula on record, evaluated: the form that holds has a small error, a corrected print has not."""

import dataclasses
import json
import re

import pytest

import linsolve as ls
from linsolve import published
from linsolve.__main__ import main
from linsolve.core.published_formula import REJECTED
from linsolve.papers.published import Evidence, Order
from linsolve.papers.references import REFERENCES

FORMULAS = published.find()
NAMES = [each.name for each in FORMULAS]


@pytest.mark.parametrize("formula", FORMULAS, ids=NAMES)
def test_the_formula_holds_and_a_corrected_print_does_not(formula):
    found = formula.check()
    errors = found.errors()
    assert errors.stated <= formula.tolerance
    assert formula.holds(errors)
    if formula.corrected:
        assert errors.printed >= REJECTED * formula.tolerance
    if errors.printed is not None:
        swapped = found._replace(stated=found.printed)
        assert not dataclasses.replace(formula, check=lambda: swapped).holds(swapped.errors())


@pytest.mark.parametrize("formula", FORMULAS, ids=NAMES)
def test_the_record_is_complete(formula):
    assert REFERENCES[formula.source].edition
    assert formula.states
    assert formula.evidence.endswith(".")
    assert set(formula.about) <= {*ls.flows.WHERE, *ls.laws.WHERE}
    assert formula.latex.count("{") == formula.latex.count("}")
    assert formula.quote.count("$") % 2 == 0
    for text in (formula.quote, formula.latex):
        assert len(re.findall(r"\\left(?!arrow)", text)) == len(re.findall(r"\\right(?!arrow)", text))
    if formula.follows:
        root = next(each for each in FORMULAS if each.name == f"{formula.source}-{formula.follows}")
        assert not root.follows


def test_all_sources_and_verdicts_are_there():
    assert {each.source for each in FORMULAS} == set(published.SOURCES)
    assert {each.verdict for each in FORMULAS} == set(published.VERDICTS)
    assert len(FORMULAS) >= 160
    assert len(set(NAMES)) == len(FORMULAS)


def test_an_incorrect_formula_says_what_remains():
    """The verdict needs a measured or exact counterexample; a mere sign is typographical."""
    wrong = [each for each in published.find(verdict="incorrect") if not each.follows]
    assert {each.check.__name__ for each in wrong} == {
        "inverse_of_the_root",
        "correlation_of_lengths",
        "decay_of_the_first_step",
        "bias_of_the_dispersion",
        "unequal_rates_and_the_alignment",
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"verdict": "wrong"}, "Formula: verdict = 'wrong' is unknown"),
        (
            {"verdict": "convention", "reason": ""},
            "Formula: reason = '' must not be empty for the verdict 'convention'",
        ),
        ({"quote": ""}, "Formula: quote = '' must not be empty"),
        ({"setting": ""}, "Formula: setting = '' must not be empty"),
    ],
)
def test_an_incomplete_record_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(FORMULAS[0], **change)


def test_errors_are_relative_to_the_truth_and_nothing_passes_for_nan():
    assert Evidence([1.0, -4.0], [1.0, -3.0]).errors().stated == 0.25
    assert Evidence([0.0, 0.0], [0.0, 0.5], [2.0, 0.0]).errors() == (0.5, 2.0)
    lost = Evidence(1.0, float("nan"))
    assert not any(each.holds(lost.errors()) for each in FORMULAS)
    assert Order((1e-2, 1e-3), (3e-4, 3e-6), 2, 1).errors() == pytest.approx((0, 1))


def test_a_corrected_formula_needs_a_printed_form():
    wrong = published.find(verdict="incorrect")[0]
    assert not wrong.holds(Evidence(1.0, 1.0).errors())
    assert wrong.holds(Evidence(1.0, 1.0, 5.0).errors())


def test_formulas_are_chosen_by_verdict_and_source():
    wrong = published.find(verdict="corrected")
    assert set(wrong) == {*published.find(verdict="typographical"), *published.find(verdict="incorrect")}
    assert {each.source for each in published.find("geiger_2020")} == {"geiger_2020"}
    with pytest.raises(ValueError, match="did you mean 'atanasov_2022'"):
        published.find("atanasov_2023")
    with pytest.raises(ValueError, match="published: verdict = 'correctd' is unknown; did you mean 'corrected'"):
        published.find(verdict="correctd")
    assert {each for verdict in published.VERDICTS for each in published.find(verdict=verdict)} == set(FORMULAS)
    assert "below (4)" in [each.number for each in published.about("TwoLayer")]


def test_formulas_stand_in_the_order_of_the_paper():
    found = [each.section for each in published.find("seleznova_2024")]
    assert list(dict.fromkeys(found)) == [
        "1.3.1", "2.3.2", "2.4.1", "2.4.2", "3.1/1", "3.1/2", "3.1/5", "3.1/E.1", "3.1/E.2", "3.2/3.1", "3.2/3.2",
        "3.2/A.1", "3.2/A.2", "3.2/A.3", "3.2/C.3", "3.3/2.1", "3.3/4.1", "3.3/4.2", "3.3/5.1", "3.3/5.2", "3.3/5.3",
        "3.3/B.2", "3.3/B.3", "3.3/B.4", "3.3/D.1", "3.3/D.2",
    ]  # fmt: skip
    assert FORMULAS[0].place.startswith("section")


def test_the_command_prints_them(capsys):
    assert main(["published"]) == 0
    out = capsys.readouterr().out
    assert all(each.name in out and each.latex in out and each.quote in out for each in FORMULAS)
    assert out.rstrip().splitlines()[-1].startswith(f"{len(FORMULAS)} formulas of 5 papers; ")


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
    assert main(["published", "--markdown"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(FORMULAS)
    assert {row.count("|") for row in rows} == {8}


def test_the_command_refuses_an_unknown_paper(capsys):
    assert main(["published", "--source", "nobody"]) == 2
    assert "published: source = 'nobody' is unknown" in capsys.readouterr().err
    assert main(["published", "--verdict", "wrong"]) == 2
    assert "published: verdict = 'wrong' is unknown; one of convention" in capsys.readouterr().err


def test_errata_is_an_alias_for_the_corrected_formulas(capsys):
    assert main(["published", "--verdict", "corrected", "--json"]) == 0
    corrected = json.loads(capsys.readouterr().out)
    assert main(["errata", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == corrected
    assert {row["verdict"] for row in corrected} == {"typographical", "incorrect"}
