"""The share of wrong formulas that `verify` alone rejects: one for each statement of each flow, and for each law."""

import numpy as np
import pytest
from mutants.statements import CHANGES, FLOWS, LAWS, STATEMENTS
from selection import quick

import linsolve as ls
from linsolve.core.verify import CHECKS

# wrong formulas that verify accepts, and why each may stand
SURVIVORS: dict[str, str] = {}

# slower than half a second
SLOW_FLOWS = ("BiasedMode", "DeepMode", "NeuralCollapse", "FrozenHead")
SLOW_STATEMENTS = ("solution", "along", "time_to", "velocity", "descent", "invariants", "step")
QUICK_LAWS = (
    *("LazyRegime", "FeatureRegime", "InitialOverlaps", "EarlyKernelDirection", "EarlyAnisotropic"),
    *("WidthCorrection", "DeepLearningTime", "NTKDispersionLimit", "LearningTime"),
)


def _flow(name):
    wrong = FLOWS[name]
    flow, z0 = wrong.cls.__base__.example(np.random.default_rng(wrong.seed))
    return wrong.cls(**flow.parameters()), z0


def _slow_flow(name):
    statement = name.split(".")[1].split()[0]
    return name.startswith(SLOW_FLOWS) and statement in SLOW_STATEMENTS


@pytest.mark.parametrize("name", quick(FLOWS, lambda name: not _slow_flow(name)))
@pytest.mark.quick(45)
def test_each_wrong_statement_of_a_flow_is_rejected_by_its_check(name):
    flow, z0 = _flow(name)
    report = ls.verify(flow, z0, checks=FLOWS[name].seen_by)
    assert (FLOWS[name].seen_by in report.failed) == (name not in SURVIVORS), str(report)


@pytest.mark.parametrize("name", quick(LAWS, lambda name: name.startswith(QUICK_LAWS) and name != "LearningTime"))
@pytest.mark.quick(4)
def test_each_wrong_law_is_rejected_by_its_check(name):
    report = ls.verify(LAWS[name].cls.example(np.random.default_rng(LAWS[name].seed)))
    assert any(each.startswith(LAWS[name].seen_by) for each in report.failed) == (name not in SURVIVORS), str(report)


def test_at_least_95_percent_of_at_least_49_are_rejected():
    count = len(FLOWS) + len(LAWS)
    assert count >= 49
    assert set(SURVIVORS) <= set(FLOWS) | set(LAWS)
    assert len(SURVIVORS) <= 0.05 * count


@pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda c: c.__name__)
def test_every_statement_of_every_flow_has_its_wrong_formula_and_its_check(cls):
    own = {name for name in vars(ls.Flow) if not name.startswith("_") and callable(getattr(ls.Flow, name))}
    stated = {name for name in own if getattr(cls, name) is not getattr(ls.Flow, name)}
    read_otherwise = {
        "definition",
        "counterexamples",
        "example",
        "symbols",
        "state",
        "observables",
        "cast",
        "shared",
    } | {"begun"}
    assert stated <= {*STATEMENTS, *read_otherwise}
    assert {CHANGES[name][1] for name in STATEMENTS} <= set(CHECKS)
    flow, z0 = cls.example(np.random.default_rng(0))
    checks = list(ls.verify(flow, z0, checks="observables"))
    assert all(check.ok for check in checks)  # a declared observable without a definition fails
    assert checks or not cls.declared or cls is ls.BalancedMap  # whose depth is real: it has no raw network


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FLOWS)
def test_the_whole_proof_rejects_each_wrong_flow(name):
    flow, z0 = _flow(name)
    report = ls.verify(flow, z0, checks=[check for check in CHECKS if check != "symbols"])
    assert FLOWS[name].seen_by in report.failed or name in SURVIVORS
