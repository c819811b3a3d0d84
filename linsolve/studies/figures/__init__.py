"""Figures of papers, from the exact solutions and laws of this package, over simulations.

``linsolve figure`` lists them; ``linsolve figure NAME --out FILE`` draws one. Every figure is a pair of functions:
``compute_NAME(seed)`` returns the data of theory and simulation, and ``draw_NAME(axes, data)`` draws them on the given
axes. Lines are theory, markers are simulated networks.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, NamedTuple

from linsolve.core.arguments import unknown_name
from linsolve.core.results import folder_to_fill, whole_files

__all__ = ["FIGURES", "Figure", "draw"]

FORMATS = (".png", ".pdf", ".svg")
ATANASOV = "Atanasov, Bordelon, Pehlevan (2022)"
ZHANG = "Zhang, Singh, Latham and Saxe (2025)"
ADVANI = "Advani, Saxe, Sompolinsky (2020)"
ORTIZ = "Ortiz-Jimenez, Moosavi-Dezfooli, Frossard (2021)"
GEIGER = "Geiger, Spigler, Jacot, Wyart (2020)"
SELEZNOVA = "Seleznova (2024)"
XU_ZIYIN = "Xu and Ziyin (2024)"
LAMPINEN = "Lampinen and Ganguli (2019)"
LEVI = "Levi, Beck, Bar-Sinai (2024)"
BRAUN = "Braun, Domine, Fitzgerald, Saxe (2022)"
SODHANI = "Saxe, Sodhani, Lewallen (2022)"
LATHAM = "Zhang, Latham, Saxe (2024)"
LINEAR_RELU = "Zhang, Saxe and Latham (2025)"
HAYOU = "Hu et al. (2022) and Hayou et al. (2024)"


class Figure(NamedTuple):
    """Module, panels, title and source of a figure.

    Parameters
    ----------
    module, name : str
        Module of this package, and suffix of the names of its two functions.
    panels : int
        Panels, side by side.
    title : str
    source : str
        Paper whose figure it is.

    Examples
    --------
    >>> from linsolve.studies.figures import FIGURES
    >>> FIGURES["E.1"].panels, FIGURES["E.1"].title
    (3, 'figure E.1: error of the learned kernel on a new task')
    """

    module: str
    name: str
    panels: int
    title: str
    source: str = ATANASOV


FIGURES = {
    "2": Figure("phases", "2", 3, "figure 2: the kernel aligns in phase I, before the network learns in phase II"),
    "3": Figure("phases", "3", 3, "figure 3: learning time by size of the start, and silent alignment"),
    "4": Figure(
        "depth", "4", 3, "figure 4: with three or more layers the learning time is a power of the size of the start"
    ),
    "5": Figure(
        "classes",
        "5",
        2,
        "figure 5 (a), (b): many classes, on whitened digits; the lines of (b) neglect the coupling of the modes",
    ),
    "B.1": Figure("phases", "b1", 2, "figure B.1: output and size over the whole of training, in closed form"),
    "D.1": Figure("depth", "d1", 2, "figure D.1: spike of the kernel by ratio of the learning rates"),
    "D.3": Figure("depth", "d3", 3, "figure D.3: loss, kernel and first layer at several depths"),
    "D.4": Figure("classes", "d4", 3, "figure D.4: the final kernel on partially whitened digits"),
    "E.1": Figure("transfer", "e1", 3, "figure E.1: error of the learned kernel on a new task"),
    "double-descent": Figure(
        "generalization",
        "double_descent",
        3,
        "double descent in time: curves in the limit of many inputs, networks (bars: standard deviation)",
        ADVANI,
    ),
    "advani-starts": Figure(
        "starts", "advani_starts", 3, "test error from small and large starts, and with optimal stopping", ADVANI
    ),
    "lampinen-spikes": Figure(
        "spikes", "lampinen_spikes", 3, "a noisy teacher: spikes, overlaps, and test error in time", LAMPINEN
    ),
    "levi-accuracy": Figure("accuracy", "levi_accuracy", 3, "delay of test accuracy behind train accuracy", LEVI),
    "attention": Figure(
        "attention",
        "attention",
        3,
        "regression in context by linear attention: theory (lines), heads trained on 50,000 sequences",
        ZHANG,
    ),
    "8": Figure("linearized", "8", 3, "figure 8: kernels frozen before and after training", ORTIZ),
    "geiger-4a": Figure("lazy", "geiger_4a", 1, "figure 4(a) (linear): variance of the output", GEIGER),
    "geiger-4b": Figure("lazy_deep", "geiger_4b", 2, "figure 4(b) (linear): variance times width", GEIGER),
    "geiger-5": Figure("lazy", "geiger_5", 4, "figure 5 (linear): kernel, loss and half time", GEIGER),
    "geiger-9": Figure("lazy", "geiger_9", 2, "figure 9 (linear): change of the weights", GEIGER),
    "lora": Figure("adaptation", "lora", 3, "low-rank adaptation of a linear map", HAYOU),
    "leaky-relu": Figure(
        "leaky_units", "leaky_relu", 3, "leaky ReLU networks that train as linear networks", LINEAR_RELU
    ),
    "geiger-10": Figure("lazy_deep", "geiger_10", 3, "figure 10 (linear): outputs of two hidden layers", GEIGER),
    "neural-race": Figure("pathways", "neural_race", 3, "shared and private pathways", SODHANI),
    "ortiz-6": Figure("directions", "ortiz_6", 1, "figure 6 (linear): energy of the target", ORTIZ),
    "ortiz-7": Figure("directions", "ortiz_7", 2, "figure 7 (linear): alignment of eigenvectors", ORTIZ),
    "ortiz-9": Figure("directions", "ortiz_9", 1, "figure 9 (linear): kernels frozen in training", ORTIZ),
    "seleznova-3.1-1": Figure(
        "random_kernels",
        "seleznova_311",
        2,
        "section 3.1, figure 1: dispersion of the tangent kernel, sampled up to L/M = 0.3",
        SELEZNOVA,
    ),
    "seleznova-3.2-3": Figure(
        "random_kernels", "seleznova_323", 3, "section 3.2, figure 3: the kernel off the diagonal", SELEZNOVA
    ),
    "tasks": Figure("task_sequences", "tasks", 3, "continual learning and reversal", BRAUN),
    "unimodal-bias": Figure("modalities", "unimodal_bias", 3, "late fusion learns one modality first", LATHAM),
    "xu-ziyin-1": Figure("alignment", "xu_ziyin_1", 2, "figure 1 (linear): alignment and disalignment", XU_ZIYIN),
}


def draw(name: str, out: Any, seed: int = 0) -> dict[str, Any]:
    """Compute a figure, write it to a file, and return its data.

    Parameters
    ----------
    name : str
        One of `FIGURES`.
    out : path
        A file that ends in ``.png``, ``.pdf`` or ``.svg``. An earlier file is replaced.
    seed : int
        Seed of the random starts.

    Raises
    ------
    ValueError
        If the name, the seed or the file is invalid.
    """
    from linsolve.plot.style import figure

    if name not in FIGURES:
        raise ValueError(unknown_name("figure", "name", name, FIGURES))
    if seed < 0:
        raise ValueError(f"figure: seed = {seed} must not be negative (of the random starts); say 0")
    if Path(out).suffix.lower() not in FORMATS or Path(out).is_dir():
        raise ValueError(f"figure: out = {out} must be a file ending in {', '.join(FORMATS)} (the figure); rename it")
    folder_to_fill("figure", Path(out).parent)
    about = FIGURES[name]
    module = importlib.import_module(f"linsolve.studies.figures.{about.module}")
    data = getattr(module, f"compute_{about.name}")(seed)
    with figure(1, about.panels, figsize=size(about)) as (fig, axes):
        getattr(module, f"draw_{about.name}")(axes, data)
        write_title(fig, about)
        with whole_files(Path(out).parent) as made:
            fig.savefig(made / Path(out).name)
    return data


def size(about: Figure) -> tuple[float, float]:
    """Return width and height of a figure in inches."""
    return max(7.5, 4.6 * about.panels), 4.2


def write_title(fig: Any, about: Figure) -> None:
    """Write source and title above the panels, in several lines where one is wider than the figure."""
    fig.suptitle(f"After {about.source}, {about.title}", fontsize=11, x=0.01, ha="left", wrap=True)
