"""The README's examples run as written."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

README = Path(__file__).parents[2] / "README.md"
HINT = re.compile(r"(.)\.\[[a-z0-9_,]+\](.)")  # ".[extra]" with the characters around it
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: next(line for line in b.splitlines()[3:] if line.strip())[:40])
def test_example_runs_and_prints_what_it_says(block, capsys):
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    out = capsys.readouterr().out
    plt.close("all")
    claims = re.findall(r"#\s*(True)\b", block)
    assert out.count("True") >= len(claims)
    assert "False" not in out
    assert "FAILED" not in out


def test_the_lines_on_your_own_network_end_in_a_figure_that_names_the_integrated_route():
    (block,) = [each for each in BLOCKS if "ls.solve(" in each]
    assert len([line for line in block.splitlines() if line.strip()]) <= 8
    scope = {"__name__": "readme"}
    exec(compile(block, "README.md", "exec"), scope)
    ax, traj = scope["ax"], scope["traj"]
    assert len(scope["weights"]) == 3
    assert traj.flow is None
    assert ax.get_title() == traj.route
    assert traj.route.startswith("DOP853: DeepMode needs alignment")
    assert [len(line.get_ydata()) for line in ax.lines] == [200] * 3
    plt.close("all")


def test_there_are_exactly_two_setup_commands():
    section = README.read_text(encoding="utf-8").split("## Two commands\n")[1].split("\n## ")[0]
    commands = re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    assert len(commands) == 2
    assert "linsolve learn digits" in commands[0]
    assert "pytest" in commands[1]


def test_install_hints_are_in_double_quotes_which_every_shell_takes():
    root = README.parent
    paths = [
        *root.glob("*.md"),
        *root.glob("linsolve/**/*.py"),
        *root.glob("notebooks/site/*.md"),
        root / ".ci" / "run",
    ]
    hints = [(path.name, *hint) for path in paths for hint in HINT.findall(path.read_text(encoding="utf-8"))]
    assert len(hints) > 15
    assert [hint for hint in hints if hint[1:] != ('"', '"')] == []
