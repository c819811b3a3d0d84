"""Explorable of generalization in time: double descent, overfitting, the value of stopping early."""

from __future__ import annotations

import math
from typing import Any

from linsolve.studies.explorables.page import IMPORTS, Axis, Curve, Explorable, Panel, Slider, flow_with
from linsolve.systems.generalization.in_time import GeneralizationInTime

__all__ = ["EXPLORABLES"]


def _errors(xp: Any, t: Any, ratio: Any, noise: Any) -> dict[str, Any]:
    """Return test and train error; `ratio` is the number of samples per input."""
    law = flow_with(xp, GeneralizationInTime, samples=ratio, noise_variance=noise)
    return {"test": law.test_mean(xp, t) + noise, "train": law.train_mean(xp, t)}


def _test_error(xp: Any, t: Any, ratio: Any, noise: Any) -> dict[str, Any]:
    """Return the test error."""
    return {"test": _errors(xp, t, ratio, noise)["test"]}


DOUBLE_DESCENT = Explorable(
    title="Double descent in time",
    text="A linear model learns from $n$ noisy samples of $d$ Gaussian inputs by gradient flow, from zero weights; "
    "both numbers are large. The test error falls, and rises again where noise is fitted. Trained to the end, it peaks "
    "at $n = d$; stopped in time, it has no peak. $S$ is an average over the law of Marchenko and Pastur.",
    equation=r"E_{test}(t) = S(2 t) + \sigma^2 + 2 (d/n) \sigma^2 \int_0^t [S(\tau) - S(2 \tau)] d \tau, \emsp "
    r"S(\tau) = \lang e^{-\lambda \tau} \rang",
    sliders=(
        Slider("ratio", "samples per input, $n/d$", 0.1, 10.0, 1.2),
        Slider("noise", "variance of the label noise, $\\sigma^2$", 0.0, 1.0, 0.25, 0.05),
        Slider("time", "training time of the second plot, $t$", 0.01, 1e4, 10.0),
    ),
    panels=(
        Panel(
            "Errors in time",
            Axis("training time t", log=True),
            Axis("mean squared error", 0.0, 2.5),
            "t",
            (0.01, 1e4, "log"),
            (Curve("test error", "test", width=2.6), Curve("train error", "train", color="vermilion", dash="9 4")),
            formula="errors",
            points=81,
            line="time",
        ),
        Panel(
            "Test error over the number of samples",
            Axis("samples per input n/d", log=True),
            Axis("mean squared test error", 0.0, 2.5),
            "ratio",
            (0.1, 10.0, "log"),
            (
                Curve("at the time of the slider", "test", given={"t": "time"}, width=2.6),
                Curve("trained to the end", "test", given={"t": math.inf}, color="black", dash="3 3"),
            ),
            formula="test_error",
            points=71,
            line="ratio",
        ),
    ),
    formulas={"errors": _errors, "test_error": _test_error},
    code=IMPORTS + "law = ls.laws.GeneralizationInTime(dimension=1.0, samples={ratio}, noise_variance={noise})\n"
    "t = np.geomspace(0.01, 1e4, 81)\n"
    "test, train = law.test_error(t), law.train_error(t)\n",
)

EXPLORABLES = {"double-descent": DOUBLE_DESCENT}
