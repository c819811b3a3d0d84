"""Test loss of a linear model, predicted from its training samples for inputs of a given or an isotropic spectrum."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from linsolve.systems.generalization.curves import ErrorCurves
from linsolve.systems.generalization.in_time import GeneralizationInTime
from linsolve.systems.generalization.of_data import GeneralizationOfData
from linsolve.systems.generalization.variance_components import VarianceComponents

__all__ = ["Prediction", "predictions"]


@dataclasses.dataclass(frozen=True, eq=False)
class Prediction:
    r"""Test loss of a linear model in time: mean and standard deviation over teachers and label noise.

    Parameters
    ----------
    law : GeneralizationInTime or GeneralizationOfData
        Errors of one output, for inputs of mean square 1 and residuals of the start of mean square 1.
    outputs, samples : int
        Number of outputs, alike and independent, and of test samples.
    clock : float
        Time of the law in a unit of the network's time.
    size : float
        Mean square of a residual of the start.
    fresh : bool
        Whether the test inputs are drawn anew, as the law averages over them, or given.
    components : VarianceComponents
        Signal and noise of the law, estimated, with the covariance of the estimates.
    """

    law: Any
    outputs: int
    samples: int
    clock: float
    size: float
    fresh: bool
    components: VarianceComponents

    def test_loss(self, t: Any) -> np.ndarray:
        """Return the mean of half the mean squared error on the test samples, label noise included."""
        return self.outputs * self.size / 2 * self.law.test_error(self.clock * np.asarray(t))

    def test_loss_std(self, t: Any) -> np.ndarray:
        r"""Return the standard deviation of the test loss over teachers, label noise and the m test samples.

        On given inputs the squared errors of m samples with label noise have, beyond the variance over teachers, the
        variance :math:`(2 \sigma^4 + 4 \sigma^2 E)/m`, E without label noise; on new Gaussian inputs
        :math:`2 [(E + \sigma^2)^2 + \mathrm{Var}\, E]/m`. The variance of the estimated signal and noise is added, as
        if independent of the teacher, which overestimates the sum.
        """
        time = self.clock * np.asarray(t)
        error, spread, noise = self.law.test_error(time), self.law.test_error_std(time), self.law.noise_variance
        drawn = 2 * (error**2 + spread**2) if self.fresh else 2 * noise * (2 * error - noise)
        units = [self.law._with(signal=np.array(a), noise_variance=np.array(b)) for a, b in ((1.0, 0.0), (0.0, 1.0))]
        slopes = np.stack([unit.test_error(time) for unit in units], axis=-1)
        fitted = np.sum(slopes @ self.components.covariance * slopes, axis=-1)
        variance = spread**2 + drawn / self.samples + self.outputs * fitted
        return np.sqrt(self.outputs) * self.size / 2 * np.sqrt(variance)

    def floor(self) -> float:
        """Return the part of the test loss that no training time removes: directions without samples."""
        return float(self.outputs * self.size / 2 * self.law.floor())

    def floor_error(self) -> float:
        """Return the standard error of `floor`, which is proportional to the estimated signal."""
        signal, error = self.components.signal, np.sqrt(self.components.covariance[0, 0])
        return float(error / signal * self.floor()) if signal > 0 else 0.0

    def stopping_time(self) -> float:
        """Return the time at which the predicted test loss is least."""
        return float(self.law.optimal_stopping_time()) / self.clock

    @property
    def noise(self) -> float:
        """Half the variance of the label noise, summed over outputs: the test loss of the teacher itself."""
        return float(self.outputs * self.size / 2 * self.law.noise_variance)

    @property
    def noise_error(self) -> float:
        """Standard error of `noise`, by maximum likelihood."""
        return float(self.outputs * self.size / 2 * np.sqrt(self.components.covariance[1, 1]))


def predictions(
    inputs: np.ndarray, residuals: np.ndarray, test_inputs: np.ndarray, rate: float
) -> dict[str, Prediction]:
    """Return predictions of the test loss, by the assumption on the inputs; none if all residuals are 0.

    Parameters
    ----------
    inputs : array, shape (n, d)
        Training inputs, with an entry other than 0.
    residuals : array, shape (n, outputs)
        Training targets less the outputs of the start. They determine signal and noise by maximum likelihood.
    test_inputs : array, shape (m, d)
    rate : float
        Learning rate.

    Returns
    -------
    dict of str to Prediction
        "spectrum": for the given training and test inputs; "isotropic": for Gaussian inputs of equal variances.
    """
    if not residuals.any():
        return {}
    (n, d), outputs, m = inputs.shape, residuals.shape[1], len(test_inputs)
    unit, size = (_root_mean_square(each) for each in (inputs, residuals))
    inputs, test_inputs = inputs / unit, test_inputs / unit
    found = VarianceComponents.of(inputs, residuals / size)
    laws: dict[str, ErrorCurves] = {
        "spectrum": GeneralizationOfData(inputs, test_inputs.T @ test_inputs / m, found.signal, 0.0, found.noise),
        "isotropic": GeneralizationInTime(d, n, found.signal, 0.0, found.noise),
    }
    return {
        name: Prediction(law, outputs, m, rate * unit**2, size**2, name == "isotropic", found)
        for name, law in laws.items()
    }


def _root_mean_square(values: np.ndarray) -> float:
    largest = np.max(np.abs(values))
    return float(largest * np.sqrt(np.mean((values / largest) ** 2)))
