"""The count of skips: with CI set, an unexpected skip fails the run."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

SKIPPED = """
import pytest

@pytest.mark.skip(reason="no C++ compiler on this computer")
def test_of_a_compiler():
    pass

@pytest.mark.skip(reason="no CUDA compiler on this computer")
def test_of_a_kernel():
    pass

def test_of_an_extra():
    pytest.importorskip("no_such_module")
"""


def test_an_unexpected_skip_fails_in_ci(tmp_path):
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path)
    (tmp_path / "test_skipped.py").write_text(SKIPPED)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    kept = {name: value for name, value in os.environ.items() if name != "EXPECTED_SKIPS"} | {"CI": "1"}
    plain = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(plain, env=kept, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 1
    assert "skips: 3, of which unexpected: 1" in run.stdout


def test_a_run_names_further_expected_skips(monkeypatch):
    spec = importlib.util.spec_from_file_location("skips", Path(__file__).parents[1] / "conftest.py")
    skips = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(skips)
    reasons = ["no CUDA compiler on this computer", "could not import 'xarray'"]
    monkeypatch.delenv("EXPECTED_SKIPS", raising=False)
    assert skips.unexpected(reasons) == reasons[1:]
    monkeypatch.setenv("EXPECTED_SKIPS", "could not import")
    assert skips.unexpected(reasons) == []
