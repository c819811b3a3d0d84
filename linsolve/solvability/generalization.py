"""Test loss of a network over time: when to stop, the floor, the delay of test accuracy, predictions from the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from linsolve.core.network_arguments import Network
from linsolve.solvability.held_out import Samples, squared_errors
from linsolve.systems.generalization.prediction import Prediction, predictions

__all__ = ["Generalization", "generalization"]

SHARE = 0.95  # of samples within the threshold: learned
THRESHOLD = 0.1  # by default, over the mean squared training error of the start
POINTS, FINER, ROUNDS = 300, 60, 4  # times on the grid, and between neighbors in each round of refinement
APART = 2.0  # standard deviations by which predictions part
ROUNDING, UNITS = 1e-8, 8  # relative error of outputs: when integrated, and in units of rounding of the arguments
GROKKING = 10.0  # delay of test accuracy, an order of magnitude: well-sampled regressions have factors of 0.9 to 2.2
FAILS = 10.0  # standard deviations beyond which a prediction fails
COMPARED = 0.01  # of the test loss of the start: predictions are compared with losses above
At = Callable[[np.ndarray], Any]  # from times to a trajectory


@dataclasses.dataclass(frozen=True, eq=False)
class Generalization:
    r"""Test loss of a network on given test samples, over its training time, and predictions of it.

    Losses are half the mean squared error, as in `linsolve.solve`; those at infinite time are limits.

    Parameters
    ----------
    samples : int
        Number of test samples.
    until : float
        Last time; inf if the trajectory is known in closed form.
    start, least, end : float
        Test loss at time 0, at its least and at `until`.
    stop : float
        Time at which the test loss is least; `until` if the loss does not rise later by more than rounding.
    threshold : float
        Squared error that counts as correct.
    train_time, test_time : float
        Times at which 95 % of the training and of the test samples are correct; inf if not reached up to `until`.
    train_share, test_share : float
        Shares of correct samples at `until`.
    predicted : dict of str to Prediction
        For one layer, a linear model, from its training samples and the test inputs: "spectrum", for the given inputs,
        and "isotropic", for Gaussian inputs of equal variances. The teacher is random; signal and noise are fitted to
        the training targets by maximum likelihood.
    deviations : dict of str to float
        Largest distance of the test loss from each prediction, in standard deviations, while the test loss is at least
        1 % of that of the start.
    parting : float or None
        Time from which the two predictions differ by more than two standard deviations; inf if not up to `until`.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> rng = np.random.default_rng(0)
    >>> X, teacher = rng.normal(size=(300, 100)), rng.normal(size=100) / 10
    >>> Y = X @ teacher + 0.5 * rng.normal(size=300)
    >>> verdict = ls.applies([np.zeros((1, 100))], (X[:120], Y[:120]), test=(X[120:], Y[120:]))
    >>> found = verdict.generalization
    >>> bool(found.least < found.start < found.end)  # stop early
    True
    >>> bool(found.deviations["spectrum"] < 3), found.predicted["isotropic"].law.dimension.item()
    (True, 100.0)
    """

    samples: int
    until: float
    start: float
    least: float
    end: float
    stop: float
    threshold: float
    train_time: float
    test_time: float
    train_share: float
    test_share: float
    predicted: dict[str, Prediction]
    deviations: dict[str, float]
    parting: float | None

    @property
    def delay(self) -> float | None:
        """Ratio of the times to test and to train accuracy, inf if only training samples reach it up to `until`."""
        return self.test_time / self.train_time if 0 < self.train_time < np.inf else None

    def __str__(self) -> str:
        """Return the answer in a few sentences."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        late = "in the end" if self.until == np.inf else f"at t = {self.until:.4g}"
        yield (
            f"Test loss ({self.samples} samples, half the mean squared error): {self.start:.4g} at the start, "
            f"{self.end:.4g} {late}."
        )
        yield self._advice(late)
        if "spectrum" in self.predicted:
            yield from self._waiting(self.predicted["spectrum"])
        yield from self._accuracy()
        yield from self._predictions()

    def _advice(self, late: str) -> str:
        later = "" if self.until == np.inf else "later times were not computed (until=, --until)."
        if self.stop < self.until:
            rise = self.end / self.least - 1 if self.least > 0 else np.inf
            size = f"by {100 * rise:.3g} %" if rise < 9 else f"to {self.end:.4g}"
            found = f"Stop at t = {self.stop:.4g}: the test loss of {self.least:.4g} rises later, {size} {late}"
            return f"{found}; {later}" if later else f"{found}."
        if later:
            course = "still falls" if self.least == self.end < self.start else "does not rise by more than rounding"
            return f"Up to t = {self.until:.4g} the test loss {course}; {later}"
        course = "is least at the end" if self.least == self.end else "does not rise by more than rounding"
        return f"Do not stop early: the test loss {course}."

    def _waiting(self, own: Prediction) -> Iterator[str]:
        noisy = "from label noise, if the test targets are as noisy as the training targets"
        unseen, least = "from directions without samples", 1e-9 * self.start
        parts = {unseen: (own.floor(), own.floor_error()), noisy: (own.noise, own.noise_error)}
        kept = [f"{v:.3g} +- {error:.2g} {source}" for source, (v, error) in parts.items() if v + error > least]
        if kept:
            yield (
                f"No training time removes the following parts of it (estimates +- standard errors): {'; '.join(kept)}."
            )

    def _accuracy(self) -> Iterator[str]:
        yield f"Accuracy is the share of samples with a squared error of at most {self.threshold:.3g}."
        names = {"Train": (self.train_time, self.train_share), "Test": (self.test_time, self.test_share)}
        for name, (time, share) in names.items():
            if time < np.inf:
                yield f"{name} accuracy: 95 % at t = {time:.4g}."
            elif self.until == np.inf:
                yield f"{name} accuracy: never 95 %; {share:.1%} in the end."
            else:
                yield f"{name} accuracy: 95 % not reached by t = {self.until:.4g}, {share:.1%} there."
        if self.delay is not None and 0 < self.delay < np.inf:
            yield self._delay(self.delay)

    def _delay(self, delay: float) -> str:
        if delay == 1:
            return "Test accuracy comes at the same time as train accuracy."
        factor, word = (delay, "later") if delay > 1 else (1 / delay, "earlier")
        end = f": grokking (a delay by a factor of at least {GROKKING:g})." if delay >= GROKKING else "."
        return f"Test accuracy comes {factor:.3g} times {word} than train accuracy{end}"

    def _predictions(self) -> Iterator[str]:
        names = {"spectrum": "your inputs", "isotropic": "isotropic inputs"}
        if self.predicted:
            yield (
                "A prediction is the mean +- the standard deviation over teachers, label noise and test samples, with "
                "the errors of the signal and noise that are estimated from the training targets."
            )
        for name, found in self.predicted.items():
            stop, last = found.stopping_time(), found.test_loss(np.inf)
            end = f"{last:.3g} +- {found.test_loss_std(np.inf):.2g}" if np.isfinite(last) else "unbounded"
            least = f"least {found.test_loss(stop):.3g} +- {found.test_loss_std(stop):.2g} at t = {stop:.4g}, "
            yield (
                f"Predicted for {names[name]}: {least if stop < np.inf else ''}{end} in the end. "
                f"{_agreement(self.deviations[name])}"
            )
        if self.parting is not None and self.parting < np.inf:
            yield f"The predictions differ by more than two standard deviations from t = {self.parting:.4g} on."
        elif self.predicted:
            when = "at no time" if self.until == np.inf else f"at no time up to t = {self.until:.4g}"
            yield f"The predictions differ by more than two standard deviations {when}."

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers by name, predictions by their losses and times."""
        found = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "predicted"}
        return found | {
            "predicted": {
                name: {
                    "stop": (stop := each.stopping_time()), "least": float(each.test_loss(stop)),
                    "least_std": float(each.test_loss_std(stop)), "end": float(each.test_loss(np.inf)),
                    "end_std": float(each.test_loss_std(np.inf)),
                    "floor": each.floor(), "floor_error": each.floor_error(),
                    "noise": each.noise, "noise_error": each.noise_error,
                }
                for name, each in self.predicted.items()
            }
        }  # fmt: skip


def _agreement(deviation: float) -> str:
    """Return the distance of the test loss from a prediction as a sentence."""
    if deviation > FAILS:
        return f"The prediction fails: the test loss differs from it by more than {FAILS:g} standard deviations."
    size = f"{deviation:.2g}"
    return f"The test loss differs from this prediction by at most {size} standard deviation{'s' * (size != '1')}."


def generalization(
    network: Network, train: Samples, test: Samples, at: At, until: float, closed: bool, threshold: float | None
) -> Generalization:
    """Return the test loss over time and its predictions.

    Parameters
    ----------
    network : Network
    train, test : pair of array
    at : callable
        Function of times that returns the trajectory of the network.
    until : float
        Horizon.
    closed : bool
        Whether the trajectory is known at all times: the last one is then infinite.
    threshold : float or None
        Squared error that counts as correct; None for a tenth of the mean squared training error of the start, or of
        the mean squared training target if the start already fits.
    """
    times = _grid(network, until, closed)
    path = at(times)
    errors = squared_errors(path, test)
    losses = np.mean(errors, axis=-1) / 2
    train_errors = squared_errors(path, train)
    unit = max(ROUNDING, UNITS * float(np.finfo(network.precision).eps))
    limit = _default(train_errors[0], train, errors[0], unit) if threshold is None else threshold

    def least(t: np.ndarray) -> int:
        return int(np.argmin(np.mean(squared_errors(at(t), test), axis=-1)))

    rounding = max(unit * losses.max(), unit**2 * _mean_square(test[1]))
    k = int(np.argmin(losses)) if losses.min() < losses[-1] - rounding else len(times) - 1
    stop = float(times[k]) if k in (0, len(times) - 1) else _refined(times[k - 1], times[k + 1], least)
    found = _predicted(network, train, test) if len(network.weights) == 1 else {}
    deviations = {name: _largest(each, times, losses) for name, each in found.items()}
    return Generalization(
        samples=len(test[0]),
        until=float(times[-1]),
        start=float(losses[0]),
        least=min(float(losses.min()), _loss(at, stop, test)),
        end=float(losses[-1]),
        stop=stop,
        threshold=limit,
        train_time=_first(times, train_errors, at, train, limit),
        test_time=_first(times, errors, at, test, limit),
        train_share=float(np.mean(train_errors[-1] <= limit)),
        test_share=float(np.mean(errors[-1] <= limit)),
        predicted=found,
        deviations=deviations,
        parting=_parting(found, times),
    )


def _default(errors: np.ndarray, train: Samples, test_errors: np.ndarray, unit: float) -> float:
    """Return a tenth of the mean squared error of the start, or of the targets if the start fits them."""
    size = _mean_square(train[1])
    found = float(np.mean(errors))
    if found > unit**2 * size:
        return THRESHOLD * found
    return THRESHOLD * (size or float(np.mean(test_errors)) or 1.0)


def _mean_square(targets: np.ndarray) -> float:
    """Return the mean over samples of the squared norm of their targets."""
    return float(np.mean(np.sum(targets**2, axis=1)))


def _grid(network: Network, until: float, closed: bool) -> np.ndarray:
    """Return times up to the horizon, or to infinity: those that resolve every mode of a linear model."""
    if not closed:
        return np.append(0.0, np.geomspace(1e-4 * until, until, POINTS))
    ends = 1e-4 * until, 1e4 * until
    if len(network.weights) == 1:
        rates = network.power * network.rates[0]
        ends = 1e-2 / rates.max(), 1e2 / rates.min()
    return np.concatenate([[0.0], np.geomspace(*ends, POINTS), [np.inf]])


def _loss(at: At, t: float, test: Samples) -> float:
    return float(np.mean(squared_errors(at(np.array([t])), test)) / 2)


def _refined(low: float, high: float, pick: Callable[[np.ndarray], int]) -> float:
    """Return the time between two others that `pick` chooses on finer and finer grids."""
    if high == np.inf:
        return float(low)
    for _ in range(ROUNDS):
        t = np.linspace(low, high, FINER)
        k = pick(t)
        low, high = t[max(k - 1, 0)], t[min(k + 1, FINER - 1)]
    return float(t[k])


def _first(times: np.ndarray, errors: np.ndarray, at: At, samples: Samples, limit: float) -> float:
    """Return the first time at which enough squared errors are within the limit; inf if at none of them."""

    def enough(values: np.ndarray) -> np.ndarray:
        return np.asarray(np.mean(values <= limit, axis=-1) >= SHARE)

    there = enough(errors)
    if not there.any():
        return np.inf
    k = int(np.argmax(there))
    if k == 0:
        return 0.0
    return _refined(times[k - 1], times[k], lambda t: int(np.argmax(enough(squared_errors(at(t), samples)))))


def _predicted(network: Network, train: Samples, test: Samples) -> dict[str, Prediction]:
    """Return the predictions for a linear model; a bias is the weight of a constant input 1."""
    weights, ((X, Y), X_test) = network.weights[0], (train, test[0])
    if network.biases and network.biases[0] is not None:
        weights = np.concatenate([weights, network.biases[0][:, None]], axis=1)
        X, X_test = (np.concatenate([each, np.ones((len(each), 1))], axis=1) for each in (X, X_test))
    return predictions(X, Y - X @ weights.T, X_test, float(network.rates[0])) if X.any() else {}


def _largest(found: Prediction, times: np.ndarray, losses: np.ndarray) -> float:
    """Return the largest distance of the test loss from a prediction, in standard deviations."""
    spread, gap = found.test_loss_std(times), np.abs(losses - found.test_loss(times))
    known = np.isfinite(spread) & (spread > 0) & (losses >= COMPARED * losses[0])
    return float(np.max(gap[known] / spread[known], initial=0.0))


def _parting(found: dict[str, Prediction], times: np.ndarray) -> float | None:
    """Return the first time at which the predictions differ by several standard deviations."""
    if not found:
        return None

    def apart(t: np.ndarray) -> np.ndarray:
        own, isotropic = (found[name].test_loss(t) for name in ("spectrum", "isotropic"))
        return np.asarray(np.abs(own - isotropic) > APART * found["spectrum"].test_loss_std(t))

    there = apart(times)
    if not there.any():
        return np.inf
    k = int(np.argmax(there))
    return 0.0 if k == 0 else _refined(times[k - 1], times[k], lambda t: int(np.argmax(apart(t))))
