"""The README's examples run as written."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: next(line for line in b.splitlines()[3:] if line.strip())[:40])
def test_example_runs_and_prints_what_it_says(block, capsys):
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    out = capsys.readouterr().out
    plt.close("all")
    claims = re.findall(r"#\s*(True)\b", block)
    assert out.count("True") >= len(claims)
    assert "False" not in out
    assert "NOT PROVED" not in out


def test_there_are_exactly_two_setup_commands():
    section = README.read_text(encoding="utf-8").split("## Two commands\n")[1].split("\n## ")[0]
    commands = re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert len(commands) == 2
    assert "linsolve learn digits" in commands[0]
    assert "pytest" in commands[1]
