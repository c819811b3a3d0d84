"""Every command with a result prints it as JSON, alone on standard output."""

import json

import numpy as np
import pytest
from selection import quick

from linsolve.__main__ import _parser, main
from linsolve.cli import COMMANDS

SPEC = """flow = "BalancedMode"
observe = ["loss"]
time = [0.0, inf]
out = "s.npz"
start = {a = 0.1}
axes = {s = [1.0, 2.0]}
"""
USES = {
    "list": ("--json", lambda found: {"TwoLayer"} <= {row["name"] for row in found}),
    "verify": ("BalancedMode --dps 20 --json", lambda found: found["ok"]),
    "learn": ("tree --json", lambda found: found["The network"]["depth"] == "2" and len(found["files"]) > 10),
    "applies": ("w.npz tree --json", lambda found: found["exact"][0] == "WhitenedTwoLayer"),
    "solve": ("w.npz tree --t 0,1 --json", lambda found: found["exact"] is True and len(found["loss"]) == 2),
    "compare": (
        "run.npz --flow BalancedMode --json",
        lambda found: found["ok"] and found["runs"][0]["errors"]["a"] == 0,
    ),
    "phase": ("chaos --cells 11 --json", lambda found: found["name"] == "chaos" and len(found["files"]) == 3),
    "published": ("--source atanasov_2022 --json", lambda found: isinstance(found, list)),
    "errata": ("--json", lambda found: {row["verdict"] for row in found} == {"typographical", "incorrect"}),
    "sweep": ("s.toml --json", lambda found: found["values"]["loss"]["shape"][0] == 2),
    "ntk-stats": ("--width 8 --depth 4 --networks 1000 --json", lambda found: found["width"] == 8),
    "collapse": ("--list --json", lambda found: "aligned" in found),
    "figure": ("--json", lambda found: "2" in found),
    "explore": ("--json", lambda found: found["stages"] == "Learning in stages"),
}
MORE = {
    "explore depth --out d.html --json": lambda found: found == {"name": "depth", "file": "d.html"},
    "phase --list --json": lambda found: "table" in found,
    "phase table --json": lambda found: {"start", "phase", "published", "c_gamma"} <= set(found[0]),
    "collapse --start balanced --json": lambda found: found["theory"] == "closed form" and found["files"],
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("json")
    gen = np.random.default_rng(0)
    frame = np.linalg.qr(gen.normal(size=(8, 8)))[0]
    np.savez(folder / "w.npz", W1=0.3 * frame[:3], W2=0.3 * np.linalg.qr(gen.normal(size=(14, 3)))[0])
    np.savez(folder / "run.npz", t=[0.0, 1.0], a=[0.5, 0.5], s=0.5)
    (folder / "s.toml").write_text(SPEC)
    return folder


def test_every_command_with_a_result_is_here():
    (commands,) = (a.choices for a in _parser()._actions if hasattr(a, "choices") and isinstance(a.choices, dict))
    with_json = {name for name, parser in commands.items() if "--json" in parser.format_help()}
    assert with_json == set(USES) == set(COMMANDS) - {"card", "completion"}  # whose results are text


LINES = [*(f"{name} {use}" for name, (use, _) in USES.items()), *MORE]
LONG = ("learn", "ntk-stats", "collapse --start")  # whose output other tests read


@pytest.mark.parametrize("line", quick(LINES, lambda line: not line.startswith(LONG)))
def test_the_result_is_json_alone(here, monkeypatch, capsys, line):
    monkeypatch.chdir(here)
    right = MORE[line] if line in MORE else USES[line.split()[0]][1]
    assert main(line.split()) == 0
    assert right(json.loads(capsys.readouterr().out))
