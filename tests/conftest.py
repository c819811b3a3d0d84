"""Environment of the tests, and a count of skips: with CI set, an unexpected skip fails the run."""

import collections
import os
import re

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")
# tests run one to a core already; a BLAS that also takes all cores for 10 x 10 matrices only slows them down
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture
def undrawn(monkeypatch):
    """Reports with empty files for pictures, in tests of everything but the pictures: drawing takes seconds."""
    from linsolve.studies.comparison import KINDS

    def save_figure(fig, folder, name):
        for kind in KINDS:
            (folder / f"{name}.{kind}").touch()

    for study in ("learn", "collapse"):
        monkeypatch.setattr(f"linsolve.studies.{study}.report.save_figure", save_figure)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave of a test marked ``quick(n)`` n cases, evenly spread, to the quick proof; the others are exhaustive."""
    cases = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("quick") and not item.get_closest_marker("exhaustive"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_one_test in cases.values():
        count, kept = len(of_one_test), of_one_test[0].get_closest_marker("quick").args[0]
        chosen = {round((k + 0.5) * count / kept - 0.5) for k in range(min(kept, count))}
        for k, item in enumerate(of_one_test):
            if k not in chosen:
                item.add_marker(pytest.mark.exhaustive)


# reasons of skips that no installation mends
EXPECTED = r"no (C\+\+ compiler|CUDA compiler|Node\.js|Chromium) on this computer"


def skips(reporter) -> collections.Counter:
    """Return the number of skips by reason."""
    reasons = (report.longrepr[2] for report in reporter.stats.get("skipped", []) if isinstance(report.longrepr, tuple))
    return collections.Counter(reason.removeprefix("Skipped: ") for reason in reasons)


def unexpected(found) -> list[str]:
    """Return the reasons that match neither EXPECTED nor the pattern in the variable EXPECTED_SKIPS."""
    expected = "|".join(filter(None, (EXPECTED, os.environ.get("EXPECTED_SKIPS"))))
    return [reason for reason in found if not re.search(expected, reason)]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and "CI" in os.environ and exitstatus == 0 and unexpected(skips(reporter)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    found = skips(terminalreporter)
    strange = set(unexpected(found))
    terminalreporter.write_line(f"skips: {found.total()}, of which unexpected: {sum(found[r] for r in strange)}")
    for reason, count in found.items():
        terminalreporter.write_line(f"  {count} x {reason}{' (unexpected)' if reason in strange else ''}")
