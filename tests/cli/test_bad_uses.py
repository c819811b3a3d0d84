"""Bad uses of the command, generated over all subcommands and options: one line, exit 2, no output, no file."""

import argparse
import re

import numpy as np
import pytest

from linsolve.__main__ import _parser, main

# a good use of each subcommand, to which one error is added
GOOD = {
    "list": [],
    "completion": ["bash"],
    "verify": ["BalancedMode"],
    "learn": ["tree"],
    "applies": ["w.npz", "tree"],
    "solve": ["w.npz", "tree", "--t", "0,1"],
    "compare": ["run.npz", "--flow", "BalancedMode"],
    "phase": ["chaos"],
    "card": ["BalancedMode"],
    "published": [],
    "errata": [],
    "sweep": ["good.toml"],
    "ntk-stats": [],
    "collapse": [],
    "figure": ["2"],
    "explore": ["stages"],
}
SPEC = """flow = "BalancedMode"
observe = ["loss"]
time = [0.0, 1.0]
out = "s.npz"
start = {a = 0.1}
axes = {s = [1.0]}
"""
NO_NUMBER = ["x", "", "1,2", "0x1", "1 2", "--"]
OF_NUMBERS = ("--rates", "--kappas", "--weight-variance")


def subparsers():
    (found,) = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    return found.choices


def bad_uses():
    """Yield command lines with one error each."""
    for command, parser in subparsers().items():
        good = [command, *GOOD[command]]
        yield [command[:-1], *GOOD[command]]
        yield [command.upper(), *GOOD[command]]
        yield [*good, "--nothing"]
        yield [*good, "-x"]
        yield [*good, "--", "a", "b", "c"] if command != "verify" else [*good, "a"]
        if GOOD[command] and command not in ("verify", "solve"):
            yield [command, *(["nowhere"] * len(GOOD[command]))]
            yield [*good, "superfluous"]
        for action in parser._actions:
            if not action.option_strings or isinstance(action, argparse._HelpAction):
                continue
            option = action.option_strings[-1]
            yield [*good, f"{option}q"]
            if action.nargs == 0:
                yield [*good, f"{option}=1"]
                continue
            yield [*good, option]
            if action.type in (int, float):
                yield from ([*good, f"{option}={value}"] for value in NO_NUMBER)
                yield from ([*good, f"{option}={value}"] for value in ("nan", "inf", "-inf", "1e400"))
                if action.type is int:
                    yield from ([*good, f"{option}={value}"] for value in ("1.5", "1e3", "-1"))
            if option in OF_NUMBERS:
                yield from ([*good, f"{option}={value}"] for value in (*NO_NUMBER[:2], "nan,nan", "1,,2", "1;2", "inf"))
            if option == "--out":
                yield from ([*good, f"--out={path}"] for path in ("mine", "mine/below", "w.npz/x/y", "/proc/x/y.npz"))
        for group in parser._mutually_exclusive_groups:
            yield [*good, *(a.option_strings[-1] for a in group._group_actions)]


EXTRA = """
phase --list chaos
phase --cells 11
phase --out x
phase table --out x
phase table --cells 11
phase table --seed 1
figure --out x.png
figure --seed 1
figure 2 --out x.txt
explore --out x.html
explore stages --out x.txt
sweep --example good.toml
sweep --example --out s.npz
sweep
sweep good.toml --engine fast
sweep good.toml --out s.txt
collapse --list --seed 1
collapse --list --out x
collapse --start lamda
collapse --weights nowhere.npz
published --source nobody
published --verdict wrong
errata --source nobody
card
card TwoLayr
card DeepMode --code
verify TwoLayr
verify BalancedMode --seeds 0
verify BalancedMode --seeds 100000000000000000000
verify BalancedMode --dps 100000000000000000000
phase chaos --cells 100000000000000000000
learn tree --width 100000000000000000000
learn tree --depth 100000000000000000000
ntk-stats --width 1000000001
ntk-stats --inputs 1000000001
ntk-stats --depth 100001
ntk-stats --networks 10000001
collapse --classes 100000000000000000000
collapse --features 100000000000000000000
verify BalancedMode --dps 3
learn
learn tree --classes 1
learn tree --target a
learn nowhere.csv
learn tree --width 0
learn tree --scale 0
learn tree --rate 0
learn tree --out mine
applies
applies w.npz
applies nowhere.npz tree
applies text.npz tree
applies w.npz tree --rates 1,2,3
applies w.npz tree --until 0
applies w.npz tree --tolerance 0
applies w.npz tree --tolerance 2
applies mine tree
solve w.npz tree
solve nowhere.npz tree --t 0,1
solve w.npz nowhere.npz --t 0,1
solve w.npz tree --t 1:0:5
compare run.npz --flow BalancedMode --data tree
compare run.npz --flow BalancedMode --steps 0
compare run.npz --flow BalancedMode --set s=3
compare text.npz --flow BalancedMode
compare w.npz --data tree
ntk-stats --width 0
ntk-stats --depth 0
ntk-stats --networks 0
ntk-stats --activation tanh
ntk-stats --inputs 0
tabel
"""
USES = [*bad_uses(), [], *(line.split() for line in EXTRA.strip().splitlines())]


