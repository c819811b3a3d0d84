"""Minibatch SGD under a frozen kernel, as SGD on a linear model that has this tangent kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import number
from linsolve.core.query import pose
from linsolve.core.trajectory import Deferred
from linsolve.numerics.checked import in_range
from linsolve.systems.kernel_regime.loss_spread import loss_deviation, without_spread
from linsolve.systems.kernel_regime.minibatch import (
    Averages,
    Model,
    averages,
    evaluated_steps,
    sampling,
    scaled,
    without_negative,
)

__all__ = ["KernelSGD"]


class KernelSGD:
    """Mixin for a flow of the outputs with a `spectrum` and targets ``y``: averages of minibatch SGD."""

    kernel: Any
    y: Any
    spectrum: Any

    def sgd(self, k: Any, z0: Any, *, batch: int, step: float, replacement: bool = False) -> Averages:
        r"""Return the exact averages of minibatch SGD after `k` steps, over all runs.

        A step draws a minibatch B of m of the n samples and adds
        :math:`-\mathrm{step}\, \eta\, \frac{n}{m} \sum_{i \in B} K_{\cdot i} (f_i - y_i)` to the outputs. The mean
        of this change is a step of `discrete`. See `linsolve.systems.kernel_regime.minibatch` for the recursion,
        O(n r^2) a step at rank r.

        Parameters
        ----------
        k : array_like of int, any shape
            Numbers of steps.
        z0 : array_like, shape batch + (n,)
            Outputs on the training inputs at the start.
        batch : int
            Samples in a minibatch, m.
        step : float
            Length of one step in units of time.
        replacement : bool
            Whether a sample may be drawn more than once into one minibatch.

        Returns
        -------
        Averages
            By name, with leading axes ``k.shape``: ``f``, ``residual`` (means, shape batch + (n,)), ``loss`` (mean of
            ``|f - y|^2/2``, shape batch), ``covariance`` (of the outputs over runs, shape batch + (n, n)); without
            batch axes and up to rank 32 also ``loss_std``, the standard deviation of the loss of one run.
            ``traj.largest_step()`` is the step above which the averages grow without bound, shape batch.

        Raises
        ------
        ValueError
            If an entry of `k` is not a whole number, `step` is not positive, `batch` is not a valid number of samples,
            or `replacement` is neither True nor False.
        OverflowError
            If SGD diverges beyond the range of doubles; the message contains the step.

        Notes
        -----
        Exact for: independent minibatches of any size, every kernel, one output (each entry of f is a sample). Not for:
        epochs that pass through shuffled data, whose minibatches depend on each other; minibatches over data points
        with several outputs each, see `linsolve.sgd`. The standard deviation of the loss needs fourth moments,
        O(n r^4) operations a step; see `linsolve.systems.kernel_regime.loss_spread`.

        Examples
        --------
        >>> from linsolve import FrozenKernel
        >>> flow = FrozenKernel(kernel=[[2.0, 1.0], [1.0, 2.0]], y=[1.0, 0.0])
        >>> traj = flow.sgd([0, 1, 2], [0.0, 0.0], batch=1, step=0.1)
        >>> traj["f"].round(4).tolist()  # the mean run is gradient descent
        [[0.0, 0.0], [0.2, 0.1], [0.35, 0.16]]
        >>> traj["loss"].round(4).tolist(), traj["covariance"][1].round(4).tolist()
        ([0.5, 0.35, 0.257], [[0.04, 0.02], [0.02, 0.01]])
        """
        who = f"{type(self).__name__}.sgd"
        counts, problem = evaluated_steps(who, k), pose(self, 0.0, z0)
        n, xp, flow = self.kernel.shape[-1], problem.xp, problem.flow
        draw = sampling(who, n, batch, replacement)
        length_ = number(who, "step", step, meaning="length of a step, in units of time", example=0.01)
        h = in_range(who, lambda: arithmetic.cast(xp, length_) * flow.eta * n, step=length_, eta=flow.eta)
        f = xp.broadcast_to(problem.z0.f, (*problem.batch, n))
        model, start, _ = scaled(xp, *flow._linear(xp, f, h, draw.factor(xp)))
        unit = model.unit

        def covariance() -> Any:
            c = averages(who, xp, model, start, counts).covariance
            outputs = without_negative(xp, model.rows @ c @ xp.matrix_transpose(model.rows))
            return outputs * unit[..., None, None] * unit[..., None, None]

        found = averages(who, xp, model, start, counts, kept=False)
        values = Deferred(
            f=lambda: f + (model.rows @ found.moved)[..., 0] * unit[..., None],
            residual=lambda: model.residual(found.delta)[..., 0] * unit[..., None],
            loss=lambda: xp.sum(found.squares, axis=-1) / 2 * unit * unit,
            covariance=covariance,
        )
        missing = without_spread(model, batch=bool(problem.batch))
        if not missing:
            values |= {"loss_std": lambda: n * loss_deviation(who, xp, model, start, counts, draw)}
        return Averages(counts * length_, f"SGD, exact averages: {draw}", values, model, length_, missing)

    def _linear(self, xp: Any, f: Any, h: Any, phi: Any) -> tuple[Model, Any]:
        """Return a linear model that has this kernel, and the initial distance of its parameters from the minimum."""
        spectrum, r = self.spectrum(xp), f - self.y
        rank = max(int(np.max(np.sum(arithmetic.to_numpy(spectrum.values) > 0, axis=-1))), 1)
        values, vectors = spectrum.values[..., -rank:], spectrum.vectors[..., -rank:]
        learned = values > 0
        root = xp.sqrt(xp.where(learned, values, 0 * values))
        start = spectrum.coordinates(xp, r)[..., -rank:] / xp.where(learned, root, 1 + 0 * root)
        start = xp.where(learned, start, 0 * start)[..., None]
        equal = xp.all(self.kernel == self.kernel[..., :1, :1]) & xp.all(r == r[..., :1])
        phi = 0 * phi if bool(equal) else phi
        return Model(vectors * root[..., None, :], spectrum.null_part(xp, r)[..., None], h, phi), start
