"""`linsolve completion` prints the scripts of shtab for every command."""

import subprocess
import sys

import pytest

from linsolve.__main__ import main


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_command(shell, capsys, tmp_path):
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in ("applies", "solve", "ntk-stats", "--tolerance", "completion"))
    if shell == "bash":
        words = "COMP_WORDS=(linsolve sol); COMP_CWORD=1; _shtab_linsolve sol; echo ${COMPREPLY[@]}"
        asked = f"source {tmp_path / 'c'}; {words}"
        (tmp_path / "c").write_text(script.replace("complete -o", "true complete -o"))
        done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=False)
        assert "solve" in done.stdout.split(), done.stderr


def test_completion_without_its_library_says_so(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert (
        'linsolve: completion: shell completion needs the library shtab; pip install ".[completion]"'
        in capsys.readouterr().err
    )
    assert main(["completion", "fish"]) == 2
    assert "shell = 'fish' is unknown" in capsys.readouterr().err
