"""The count of skips: with CI set, an unexpected skip fails the run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SKIPPED = """
import pytest

@pytest.mark.skip(reason="no C++ compiler on this computer")
def test_of_a_compiler():
    pass

def test_of_an_extra():
    pytest.importorskip("no_such_module")
"""


@pytest.mark.parametrize(
    ("variables", "code"), [({}, 0), ({"CI": "1"}, 1), ({"CI": "1", "EXPECTED_SKIPS": "could not import"}, 0)]
)
def test_an_unexpected_skip_fails_only_in_ci(tmp_path, variables, code):
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "test_skipped.py").write_text(SKIPPED)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "EXPECTED_SKIPS")}
    plain = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", str(tmp_path)]
    run = subprocess.run(plain, env=kept | variables, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == code
    assert f"skips: 2, of which unexpected: {int('EXPECTED_SKIPS' not in variables)}" in run.stdout
