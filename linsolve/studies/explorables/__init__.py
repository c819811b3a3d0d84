"""Explorables: pages with sliders, each one HTML file that works without a network.

``linsolve explore`` lists them; ``linsolve explore NAME --out FILE`` writes one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from linsolve.core.arguments import unknown_name
from linsolve.core.results import folder_to_fill, whole_files
from linsolve.studies.explorables import descent, generalization, modes, two_layers
from linsolve.studies.explorables.page import document

__all__ = ["EXPLORABLES", "write"]

EXPLORABLES = modes.EXPLORABLES | two_layers.EXPLORABLES | descent.EXPLORABLES | generalization.EXPLORABLES


def write(name: str, out: Any) -> None:
    """Write the page of an explorable to a file.

    Parameters
    ----------
    name : str
        One of `EXPLORABLES`.
    out : path
        A file that ends in ``.html``. An earlier file is replaced.

    Raises
    ------
    ValueError
        If the name or the file is invalid.
    """
    if name not in EXPLORABLES:
        raise ValueError(unknown_name("explore", "name", name, EXPLORABLES))
    path = Path(out)
    if path.suffix.lower() != ".html" or path.is_dir():
        raise ValueError(f"explore: out = {out} must be a file ending in .html (the page); rename it")
    folder_to_fill("explore", path.parent)
    with whole_files(path.parent) as made:
        (made / path.name).write_text(document(name, EXPLORABLES[name]), encoding="utf-8")
