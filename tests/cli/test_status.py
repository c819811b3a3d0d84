"""Exit status and output of commands that take seconds."""

import pytest

from linsolve.__main__ import main


def test_forms_of_a_card(capsys):
    for form, begins in (("--markdown", "#"), ("--html", "<"), (None, "BalancedMode")):
        assert main(["card", "BalancedMode", *([form] if form else [])]) == 0
        assert capsys.readouterr().out.lstrip().startswith(begins), form


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_statistics_of_kernels_end_with_status_0(tmp_path, monkeypatch, capsys, form):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("linsolve.studies.ntk_stats.report.write", lambda found, folder: ["ntk-stats/a.png"])
    assert main(["ntk-stats", "--width", "8", "--networks", "1000", "--depth", "3", *form]) == 0
    assert "a.png" in capsys.readouterr().out


def test_kinds_of_starts_are_listed(capsys):
    assert main(["collapse", "--list"]) == 0
    assert capsys.readouterr().out.startswith("balanced ")
