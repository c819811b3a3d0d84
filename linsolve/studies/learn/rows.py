"""Numbers of a run as text, by section."""

from __future__ import annotations

from typing import Any

from linsolve.core.arguments import printable
from linsolve.studies.learn.learned import Learned
from linsolve.studies.learn.page import map_text
from linsolve.studies.page import Row

__all__ = ["ROUTES", "summary"]

ROUTES = {"exact": "closed form", "integrated": "ODE integrator (DOP853)", "descended": "gradient descent"}


def summary(found: Learned) -> dict[str, list[Row]]:
    """Return the numbers of a run, by section, as text."""
    data, network = _data_rows(found), _network_rows(found)
    return {"The data": data, "The network": network, "Differences of the three routes": _difference_rows(found)}


def _data_rows(found: Learned) -> list[Row]:
    problem, dataset = found.problem, found.dataset
    dropped = [dataset.features[i] for i in problem.dropped]
    rows = [
        Row("samples", str(len(dataset.inputs))),
        Row("features", str(len(dataset.features)), _constant(dropped)),
        Row("rank", str(problem.rank), f"white inputs kept; directions below {problem.tolerance:.0e} dropped"),
    ]
    if dataset.classes:
        rows.append(Row("classes", str(len(dataset.classes)), _shorten(dataset.classes)))
    else:
        rows.append(Row("targets", str(dataset.targets.shape[1]), "real"))
    singular = [f"{s:.4g}" for s in found.modes.s]
    rows.append(Row("singular values", _shorten(singular), "of S: the modes to learn"))
    return rows


def _constant(dropped: list[str]) -> str:
    return f"{len(dropped)} constant and left out: {_shorten(dropped, 4)}" if dropped else ""


def _network_rows(found: Learned) -> list[Row]:
    used, loss, offset = found.settings, found.exact["loss"], found.problem.offset
    start = (
        [Row("imbalance", f"{used['imbalance']:g}", "W₂ᵀW₂ = W₁W₁ᵀ + imbalance · 1")] if found.network is None else []
    )
    rows = [
        Row("depth", str(used["depth"]), "layers"),
        *([Row("width", str(used["width"]), "hidden units")] if used["depth"] > 1 else []),
        Row("scale", f"{used['scale']:.4g}", f"of the initial weights, seed {used['seed']}"),
        *start,
        Row("learning rate", f"{used['rate']:g}", "1/τ"),
        Row("time followed", f"{found.exact.t[-1]:.4g}", f"in units where τ = {1 / used['rate']:g}"),
        Row("loss, start to end", f"{loss[0]:.4g} to {loss[-1]:.3g}", "L, the part that can be learned"),
        Row("remaining loss", f"{offset:.4g}", "of the best linear map"),
    ]
    accuracy = found.accuracy()
    if accuracy is not None:
        rows.append(Row("accuracy at the end", f"{accuracy[-1]:.1%}", "on the same samples, by the largest output"))
    if found.network is not None:
        times = [f"{t:.4g}" for t in found.network.learning_times()]
        return [*rows, Row("learning times", _shorten(times), "time to half the strength of each mode, in closed form")]
    verdict = "target not reachable: the exact solution ends on a saddle" if found.obstructed else "target reachable"
    meaning = "det W₂(0)W₁(0) and det S have opposite signs, and the flow keeps them" if found.obstructed else ""
    rows.append(Row("parity", verdict, meaning))
    return rows


def _difference_rows(found: Learned) -> list[Row]:
    step, seconds, product = found.settings["step"], found.seconds, map_text(found.settings["depth"])
    labels = {
        "integrated": "ODE integrator",
        "descended": f"gradient descent, step {step:.3g}",
        "halved": f"gradient descent, step {step / 2:.3g}",
    }
    rows = [
        Row(label, f"{d.product:.1e}", f"from the closed form, of the map {product}; {d.loss:.1e} of the loss")
        for label, d in ((labels[name], found.differences[name]) for name in labels)
    ]
    if found.theory is not None:
        own = found.differences["theory"]
        meaning = f"from gradient descent, step {step:.3g}, of the map {product}; {own.loss:.1e} of the loss"
        rows.append(Row("theory of gradient descent", f"{own.product:.1e}", meaning))
    rows.append(Row("error ratio when the step is halved", f"{found.order:.3f}", "2 for a method of first order"))
    spent = ", ".join(f"{label} {seconds[name]:.2g} s" for name, label in ROUTES.items())
    rows.append(Row("time spent", f"{sum(seconds.values()):.2g} s", spent))
    return rows


def _shorten(values: Any, most: int = 12) -> str:
    values = list(values)
    return printable(", ".join(values[:most])) + (f", … ({len(values)} in all)" if len(values) > most else "")
