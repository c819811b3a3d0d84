"""Wrong laws of alignment; each names the quantity whose check must reject it."""

import linsolve as ls
from mutants.laws import Mutant


class BoundForTheAlignment(ls.laws.FinalAlignment):
    """Below (16): the published bound, read as the value."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small)
        return found | {"alignment": self.bound(xp) + 0 * found["alignment"]}


class OverlapOfTheStart(ls.laws.FinalAlignment):
    """The overlap of the layers at the start added to the alignment at the end."""

    def approximation(self, xp, small):
        found = super().approximation(xp, small)
        return {name: value + small * self.xi[1] * (name != "alignment") for name, value in found.items()}


LAWS = {
    "bound for the alignment": Mutant(BoundForTheAlignment, "order alignment"),
    "overlap of the start": Mutant(OverlapOfTheStart, "order alignment with fluctuations"),
}
