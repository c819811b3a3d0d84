r"""Formulas of LaTeX as plain Unicode text for the terminal: ``\frac{a}{b}`` as ``a/b``, ``w_i^2`` as ``wᵢ²``."""

# ruff: noqa: RUF001
from __future__ import annotations

import re
import unicodedata

__all__ = ["COMMANDS", "plain_math"]

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\s+|.", re.DOTALL)
_WORDS = "arcsin arctan arg cos cosh exp lim ln log max min sin sinh sup tanh"
_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "vartheta": "ϑ", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ",
    "sigma": "σ", "tau": "τ", "phi": "φ", "varphi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ",
    "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω",
}  # fmt: skip
_SIGNS = {
    "top": "ᵀ", "ell": "ℓ", "infty": "∞", "partial": "∂", "nabla": "∇", "sum": "∑", "prod": "∏", "int": "∫",
    "oint": "∮", "langle": "⟨", "rangle": "⟩", "|": "‖", "perp": "⊥", "cdot": " · ", "times": " × ", "circ": "∘",
    "wedge": "∧", "pm": " ± ", "mp": " ∓ ", "dots": "…", "ldots": "…", "cdots": "⋯", "{": "{", "}": "}", "_": "_",
    "sim": " ~ ", "to": " → ", "rightarrow": " → ", "ge": " ≥ ", "geq": " ≥ ", "le": " ≤ ", "leq": " ≤ ", "ne": " ≠ ",
    "neq": " ≠ ", "gg": " ≫ ", "ll": " ≪ ", "approx": " ≈ ", "simeq": " ≃ ", "in": " ∈ ", "propto": " ∝ ",
    "implies": " ⇒ ", "iff": " ⇔ ", "coloneqq": " ≔ ", "\\": "; ", ",": " ", ";": " ", ":": " ", " ": " ", "!": "",
    "quad": "\u2003", "qquad": "\u2003",
}  # fmt: skip
_SILENT = "left right big Big bigl bigr Bigl Bigr textstyle displaystyle rm bf mathbf mathcal mathbb mathrm mathtt"
_SILENT += " operatorname boldsymbol text"
_ACCENTS = {"dot": "\u0307", "ddot": "\u0308", "hat": "\u0302", "tilde": "\u0303", "bar": "\u0304"}
_ACCENTS["overline"] = "\u0305"
_TIED = ("partial", "nabla", "Delta", "langle")  # written before their operand without a space
_HALVES = {"1/2": "½", "1/4": "¼", "3/4": "¾", "1/3": "⅓", "2/3": "⅔"}
_TAKING = ("frac", "tfrac", "dfrac", "sqrt", "begin", "end", "xrightarrow")
COMMANDS = frozenset([*_GREEK, *_SIGNS, *_ACCENTS, *_TAKING, *_WORDS.split(), *_SILENT.split()])

_RAISED = dict(
    zip("0123456789+-=()abcdefghijklmnoprstuvwxyzTLP*ᵀ", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻᵀᴸᴾ*ᵀ", strict=True)
)
_LOWERED = dict(zip("0123456789+-=aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))
_LONGEST = 4  # raised or lowered characters that are read easily


def plain_math(latex: str) -> str:
    r"""Return a formula of LaTeX as one line of text.

    Examples
    --------
    >>> plain_math(r"\dot w_1 = -\frac{\partial L}{\partial w_1}, \quad e^{-2ct}, \quad \sqrt{s^2 + c}")
    'ẇ₁ = -∂L/∂w₁,  e⁻²ᶜᵗ,  √(s² + c)'
    """
    text = _tight(_Reader(_TOKEN.findall(latex)).text())
    return unicodedata.normalize("NFC", re.sub(" *\u2003[ \u2003]*", "  ", text))


def _tight(text: str) -> str:
    """Return a text without double spaces and without spaces inside brackets."""
    return re.sub(r"(?<=[(\[]) | (?=[)\],;⟩])", "", re.sub(" +", " ", text)).strip()


class _Reader:
    """Tokens of a formula, read from left to right."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens[::-1]

    def text(self) -> str:
        """Return the text up to the end of the group."""
        parts: list[str] = []
        while self.tokens:
            token = self.tokens.pop()
            if token == "}":
                break
            parts.append(self.one(token))
        return "".join(parts)

    def argument(self) -> str:
        """Return the text of the next group, or of the next token."""
        self.skip()
        return _tight(self.one(self.tokens.pop())) if self.tokens else ""

    def skip(self) -> None:
        """Skip spaces."""
        while self.tokens and self.tokens[-1].isspace():
            self.tokens.pop()

    def one(self, token: str) -> str:
        """Return the text of a token and its arguments."""
        if token == "{":
            return self.text()
        if token in "^_":
            return _shifted(self.argument(), token)
        if token.startswith("\\"):
            return self.command(token[1:])
        return " " if token.isspace() or token in "&~" else token

    def command(self, name: str) -> str:
        """Return the text of a command and its arguments."""
        if name in ("frac", "tfrac", "dfrac"):
            top, bottom = self.argument(), self.argument()
            return _HALVES.get(f"{top}/{bottom}") or f"{_bracketed(top)}/{_bracketed(bottom)}"
        if name == "sqrt":
            return f"√{_bracketed(self.argument())}"
        if name in _ACCENTS:
            return "".join(c + _ACCENTS[name] for c in self.argument())
        if name in ("begin", "end"):
            return self.argument() and ""
        if name == "xrightarrow":
            return f" →({self.argument()}) "
        if name in (*_SILENT.split(), *_TIED):
            self.skip()
            return _GREEK.get(name, _SIGNS.get(name, ""))
        if name in _WORDS.split():
            silent = {f"\\{each}" for each in _SILENT.split()}
            follows = next((token for token in reversed(self.tokens) if token not in silent), " ")
            return name if follows in "([^_{}" or follows.isspace() else f"{name} "
        return _GREEK.get(name) or _SIGNS.get(name, name)


def _shifted(text: str, mark: str) -> str:
    """Return a superscript or subscript: raised or lowered characters if there are such, else ``^(...)``."""
    table = _RAISED if mark == "^" else _LOWERED
    near = text.replace(" ", "") if len(text) <= 2 * _LONGEST else text
    if text in ("*", "'", "ᵀ"):
        return text
    if len(near) <= _LONGEST and all(c in table for c in near):
        return "".join(table[c] for c in near)
    return f"{mark}{text}" if re.fullmatch(rf"\d+|{_LETTER}+|.", text) else f"{mark}({text})"


_LETTER = r"[^\W\d_]"
_INDEX = rf"[₀-ₜ⁰-ⁿ²³¹ᵀ*']|[_^]({_LETTER}+|[∞⊥]|\([^()]*\))"
_FACTOR = re.compile(rf"\d+|[d∂Δ]?{_LETTER}[\u0302-\u0308]?({_INDEX})*|[|√]?\([^()]*\)|\|[^|]*\|")


def _bracketed(text: str) -> str:
    """Return a number or a symbol as such, and anything else in brackets."""
    return text if _FACTOR.fullmatch(text) else f"({text})"
