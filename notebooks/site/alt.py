"""Alternative texts of figures, read from the figures themselves."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["described"]

MOST = 6  # labels named in a text


def described(fig: Any) -> str:
    """Return panels, axes, curves and titles of a Matplotlib figure as running text."""
    panels = [ax for ax in fig.axes if ax.get_xlabel() or ax.get_ylabel() or ax.get_title("left") or ax.get_title()]
    parts = [_panel(ax) for ax in panels]
    if len(parts) > 1:
        parts = [f"Panel {k}: {part}" for k, part in enumerate(parts, 1)]
    return " ".join(parts)


def _panel(ax: Any) -> str:
    x, y, title = (plain(text) for text in (ax.get_xlabel(), ax.get_ylabel(), ax.get_title("left") or ax.get_title()))
    said = f"{y} over {x}" if x and y else x or y
    title = title.rstrip(".")
    said = ": ".join(filter(None, (title, said)))
    labels = [plain(text) for text in ax.get_legend_handles_labels()[1]]
    if labels:
        named = "; ".join(dict.fromkeys(labels[:MOST]))
        said += f". Shown: {named}" + (f"; and {len(labels) - MOST} more" if len(labels) > MOST else "")
    return said + "."


def plain(text: str) -> str:
    """Return a label without its TeX marks."""
    text = re.sub(r"\\(?:mathrm|mathcal|mathbf|rm|tfrac|frac|hat|dot|bar|Bigl|Bigr|bigl|bigr|left|right)\b", "", text)
    text = re.sub(r"\\sqrt\s*", "root of ", text)
    text = re.sub(r"\\[,;! ]|\\quad", " ", text).replace(r"\pm", "plus or minus").replace(r"\infty", "infinity")
    return " ".join(re.sub(r"[${}]", "", text.replace("\\", " ")).replace(" _", "_").replace(" ^", "^").split())