def test_there_are_500_of_them():
    assert len({tuple(use) for use in USES}) >= 500
    assert {use[0] for use in USES if use} >= set(GOOD)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    np.savez(folder / "w.npz", W1=np.ones((3, 8)), W2=np.ones((14, 3)))
    np.savez(folder / "run.npz", t=[0.0, 1.0], a=[0.5, 0.5], s=0.5)
    (folder / "mine").write_text("mine")
    (folder / "text.npz").write_text("W1 = 1")
    (folder / "good.toml").write_text(SPEC)
    return folder


def content(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("command", [*GOOD, ""])
@pytest.mark.quick(6)
def test_a_bad_use_is_one_line_and_leaves_nothing(here, monkeypatch, capsys, command):
    monkeypatch.chdir(here)
    before = content(here)
    wrong = []
    uses = [use for use in USES if (use[0] if use and use[0] in GOOD else "") == command]
    assert uses
    for use in uses:
        status = main(use)
        out, err = capsys.readouterr()
        if (status, out, err.count("\n"), err.startswith("linsolve: ")) != (2, "", 1, True):
            wrong.append((use, status, out[:80], err[:300]))
    assert wrong == []
    assert content(here) == before


@pytest.mark.parametrize(
    ("line", "neighbor"),
    [
        ("phase tabel", "did you mean 'table'?"),
        ("phase kaos", "did you mean 'chaos'?"),
        ("lern digits", "command = 'lern' is unknown; did you mean learn?"),
        ("aplies w.npz tree", "did you mean applies?"),
        ("card TwoLayr", "did you mean 'TwoLayer'?"),
        ("verify DeepMod", "did you mean 'DeepMode'?"),
        ("learn tree --wdith 3", "unrecognized arguments: --wdith 3; did you mean --width?"),
        ("published --source atanasov_2021", "did you mean 'atanasov_2022'?"),
        ("published --verdict correctd", "did you mean 'corrected'?"),
        ("collapse --start alinged", "did you mean 'aligned'?"),
        ("learn digit", "did you mean 'digits'?"),
    ],
)
def test_a_misspelt_name_offers_its_neighbor(here, monkeypatch, capsys, line, neighbor):
    monkeypatch.chdir(here)
    assert main(line.split()) == 2
    assert neighbor in capsys.readouterr().err


@pytest.mark.parametrize("command", GOOD)
def test_every_subcommand_has_a_description_and_an_example(capsys, command):
    assert main([command, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    parser = subparsers()[command]
    assert parser.description.endswith(".")
    assert " ".join(parser.description.split()) in shown
    assert "Example: linsolve " in shown
    for action in parser._actions:
        assert action.help, action.dest


def stated():
    """Return, by command and option, the default number in the help text and that of the parser."""
    return {
        (command, action.option_strings[-1]): (found[1], action.default)
        for command, parser in subparsers().items()
        for action in parser._actions
        if (found := re.search(r"\[([-\d.e]+)\]", action.help or "")) and action.default is not None
    }


@pytest.mark.parametrize(("command", "option"), stated())
def test_help_states_the_default_number(command, option):
    text, default = stated()[command, option]
    assert float(text) == default


def test_swapped_files_are_recognized(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "weights.npz", W1=np.ones((1, 2)), W2=np.ones((1, 1)))
    np.savez(tmp_path / "data.npz", X=np.eye(2), Y=np.ones(2))
    weights, data = (str(tmp_path / f"{name}.npz") for name in ("weights", "data"))
    assert main(["solve", weights, data, "--t", "1"]) == 0
    capsys.readouterr()
    for command in (["applies"], ["solve", "--t", "1"]):
        assert main([command[0], data, weights, *command[1:]]) == 2
        assert "the weights come first, then the data: swap the two files" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["published", "errata"])
def test_help_has_an_example_of_its_own_command(capsys, command):
    assert main([command, "--help"]) == 0
    assert f"Example: linsolve {command} --source" in capsys.readouterr().out
