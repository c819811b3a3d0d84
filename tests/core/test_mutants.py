"""The verifier verified: every known-wrong formula is rejected, and every check is needed for at least one of them."""

import pytest
from mutants import BALANCED, Mutant
from mutants.descent import NewResidualInDown
from mutants.two_layer import BOUNDED, RATES, TWO_LAYER, AsItShouldBe, start
from selection import quick

import linsolve as ls
from linsolve.core.verify import CHECKS


class WrongDescent(NewResidualInDown, ls.TwoLayer):
    """A network whose gradient descent is wrong and whose gradient flow is right."""


DESCENT = {"residual after the step": Mutant(WrongDescent(**RATES), start(), "discrete")}
ALL = BALANCED | TWO_LAYER | BOUNDED | DESCENT


@pytest.fixture(scope="module")
def failed():
    found = {}

    def of(name):
        if name not in found:
            mutant = ALL[name]
            # a proof in symbols of a two-layer network takes 10 seconds and is the same for all its mutants but one
            checks = CHECKS if name in BALANCED else [check for check in CHECKS if check != "symbols"]
            found[name] = ls.verify(mutant.flow, mutant.z0, checks=checks).failed
        return found[name]

    return of


@pytest.mark.parametrize("name", ALL)
def test_each_mutant_is_rejected_by_the_check_that_should_see_it(name):
    mutant = ALL[name]
    assert ls.verify(mutant.flow, mutant.z0, checks=[mutant.seen_by]).failed == [mutant.seen_by]


@pytest.mark.parametrize("check", quick(CHECKS, lambda check: check in ("velocity", "residual", "limit")))
def test_without_this_check_a_mutant_would_pass(check, failed):
    candidates = [name for name, mutant in ALL.items() if mutant.seen_by == check]
    assert any(failed(name) == [check] for name in candidates)


@pytest.mark.exhaustive
def test_symbols_do_not_see_what_the_data_do_not():
    mutant = TWO_LAYER["w across the data dropped"]
    assert ls.verify(mutant.flow, mutant.z0).failed == ["dop853"]


def test_the_corrected_theorem_passes_where_its_printed_forms_fail():
    report = ls.verify(AsItShouldBe(**RATES), start(), checks=[check for check in CHECKS if check != "symbols"])
    assert report.ok, str(report)
