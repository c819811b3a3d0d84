# ruff: noqa: RUF001
"""Cards, citations and stand-alone code of every flow and law."""

import dataclasses
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import linsolve as ls
from linsolve.__main__ import main
from linsolve.core.verify.symbols import latex
from linsolve.papers.card_blocks import Formula, Paragraph, Table, blocks, sections
from linsolve.papers.cards import _conditions, _parameters
from linsolve.papers.plain_math import COMMANDS, plain_math
from linsolve.papers.references import REFERENCES, sources
from linsolve.papers.standalone import STANDALONE

SOLVED = [*ls.flows.ALL, *ls.laws.ALL]
NAMES = [cls.__name__ for cls in SOLVED]
FOR_ALL = ["Statement", "Parameters", "Exact for, not for", "Accuracy", "Sources", "Published formulas"]

# cards


@pytest.fixture(scope="module")
def cards():
    return {cls.__name__: ls.card(cls) for cls in SOLVED}


@pytest.mark.parametrize("name", NAMES)
def test_every_card_is_complete(cards, name):
    card = cards[name]
    expected = FOR_ALL + ["From the code", "State", "Conditions"] * (name in ls.flows.WHERE)
    assert set(expected) <= set(card.sections)
    for title, body in card.body:
        assert body, title
        for block in body:
            text = block.rows if isinstance(block, Table) else block[0]
            assert text, title
    assert any(isinstance(block, Paragraph) for block in dict(card.body)["Statement"])


@pytest.mark.parametrize("name", NAMES)
def test_every_card_is_written_three_ways(cards, name):
    card = cards[name]
    text, markdown, html = str(card), card._repr_markdown_(), card._repr_html_()
    assert text.startswith(name)
    assert markdown.startswith(f"## {name}")
    for title in card.sections:
        assert f"\n{title}\n" in text
        assert f"### {title}" in markdown
        assert f"<h3>{title}</h3>" in html
    for written in (text, markdown, html):
        assert ":math:" not in written
        assert ".. math" not in written
    assert markdown.count("$$") % 2 == 0
    assert len(ElementTree.fromstring(html).findall("h3")) == len(card.sections)
    for line in markdown.splitlines():
        if line.startswith("| "):
            assert len(re.findall(r"(?<!\\)\|", line)) in (3, 5, 6)


def test_a_card_has_what_the_class_and_its_docstring_say(cards):
    text = str(cards["TwoLayer"])
    for part in ("(γ u · W x - y)²", "ηᵤ", "scale of the model", "blow_up_time", "below (4)",
                 "ρ ≔ √(1/d₀ ∑", "Xu",
                 "tests/systems/two_layer/test_two_layer.py"):  # fmt: skip
        assert part in text
    assert "unbalanced modes" in str(cards["BalancedMode"])
    form = next(block.latex for block in dict(cards["BalancedMode"].body)["From the code"] if "a(t)" in block[0])
    assert form == f"a(t) = {latex(ls.BalancedMode)['a']}"
    assert "Order of the relative error" in " ".join(str(cards["LearningTime"]).split())


def test_a_card_is_asked_for_by_name_class_or_instance(cards):
    flow = ls.BalancedMode(s=2.0)
    assert str(ls.card("BalancedMode")) == str(ls.card(flow)) == str(cards["BalancedMode"])
    assert repr(cards["BalancedMode"]).startswith("Card(BalancedMode: Statement")


@pytest.mark.parametrize("function", ["card", "cite", "to_code"])
def test_what_is_unknown_is_refused(function):
    with pytest.raises(ValueError, match="did you mean 'TwoLayer'"):
        getattr(ls, function)("TwoLayr")
    with pytest.raises(TypeError, match="is not a flow or a law"):
        getattr(ls, function)(3)
    with pytest.raises(TypeError, match="is not a flow or a law"):
        getattr(ls, function)(dict)


def test_docstrings_are_read_as_blocks():
    text = """Some ``code`` and
    more.

    .. math:: a = b
        + c .

    ======  =====
    place   form
    ======  =====
    (1)     ``x``
    ======  =====
    """
    lines = "\n".join(line.removeprefix("    ") for line in text.splitlines())
    assert blocks(lines) == [
        Paragraph("Some ``code`` and more."),
        Formula("a = b + c ."),
        Table((("place", "form"), ("(1)", "``x``"))),
    ]
    assert sections("head\n\nNotes\n-----\nbody") == {"": "head", "Notes": "body"}


