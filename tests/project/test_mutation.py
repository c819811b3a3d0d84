"""The mutation score: a verdict rests on tests that pass without the mutant."""

from types import SimpleNamespace

import pytest

from benchmarks.mutation import __main__ as mutation
from benchmarks.mutation import equivalent
from benchmarks.mutation.sites import Mutant
from benchmarks.mutation.tests import Outcome

MUTANT = Mutant("linsolve/one.py", "module", "1 -> 2", "x = 2\n", range(1, 2), True)


@pytest.fixture
def judge(tmp_path, monkeypatch):
    """Return a judge of one module with three tests: `broken` fails always, `value` with the mutant."""
    module = tmp_path / "root" / "linsolve" / "one.py"
    module.parent.mkdir(parents=True)
    module.write_text("x = 1\n")
    (tmp_path / "root" / "notebooks" / "site").mkdir(parents=True)
    monkeypatch.setattr(mutation, "ROOT", tmp_path / "root")

    def run(tests, seconds, copied):
        failing = {"broken", "value"} if (copied / MUTANT.path).read_text() == MUTANT.text else {"broken"}
        failed = [test for test in tests if test in failing]
        return Outcome(not failed, failed[0] if failed else None)

    monkeypatch.setattr(mutation, "run", run)
    seconds = {"broken": 1.0, "value": 1.0, "other": 1.0}
    monkeypatch.setattr(mutation, "Covered", lambda *_: SimpleNamespace(seconds=seconds))
    return mutation.Judge(tmp_path / "copy", tmp_path / "work")


def test_a_test_that_fails_without_a_mutant_is_left_out_and_later_ones_decide(judge, monkeypatch, capsys):
    monkeypatch.setattr(judge, "stages", lambda mutant: [["broken", "other", "value"], []])
    assert judge.outcome(MUTANT) == Outcome(False, "value")
    assert "left out   broken fails without a mutant" in capsys.readouterr().out
    assert set(judge.covered.seconds) == {"other", "value"}
    monkeypatch.setattr(judge, "stages", lambda mutant: [["other"], []])
    assert judge.outcome(MUTANT) == Outcome(True)


def test_tests_that_killed_before_are_kept_if_they_pass_without_a_mutant(judge):
    judge.check(["broken", "value"])
    assert judge.sound == {"value"}


def test_the_copy_has_every_folder_of_the_repository(judge):
    assert (judge.copied / "notebooks" / "site").is_dir()


def test_an_equivalent_mutant_may_be_named_by_its_line(judge, monkeypatch):
    monkeypatch.setattr(equivalent, "EQUIVALENT", {("one.py:module: 1 -> 2", "x = 1"): "x is not used"})
    assert mutation.line_of(MUTANT) == "x = 1"
    assert equivalent.is_equivalent("one.py:module: 1 -> 2", "x = 1  # a comment")
    assert not equivalent.is_equivalent("one.py:module: 1 -> 2", "y = 1")
    assert not equivalent.is_equivalent("one.py:module: 2 -> 3", "x = 1")
