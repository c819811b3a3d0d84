"""Known-wrong forms of low-rank adaptation."""

import numpy as np

import linsolve as ls
from linsolve.systems.whitened.starts import dyadic
from mutants import Mutant


class SolutionWithoutTheScale(ls.LoRA):
    """The closed form with alpha/rank left out."""

    def solution(self, xp, t, z0):
        return ls.LoRA.solution(self._with(scale=xp.ones_like(self.scale)), xp, t, z0)


class NetworkWithoutTheScale(SolutionWithoutTheScale):
    """The scale left out of loss, velocity and solution alike, which agree with each other."""

    def loss(self, xp, z):
        return ls.LoRA.loss(self._with(scale=xp.ones_like(self.scale)), xp, z)

    def velocity(self, xp, z):
        return ls.LoRA.velocity(self._with(scale=xp.ones_like(self.scale)), xp, z)

    def descent(self, xp, z, gradient):
        return ls.LoRA.descent(self._with(scale=xp.ones_like(self.scale)), xp, z, gradient)


class StepOfTheState(ls.LoRA):
    """A step of descent along the velocity of the Gram matrices, not of the adapters."""

    step = ls.Flow.step


class ScaleInThePaceOnly(ls.LoRA):
    """The scale in the time constant but not in the size of the adapters."""

    def _factors(self):
        return tuple(f / self.scale[..., None, None] for f in super()._factors())


class RatioOfTheOtherAdapter(ls.LoRA):
    """The ratio of learning rates applied to A in place of B: the same pace, other adapters."""

    def _paces(self):
        return super()._paces()[::-1]

    def _factors(self):
        product, first, second = super()._factors()
        root = self.ratio[..., None, None]
        return product, first / root, second * root


# imbalanced by a multiple of the identity without rounding error at ratio 4
RNG = np.random.default_rng(3)
FIRST, SECOND = dyadic(RNG, 3, 2, 4)
FLOW = ls.LoRA(*RNG.normal(size=(2, 4, 3)), scale=0.7, ratio=4.0, tau=1.6)
START = ls.LoRA.of(FIRST, 2 * SECOND)
LORA = {
    "solution without the scale": Mutant(SolutionWithoutTheScale(**FLOW.parameters()), START, "residual"),
    "network without the scale": Mutant(NetworkWithoutTheScale(**FLOW.parameters()), START, "definition"),
    "scale in the pace only": Mutant(ScaleInThePaceOnly(**FLOW.parameters()), START, "residual"),
    "step of the state": Mutant(StepOfTheState(**FLOW.parameters()), START, "step"),
    "ratio of the other adapter": Mutant(RatioOfTheOtherAdapter(**FLOW.parameters()), START, "definition"),
}