@pytest.mark.parametrize("flag", [[], ["--markdown"], ["--html"], ["--bibtex"], ["--code"]])
def test_the_command_prints_a_card(capsys, flag):
    assert main(["card", "HiddenMode", *flag]) == 0
    out = capsys.readouterr().out
    assert {"--bibtex": "@software{linsolve", "--code": "def hidden_mode("}.get(
        "".join(flag), "Published formulas"
    ) in out


# citations


def entries(text):
    """Parse BibTeX: ``@kind{key, name = {value}, ...}`` with balanced braces, and nothing else."""
    found, at = [], 0
    while at < len(text):
        head = re.compile(r"\s*@(\w+)\{(\w+),\n").match(text, at)
        assert head, text[at : at + 40]
        fields, at = {}, head.end()
        while not text.startswith("}", at):
            name = re.compile(r"\s*(\w+) = ").match(text, at)
            assert name, text[at : at + 40]
            depth, start = 0, name.end()
            assert text[start] == "{"
            for at in range(start, len(text)):
                depth += (text[at] == "{") - (text[at] == "}")
                if depth == 0:
                    break
            fields[name[1]] = text[start + 1 : at]
            at = re.compile(r",?\n").match(text, at + 1).end()
        found.append((head[1], head[2], fields))
        at = re.compile(r"\}\s*").match(text, at).end()
    return found


def test_bibtex_of_everything_is_valid_and_each_paper_is_there_once():
    found = entries(ls.cite(*SOLVED))
    keys = [key for _, key, _ in found]
    assert len(set(keys)) == len(keys)
    assert set(keys) == {*REFERENCES, "linsolve"}
    for kind, key, fields in found:
        assert kind in ("article", "inproceedings", "misc", "phdthesis", "software")
        assert {"title", "version"} <= set(fields) if key == "linsolve" else {"author", "title", "year"} <= set(fields)
        assert all(value and "\n" not in value for value in fields.values())
    assert dict(found[-1][2])["version"] == ls.__version__


