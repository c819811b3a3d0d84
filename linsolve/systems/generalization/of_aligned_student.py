"""Test and train error of a deep linear network that learns a noisy teacher of low rank, mode by mode."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import refuse_fractions
from linsolve.core.parameters import parameter
from linsolve.core.query import NotExact
from linsolve.systems.generalization.curves import MeanErrors
from linsolve.systems.generalization.spikes import bulk_overlap, correction, density, overlap, spike
from linsolve.systems.generalization.stopping import least_time
from linsolve.systems.mode.deep_mode import DeepMode

__all__ = ["GeneralizationOfAlignedStudent"]


class GeneralizationOfAlignedStudent(MeanErrors):
    r"""Test and train error of an aligned deep linear network in time, for a teacher of low rank and label noise.

    The inputs are white, as many samples as inputs, :math:`X^T X = 1`; the labels give the teacher of singular values
    :math:`s_\alpha` plus Gaussian noise, the matrix :math:`\hat W = \bar W + Z` of :math:`N_3` outputs and :math:`N_1`
    inputs, :math:`Z_{ij} \sim N(0, 1/N_1)`. Balanced layers that start aligned with the singular vectors of
    :math:`\hat W`, each mode at :math:`a_0`, learn its singular values :math:`\hat s` by the modes
    :math:`a(t; \hat s)` of `DeepMode`. With :math:`A = N_3/N_1` and the overlaps :math:`O` of modes and teacher,

    .. math:: E_{test}(t) &= |\bar W - W(t)|^2 = \sum_\alpha s_\alpha^2
        - 2 \sum_{\alpha \beta} s_\alpha O_{\alpha \beta}\, a(t; \hat s_\beta) + \sum_\beta a(t; \hat s_\beta)^2 , \\
        E_{train}(t) &= |\hat W - W(t)|^2 = \sum_\beta (\hat s_\beta - a(t; \hat s_\beta))^2 .

    A singular value :math:`s > A^{1/4}` of the teacher gives a spike,

    .. math:: \hat s = \frac{\sqrt{(1 + s^2)(A + s^2)}}{s}, \qquad
        O = \frac{s^4 - A}{s^2 \sqrt{(A + s^2)(1 + s^2)}} ;

    the other modes have the Marchenko-Pastur density, with a correction of order 1 to its sums, and the sum of overlaps
    :math:`\sum_\beta O_{\alpha \beta}\, a(t; \hat s_\beta) = \frac{2 s}{\pi} \int_0^\pi \frac{a(t; \hat s)}{\hat s}
    \frac{\sin^2\theta\, d\theta}{1 - 2 q \cos\theta + q^2}`, :math:`q = s^2/\sqrt A`,
    :math:`\hat s^2 = 1 + A + 2 \sqrt A \cos\theta`.

    Parameters
    ----------
    strengths : array_like, shape (mode,)
        Singular values of the teacher over the scale of the noise, positive, :math:`s_\alpha`. Those below
        :math:`A^{1/4}` are hidden: no mode learns them alone.
    inputs, outputs : float
        :math:`N_1` and :math:`N_3`.
    start : float
        Initial singular value of each mode, positive, :math:`a_0`.
    depth : float
        Number of layers, at least 1.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, there are more strengths than inputs or outputs, or
        shapes do not fit.

    Notes
    -----
    Exact for: white inputs, an aligned start and a teacher of low rank, up to the order 1/N of the means. Not for:
    starts that are not aligned, which first turn; inputs that are not white. Time is that of the loss
    :math:`|\hat W - W|^2/2`. Errors are sums over all outputs, not divided by :math:`\sum s_\alpha^2`.
    `test_error` has no label noise; `train_error` is the sum over the training samples.

    After Lampinen and Ganguli, "An analytic theory of generalization dynamics and transfer learning in deep linear
    networks" (2019), with spikes alone in the overlaps and no correction of the
    bulk; both were derived here. Accuracy: within 1e-12
    relative of 50-digit quadrature
    (``tests/systems/generalization/test_of_aligned_student.py``).

    Examples
    --------
    >>> import linsolve as ls
    >>> law = ls.laws.GeneralizationOfAlignedStudent([3.0, 0.5], inputs=100, outputs=50, start=1e-3)
    >>> law.learned().tolist(), round(law.threshold(), 4)
    ([True, False], 0.8409)
    >>> best = law.optimal_stopping_time()
    >>> round(best, 2), law.test_error([0.0, best, 50.0]).round(2).tolist()
    (1.49, [9.24, 1.73, 50.0])
    """

    strengths: Any = parameter("s", "singular values of the teacher", axes=("mode",), domain="[1e-30, 1e30]")
    inputs: Any = parameter("N_1", "number of inputs and samples", domain="[1, 1e12]", typical=(50, 500))
    outputs: Any = parameter("N_3", "number of outputs", domain="[1, 1e12]", typical=(50, 500))
    start: Any = parameter("a_0", "initial singular value of each mode", domain="[1e-30, 1e30]", default=1e-3)
    depth: Any = parameter("D", "number of layers", domain="[1, 100]", default=2.0)

    latest: ClassVar[float] = 1e100
    noise_variance: ClassVar[float] = 0.0  # the test error is that of the teacher without noise
    diverges: ClassVar[bool] = False
    draws: ClassVar[int] = 400
    sampled: ClassVar[tuple[float, ...]] = (0.5, 1.5, 4.0)
    approximates: ClassVar[str] = "averages over label noise"
    unapplied: ClassVar[str] = "an average over label noise; `linsolve.solve` follows one network"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not arithmetic.readable(self.inputs, self.outputs):
            return
        sizes = (float(arithmetic.to_numpy(n).min()) for n in (self.inputs, self.outputs))
        count, most = self.strengths.shape[-1], min(sizes)
        if count > most:
            raise ValueError(
                f"{type(self).__name__}: strengths has {count} entries but at most {most:g} fit (modes of the "
                "teacher); leave out the smallest"
            )

    def test_mean(self, xp: Any, t: Any) -> Any:
        """Return the mean over label noise of the squared distance of the network's map from the teacher."""
        s, a = self.strengths, self._spikes(xp, t)
        values, weights = bulk_overlap(xp, s, self._aspect())
        pull = xp.sum(s * overlap(xp, s, self._aspect()) * a, axis=-1)
        pull = pull + xp.sum(weights * self._mode(xp, t, values), axis=-1)
        return xp.sum(s**2, axis=-1) - 2 * pull + self._sum(xp, t, lambda _, a: a**2)

    def train_mean(self, xp: Any, t: Any) -> Any:
        """Return the mean squared distance of the network's map from the matrix that the labels give."""
        return self._sum(xp, t, lambda s, a: (s - a) ** 2)

    def accuracy(self, t: Any, threshold: Any) -> Any:
        """Return the share of new inputs within `threshold`, see `MeanErrors.accuracy`; for one output."""
        self._refuse_several("accuracy")
        return super().accuracy(t, threshold)

    def train_accuracy(self, t: Any, threshold: Any) -> Any:
        """Raise NotExact: the residuals of as many samples as inputs are errors of modes, which are not Gaussian."""
        raise NotExact(
            f"{type(self).__name__}.train_accuracy: residuals of aligned modes are not Gaussian; "
            "use train_error(t), the sum of their squares"
        )

    def _refuse_several(self, name: str) -> None:
        """Raise NotExact for several outputs, whose squared errors are sums of several squares."""
        if (given := float(arithmetic.to_numpy(self.outputs))) != 1:
            raise NotExact(
                f"{type(self).__name__}.{name}: outputs = {given:g} must be 1 (the squared error of several outputs is "
                "no square of one Gaussian number); use test_error(t)"
            )

    def _aspect(self) -> Any:
        return self.outputs / self.inputs

    def _mode(self, xp: Any, t: Any, s: Any) -> Any:
        """Return the modes at times `t` of singular values `s`, which follow the axes of the times."""
        flow = DeepMode(s=s, depth=self.depth, tau=xp.ones_like(s))
        time = xp.broadcast_to(t[..., None], (*t.shape, s.shape[-1]))
        return flow.solution(xp, time, flow.State(self.start + 0 * s)).a

    def _spikes(self, xp: Any, t: Any) -> Any:
        return self._mode(xp, t, spike(xp, self.strengths, self._aspect())[1])

    def _sum(self, xp: Any, t: Any, function: Any) -> Any:
        """Return the sum of a function of singular value and mode over all modes."""
        found, above = spike(xp, self.strengths, self._aspect())
        spikes = xp.sum(xp.where(found, function(above, self._spikes(xp, t)), xp.zeros_like(above)), axis=-1)
        total = spikes
        inside, share = density(xp, self._aspect())
        for values, weights in ((inside, self.outputs * share), correction(xp, self.strengths, self._aspect())):
            total = total + xp.sum(weights * function(values, self._mode(xp, t, values)), axis=-1)
        return total

    def threshold(self) -> float:
        """Return :math:`A^{1/4}`, the singular value below which the teacher is hidden by the noise."""
        return float(arithmetic.to_numpy(self._aspect()) ** 0.25)

    def learned(self) -> Any:
        """Return whether each singular value of the teacher is above the threshold."""
        return spike(np, self.cast(np).strengths, self.cast(np)._aspect())[0]

    def learning_time(self) -> Any:
        """Return the time at which each mode has grown to half of its spike; inf for modes that are hidden.

        A mode that starts above half of its spike has the time 0.
        """
        law = self.cast(np)
        found, above = spike(np, law.strengths, law._aspect())
        return np.where(found, law._half_time(above), np.inf)

    def _half_time(self, s: np.ndarray) -> np.ndarray:
        """Return the times at which modes of singular values `s` have grown to half of them, 0 if they start there."""
        flow, short = DeepMode(s=s, depth=self.depth, tau=np.ones_like(s)), self.start < s / 2
        begin = flow.State(np.where(short, self.start, s / 4))
        return np.where(short, flow.time_to(np, begin, loss=s**2 / 8), 0.0)

    def optimal_stopping_time(self) -> float:
        """Return the time at which the test error is least, inf if that is the limit."""
        law = self.cast(np)
        above, edge = spike(np, law.strengths, law._aspect())[1], 1 + np.sqrt(law._aspect())
        low = 1e-3 / float(law.depth * max(above.max(), law.start) ** (2 - 2 / law.depth))
        fitted = float(law._half_time(edge[None])[0])  # of the strongest noise
        return least_time(lambda t: law.test_mean(np, t), low, max(1e9 * low, 1e2 * fitted))

    def sample_errors(self, rng: np.random.Generator, count: int, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return test and train errors for `count` noises at times `t`, shape (count, times)."""
        for name in ("inputs", "outputs"):
            refuse_fractions(f"{type(self).__name__}.sample", name, getattr(self, name), "of sampled networks")
        law, tests, trains = self.cast(np), [], []
        n, m, s = int(law.inputs), int(law.outputs), law.strengths
        for _ in range(count):
            teacher = np.zeros((m, n))
            teacher[np.arange(len(s)), np.arange(len(s))] = s
            left, found, right = np.linalg.svd(teacher + rng.normal(size=(m, n)) / np.sqrt(n), full_matrices=False)
            a = law._mode(np, t, found)
            along = np.einsum("ka,k,ak->a", left[: len(s)], s, right[:, : len(s)])
            tests.append(np.sum(s**2) - 2 * a @ along + np.sum(a**2, axis=-1))
            trains.append(np.sum((found - a) ** 2, axis=-1))
        return np.array(tests), np.array(trains)

    @classmethod
    def example(cls, rng: np.random.Generator) -> GeneralizationOfAlignedStudent:
        """Return a teacher of two modes, one of which may be hidden, and two layers."""
        inputs = int(rng.integers(80, 120))
        return cls([rng.uniform(2.5, 4.0), rng.uniform(0.3, 0.6)], inputs, round(rng.choice([0.5, 1.6]) * inputs), 0.05)
