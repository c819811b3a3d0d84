"""Data sets and the whitened problems that the exact solutions solve: load, center, whiten, modes."""

from linsolve.data.dataset import Dataset
from linsolve.data.hierarchy import tree
from linsolve.data.reading import BUILT_IN, load
from linsolve.data.whitening import Modes, Whitened, modes, whiten

__all__ = ["BUILT_IN", "Dataset", "Modes", "Whitened", "load", "modes", "tree", "whiten"]