def test_readme_cites_the_package_as_bibtex_does():
    (_, _, fields) = entries(ls.cite())[-1]
    author, title = (fields[name].strip("{}") for name in ("author", "title"))
    said = f"{author} ({fields['year']}). {title}. Version {fields['version']}."
    assert said in (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_every_flow_and_law_names_its_papers(name):
    assert sources(name), f"{name}: name the source in its docstring as linsolve/papers/references.py knows it"
    assert [key for _, key, _ in entries(ls.cite(name))] == [*(each.key for each in sources(name)), "linsolve"]


def test_what_is_cited_is_what_was_used():
    assert [key for _, key, _ in entries(ls.cite(ls.TwoLayer, "HiddenMode", ls.TwoLayer))] == [
        "xu_ziyin_2024", "saxe_2014", "seleznova_2024", "linsolve",
    ]  # fmt: skip
    assert [key for _, key, _ in entries(ls.cite())] == ["linsolve"]


# code


def run(name):
    """Return the function that the text defines, in a namespace of its own."""
    space = {}
    exec(ls.to_code(name), space)
    return space[re.search(r"def (\w+)", ls.to_code(name))[1]]


@pytest.mark.parametrize("name", STANDALONE)
@pytest.mark.parametrize("seed", range(8))
def test_the_code_agrees_with_the_flow(name, seed):
    cls = getattr(ls.flows if name in ls.flows.WHERE else ls.laws, name)
    rng = np.random.default_rng(seed)
    flow, z0 = cls.example(rng)
    if name == "BlockKernel":
        flow, z0 = cls(diagonal=2.3, within=1.1, between=0.4, sizes=[3, 3, 3], eta=0.7), cls.State(rng.normal(size=9))
    if name == "FrozenKernel" and np.ndim(z0.f) != 1:
        kernel = (lambda J: J @ J.T)(rng.normal(size=(6, 4)))
        flow, z0 = cls(kernel=kernel, y=rng.normal(size=6), eta=0.6), cls.State(rng.normal(size=6))
    parameters = {key: np.asarray(value) for key, value in flow.parameters().items()}
    for t in (0.0, 1e-6, 0.03, 0.4, 3.0, 40.0):
        found = run(name)(t, *map(np.asarray, z0), **parameters)
        for one, other in zip(found if isinstance(found, tuple) else (found,), flow(t, z0).state, strict=True):
            assert np.shape(one) == np.shape(other)
            assert np.max(np.abs(one - other)) <= 1e-12 * np.max(np.abs(other))


@pytest.mark.parametrize("name", STANDALONE)
def test_the_code_is_short_and_stands_alone(name):
    text = ls.to_code(name)
    assert text.startswith("import numpy as np\n")
    assert len(text.splitlines()) <= 30
    assert "linsolve" not in text
    assert "type:" not in text
    assert ls.to_code(getattr(ls, name)) == text


def test_flows_without_short_code_say_which_have_it():
    with pytest.raises(ValueError, match=r"DeepMode has no short closed form in NumPy alone; these have: BalancedMode"):
        ls.to_code(ls.DeepMode)


def test_cards_and_citations_load_nothing_heavy():
    import subprocess
    import sys

    use = "import linsolve as ls, sys; ls.card, ls.published; ls.cite('TwoLayer'); ls.to_code('TwoLayer')"
    check = f"{use}; print([m for m in ('scipy.integrate', 'sympy', 'mpmath', 'matplotlib') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_card_of_a_map_names_its_descent():
    assert "discrete (with momentum, decay, samples), first_step (plain steps)" in " ".join(
        str(ls.card("TwoLayer")).split()
    )
    assert "first_step" not in str(ls.card("WhitenedTwoLayer"))


def test_a_section_may_be_empty():
    assert sections("Text.\n\nNotes\n-----") == {"": "Text.", "Notes": ""}
    assert sections("") == {"": ""}


def test_parameters_without_symbols_are_described_by_the_docstring():
    @dataclasses.dataclass
    class Described:
        """A law of nothing.

        Parameters
        ----------
        None: the law has
        no number.
        """

    @dataclasses.dataclass
    class Plain:
        pass

    Plain.__doc__ = None
    assert _parameters(Described).rows[1] == ("none", "None: the law has no number.")
    assert _parameters(Plain).rows[1] == ("none", "no parameters")


def test_a_card_says_which_conditions_a_closed_form_has():
    (free,), (bound,) = _conditions(ls.BalancedMode), _conditions(ls.WhitenedTwoLayer)
    assert free.text == "None: every start of the state above."
    flow, z0 = ls.WhitenedTwoLayer.example(np.random.default_rng(0))
    assert all(f"``{name}``" in bound.text for name in flow.conditions(np, z0))
    assert "Zero up to 1e-09" in bound.text


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"L = (\gamma\, u \cdot W x - y)^2", "L = (γ u · W x - y)²"),
        (r"\dot{\mathbf H}_2 = -\eta_u \partial L/\partial u", "Ḣ₂ = -ηᵤ ∂L/∂u"),
        (r"\frac{1}{2 s} \log\Bigl[\frac{a}{b + c}\Bigr]", "1/(2 s) log[a/(b + c)]"),
        (r"\tfrac12 \sqrt{4\pi} + \sqrt x", "½ √(4π) + √x"),
        (r"e^{5\lambda} + e^{-2st} + w_{ij}^2 + W_{>\ell}", "e^(5λ) + e⁻²ˢᵗ + wᵢⱼ² + W_(>ℓ)"),
        (r"a \ge 0, \qquad \bar\beta^\top \beta \to \infty", "a ≥ 0,  β̄ᵀ β → ∞"),
        (r"\begin{cases} 1 & x > 0 \\ 0 \end{cases}", "1 x > 0; 0"),
        (r"\langle u^2 \rangle = \sum_{i=1}^d u_i^2, \|x\|", "⟨u²⟩ = ∑ᵢ₌₁ᵈ uᵢ², ‖x‖"),
    ],
)
def test_formulas_of_the_terminal_are_plain_text(latex, text):
    assert plain_math(latex) == text


@pytest.mark.parametrize("name", NAMES)
def test_no_card_of_the_terminal_shows_latex(cards, name):
    card = cards[name]
    assert "\\" not in str(card)
    formulas = [part.latex for _, parts in card.body for part in parts if isinstance(part, Formula)]
    known = [each in COMMANDS for latex in formulas for each in re.findall(r"\\([a-zA-Z]+|.)", latex)]
    assert all(known)
    assert all(line == line.rstrip() for line in str(card).splitlines())
