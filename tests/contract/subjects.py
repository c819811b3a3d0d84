"""Every public callable with good arguments: flows by every engine, laws, methods and functions, found from the package."""

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

import linsolve as ls
from linsolve.core.flow import Flow
from linsolve.core.law import Expansion, Law
from linsolve.core.parameters import Parametrized
from linsolve.engines.evaluate import traceable

# words by which a message may name an argument, besides its name
WORDS = {
    "data": {"X", "Y", "inputs", "targets"},
    "weights": {"layers", "h", "w", "b", "weight", "W1", "W2"},
    "item": {"law"},
    "name": {"observable"},
    "source": {"set"},
    "widths": {"width"},
    "layers": {"layer", "weights"},
    "modes": {"u", "s", "v"},
    "z0": {"state", "start", "batch", "r", "f"},
    "z": {"state", "batch"},
    "start": {"state", "batch"},
    "r0": {"r", "state"},
    "f0": {"f", "state"},
    "covariance": {"covariances"},
    "traj": {"trajectory"},
    "axes": {"s", "tau"},
    "exponents": {"c_d", "c_gamma", "c_u", "c_w", "c_eta_u", "c_eta_w", "zero_output"},
    "reduce": {"levels", "bins"},
    "rates": {"rate"},
}
FRAMEWORK = ("example", "counterexamples", "symbols", "cast", "parameters", "observables", "compiled_solution", "state")
INTERNAL = ("TwoLayerOrder.made", "WhitenedTwoLayer.prospect")
COMPILED_SLOWLY = ("DeepMode", "WhitenedTwoLayer")  # seconds for each set of constants
EXACT = (ls.BalancedMode, ls.DeepMode, ls.TwoLayerOrder)  # single numbers, evaluated in cheap 50 digits


class Subject(NamedTuple):
    """A public callable, a function that returns its good arguments, and the words of its messages."""

    name: str
    call: Callable[..., Any]
    good: Callable[[], dict[str, Any]]
    names: frozenset[str]
    cost: int = 1  # share of the calls: 1 / cost
    flow: Any = None  # class of a flow that is called

    def aliases(self, name: str) -> frozenset[str]:
        """Return the words that name an argument."""
        value = self.good().get(name)
        fields = set(getattr(value, "_fields", ()))
        if isinstance(value, Parametrized):
            fields |= set(value.parameters())
        return frozenset({name} | WORDS.get(name, set()) | fields)


def _subject(name: str, call: Any, good: Callable[[], dict[str, Any]], **more: Any) -> Subject:
    words = {word for key in good() for word in Subject(name, call, good, frozenset()).aliases(key)}
    return Subject(name, call, good, frozenset(words), **more)


# flows and laws


def _first(cls: Any, seed: int = 0) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    flow, z0 = cls.example(np.random.default_rng(seed))
    return {k: v.copy() for k, v in flow.parameters().items()}, {k: np.array(v) for k, v in z0._asdict().items()}


def flow_call(cls: Any, engine: str | None) -> Callable[..., Any]:
    """Return a function of all parameters, fields of the state and times."""
    fields = [field.name for field in dataclasses.fields(cls)]

    def call(t: Any, **given: Any) -> Any:
        flow = cls(**{name: given.pop(name) for name in fields})
        return flow(t, cls.State(**given), engine=engine)

    return call


@lru_cache
def good_flow(cls: Any) -> dict[str, Any]:
    """Return parameters, fields of a state and times of an example."""
    parameters, start = _first(cls)
    return {**parameters, **start, "t": np.array([0.0, 0.3, 2.0])}


def _flow_subjects(cls: Any) -> Iterator[Subject]:
    good = partial(good_flow, cls)
    engines = [None, "blocks", "compiled"] if traceable(cls, None) else [None]
    engines += ["compiled"] if hasattr(cls, "compiled_solution") else []
    for engine in engines:
        cost = 50 if engine == "compiled" and cls.__name__ in COMPILED_SLOWLY else 1
        yield _subject(f"{cls.__name__} ({engine or 'plain'})", flow_call(cls, engine or "plain"), good, cost=cost, flow=cls)
    flow, z0 = cls.example(np.random.default_rng(0))
    whole = {"flow": flow, "t": [0.0, 0.1], "z0": z0}
    yield _subject(f"integrate {cls.__name__}", ls.integrate, lambda: {**whole, "rtol": 1e-6, "max_evaluations": 1000}, cost=4)
    yield _subject(f"descend {cls.__name__}", ls.descend, lambda: {**whole, "step": 0.01, "max_steps": 100}, cost=4)
    if cls.time_to is not Flow.time_to:
        yield _subject(f"{cls.__name__}.when", lambda z0, loss: flow.when(z0, loss=loss), lambda: {"z0": z0, "loss": 0.1})
    yield from _methods(cls, INSTANCES.get(cls.__name__, lambda: flow)())


def _law_subject(cls: Any) -> Subject:
    law = cls.example(np.random.default_rng(0))

    def call(**given: Any) -> Any:
        law = cls(**given)
        with np.errstate(all="ignore"):  # formulas are pure; their results count
            return law.approximation(np, 1e-2) if isinstance(law, Expansion) else law.prediction(np)

    cost = 50 if cls is ls.laws.KernelRegression else 1  # which integrates the network
    return _subject(f"laws.{cls.__name__}", call, lambda: {k: v.copy() for k, v in law.parameters().items()}, cost=cost)


def _methods(cls: Any, made: Any) -> Iterator[Subject]:
    """Yield the methods that a user calls: all but formulas, which are functions of the namespace `xp`."""
    for name in dir(cls):
        raw = inspect.getattr_static(cls, name)
        method = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
        if name.startswith("_") or name in (*FRAMEWORK, "when") or not inspect.isfunction(method):
            continue
        names = [n for n in inspect.signature(method).parameters if n not in ("self", "cls")]
        if names and "xp" not in names and f"{cls.__name__}.{name}" not in INTERNAL:
            yield _function(f"{cls.__name__}.{name}", getattr(made, name))


# functions


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@lru_cache
def _arrays() -> dict[str, Any]:
    draw = rng()
    layers = [draw.normal(size=shape) / 2 for shape in ((4, 3), (2, 4))]
    X = draw.normal(size=(9, 3))
    return {"layers": layers, "X": X, "Y": X @ draw.normal(size=(3, 2))}


def _mode() -> ls.BalancedMode:
    return ls.BalancedMode(s=[1.0, 2.0])


def _two() -> tuple[Any, Any]:
    return ls.TwoLayer(y=1.0, x=[1.0, 2.0]), ls.TwoLayer.init(3, 2, rng=0)


def _collapsing() -> ls.NeuralCollapse:
    return ls.NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=3, m=4)


def _deep() -> ls.deep.DeepNetwork:
    return ls.deep.DeepNetwork.init((np.eye(3)[:, :2], np.array([2.0, 1.0]), np.eye(2)), [0.1, 0.2], depth=3)


def _trajectory() -> Any:
    return ls.WhitenedTwoLayer(np.diag([2.0, 1.0]))([0.0, 1.0], ls.WhitenedTwoLayer.of(0.1 * np.eye(2), 0.1 * np.eye(2)))


KERNEL = np.array([[2.0, 1.0], [1.0, 2.0]])
# good values by name of an argument
BY_NAME: dict[str, Callable[[], Any]] = {
    "X": lambda: _arrays()["X"].copy(), "Y": lambda: _arrays()["Y"].copy(), "activation": lambda: "relu",
    "alpha": lambda: 2.0, "axes": lambda: ("d",), "ax": lambda: None, "b": lambda: np.full(3, 1 / 3), "batch": lambda: (2,),
    "beta": lambda: np.array([1.0, 1.0, 0.5]), "bias": lambda: False, "bias_variance": lambda: 0.1, "biases": lambda: 0.8,
    "bits": lambda: 100, "block": lambda: 16, "bounds": lambda: "[0, inf)", "c": lambda: 5.0, "c_d": lambda: 1, "c_eta_u": lambda: 0,
    "c_eta_w": lambda: 0, "c_gamma": lambda: -0.5, "c_u": lambda: 0, "c_w": lambda: 0, "cells": lambda: 11, "center": lambda: True,
    "checks": lambda: ["residual"], "classes": lambda: None, "count": lambda: 5, "covariance": lambda: np.eye(3),
    "covariances": lambda: False, "d0": lambda: 2, "data": lambda: (_arrays()["X"].copy(), _arrays()["Y"].copy()),
    "dataset": lambda: ls.data.tree(2), "default": lambda: 1.0, "depth": lambda: 2, "doc": lambda: "a rate", "domain": lambda: "(0, inf)",
    "dps": lambda: 20, "engine": lambda: "plain", "eta": lambda: 0.5, "eta_u": lambda: 1.0, "eta_w": lambda: 0.5,
    "exponents": lambda: ls.phases.Exponents(1.0, -0.5, 0.0, 0.0, 0.0, 0.0), "f": lambda: np.array([1.0, 0.5]),
    "f0": lambda: np.array([0.1, 0.2]), "flow": lambda: _two()[0], "fraction": lambda: 0.5, "gain": lambda: 0.4, "gamma": lambda: 1.0,
    "gram": lambda: np.array([[1.0, 0.2], [0.2, 0.5]]), "h": lambda: 4, "imbalance": lambda: 0.0, "item": lambda: "BalancedMode",
    "jacobian": lambda: np.linalg.cholesky(KERNEL), "kappa": lambda: (10.0, 100.0), "kernel": KERNEL.copy, "layer": lambda: 2,
    "layers": lambda: [w.copy() for w in _arrays()["layers"]], "levels": lambda: 2, "log": lambda: False, "max_steps": lambda: 100,
    "members": lambda: 20, "momentum": lambda: 0.5, "most": lambda: 20, "n": lambda: 5, "n_in": lambda: 3, "n_out": lambda: 2,
    "name": lambda: "loss", "norm_squared": lambda: 0.7, "observe": lambda: "loss", "omega": lambda: np.array([1.0, 0.5, 2.0]),
    "progress": lambda: False, "q": lambda: 0.4, "rate": lambda: 1.0, "rates": lambda: np.array([1.0, 0.5]), "ratio": lambda: 0.5,
    "rng": lambda: 0, "rtol": lambda: 1e-6, "s11": lambda: 0.5, "s12": lambda: 0.3, "s22": lambda: 0.7, "scale": lambda: 0.3,
    "seed": lambda: 0, "sigma1": lambda: 1.0, "sigma2": lambda: 1.0, "sigma_u": lambda: 1.0, "sigma_w": lambda: 1.0,
    "sizes": lambda: np.array([2, 2]), "slope": lambda: 0.0, "source": lambda: None, "step": lambda: 0.05, "symbol": lambda: "k",
    "t": lambda: np.array([0.0, 0.5]), "target": lambda: np.arange(1.0, 7.0).reshape(2, 3), "threads": lambda: 1,
    "tolerance": lambda: 1e-6, "top": lambda: 1, "typical": lambda: (0.5, 2.0), "unbiased": lambda: False, "until": lambda: 1.0,
    "value": lambda: 1.0, "variances": lambda: 1.0, "verdict": lambda: None, "weight_variance": lambda: 1.5, "weighted": lambda: True,
    "weights": lambda: [w.copy() for w in _arrays()["layers"]], "whole": lambda: False, "width": lambda: 3,
    "widths": lambda: np.array([3, 4, 2]), "x": lambda: np.eye(2), "xp": lambda: np, "y": lambda: np.array([1.0, 0.0]),
    "z": lambda: _two()[1], "z0": lambda: _two()[1], "zero_output": lambda: False,
}  # fmt: skip
COLLAPSED = {"features": 4, "scale": 0.3, "seed": 0, "until": 2.0, "step": 0.05}
# good values of single functions
OWN: dict[str, dict[str, Any]] = {
    "verify": {"flow": _mode(), "z0": np.array([0.1, 0.2])},
    "integrate": {"flow": _mode(), "z0": np.array([0.1, 0.2]), "method": "RK45", "max_evaluations": 500, "atol": 1e-9},
    "descend": {"flow": _mode(), "z0": np.array([0.1, 0.2])},
    "cite": {"item": "BalancedMode"},
    "parameter": {"axes": ("d",)},
    "observable": {"axes": ("d",)},
    "learn": {"depth": 2, "width": 4, "scale": 0.1, "step": 0.05},
    "solve": {"bias": None, "activation": None},
    "collapse.collapse": {"flow": _collapsing(), "start": "balanced", "weights": None, "bias": 0.1, "imbalance": None, **COLLAPSED},
    "collapse.aligned_limit": {"flow": _collapsing(), "epsilon": np.array([-0.5, 0.5])},
    "collapse.balanced_limit": {"flow": _collapsing()},
    "deep.deep_weights": {"depth": 2},
    "ensemble": {"factory": ls.ensembles.random_networks(100), "reduce": ("mean", "max"), "nonfinite": "raise", "executor": None},
    "ensembles.of": {"flow": ls.BalancedMode, "name": "loss", "start": 0.1, "t": 1.0, "s": 1.0},
    "sweep": {"rng": None, "observe": ls.ensembles.of(ls.BalancedMode, "loss", t=1.0, start=0.1), "store": None, "executor": None,
              "s": np.array([1.0, 2.0]), "tau": [1.0, 2.0]},
    "kernels.anisotropy_directions": {"layers": [np.eye(3)[:2], np.ones((1, 2))]},
    "kernels.input_kernel": {"layers": [np.eye(3)[:2], np.ones((1, 2))]},
    "ntk.moments": {"weights": "ntk"},
    "ntk.parametrization": {"name": "ntk"},
    "ntk.mean_field.kernels": {"depth": 3},
    "ntk.mean_field.phase": {"found": 1.0, "error": 1e-9},
    "ntk.mean_field.piecewise_linear": {"slope": 0.1},
    "ntk.limits.dispersion": {"found": "edge of chaos"},
    "ntk.limits.first_step": {"found": "edge of chaos"},
    "ntk.limits.phi_1": {"z": 0.3}, "ntk.limits.phi_2": {"z": 0.3}, "ntk.limits.phi_3": {"z": 0.3},
    "ntk.first_step.draw": {"rng": rng()},
    "ntk.sampling.explicit": {"rng": rng()},
    "phases.diagram": {"name": "chaos"},
    "phases.measured_phase": {"found": ls.phases.Slopes(0.0, -0.5, 0.0), "tolerance": 0.02},
    "phases.diagnose": {},
    "phases.medians": {"kappa": 10.0},
    "phases.networks": {"y": 1.0},
    "phases.classify": {},
    "plot.alignment": {"traj": _trajectory(), "name": "kernel_alignment"},
    "plot.modes": {"traj": _trajectory(), "name": "singular_values"},
    "plot.trajectory": {"traj": _trajectory()},
    "plot.routes": {"trajs": {"exact": _trajectory()}, "top": None},
    "plot.differences": {"exact": _trajectory(), "others": {"again": _trajectory()}},
    "published.about": {"name": "BalancedMode"},
    "data.load": {"source": "tree", "target": None},
    "kernels.energy_concentration": {"top": 1},
    "WhitenedTwoLayer.of": {"w1": np.eye(3)[:2], "w2": np.eye(3)[:, :2]},
    "WhitenedTwoLayer.weights": {"w1": 0.1 * np.eye(3), "w2": 0.1 * np.eye(4)[:, :3]},
    "NeuralCollapse.of": {"h": np.full((4, 12), 0.1), "w": np.full((3, 4), 0.1), "b": np.zeros(3)},
    "NeuralCollapse.imbalance_of": {"h": np.full((4, 12), 0.1), "w": np.full((3, 4), 0.1)},
    "NeuralCollapse.equal_bias_limit": {"beta": 0.2},
    "TwoLayer.from_dataset": {"X": np.array([[1.0, 2.0], [2.0, 4.0]]), "y": np.array([1.0, 2.0])},
    "LazyTwoLayer.from_dataset": {"X": np.array([[1.0, 2.0], [2.0, 4.0]]), "y": np.array([1.0, 2.0]), "reference": _two()[1]},
    "TwoLayer.from_lazy": {"X": np.array([1.0, 2.0]), "y": 3.0, "z0": None},
    "LazyTwoLayer.from_lazy": {"X": np.array([1.0, 2.0]), "y": 3.0, "z0": None},
    "TwoLayerOrder.of": {},
    "FrozenKernel.discrete": {"k": np.array([0, 2]), "z0": np.zeros(2), "step": 0.1, "allow_divergence": False},
    "FrozenKernel.largest_step": {}, "BlockKernel.largest_step": {}, "SpecializedKernel.largest_step": {},
    "FrozenKernel.parameters_at": {"theta0": np.zeros(2), "f0": np.zeros(2)},
    "FrozenKernel.predict": {"k_x": np.ones((1, 2)), "f0_x": np.zeros(1)},
    "BlockKernel.discrete": {"k": np.array([0, 2]), "z0": np.ones(4), "step": 0.1, "allow_divergence": False},
    "SpecializedKernel.discrete": {"k": np.array([0, 2]), "z0": np.ones(4), "step": 0.1, "allow_divergence": False},
    "BlockKernel.predict": {"r0": np.ones(4), "labels": np.array([0, 1]), "f0_x": np.zeros(2)},
    "SpecializedKernel.predict": {"r0": np.ones(4), "labels": np.array([0, 1]), "f0_x": np.zeros(2)},
    "SpecializedKernel.of_outputs": {"own": (3.0, 2.0, 1.0), "other": (2.0, 1.0, 0.5)},
    "DeepNetwork.init": {"modes": (np.eye(3)[:, :2], np.array([2.0, 1.0]), np.eye(2)), "start": np.array([0.1, 0.2]), "depth": 2,
                         "widths": 4},
    "DeepNetwork.of": {"rates": 1.0, "layers": [0.1 * np.eye(2), 0.1 * np.eye(2)], "target": np.diag([2.0, 1.0]), "covariance": np.eye(2)},
    "deep.distances": {"layers": [0.1 * np.eye(2), 0.1 * np.eye(2)], "target": np.diag([2.0, 1.0]), "covariance": np.eye(2)},
    "DeepNetwork.output": {"x": np.array([[1.0, 2.0]])},
    "DeepNetwork.ntk": {"x1": np.array([[1.0, 2.0]]), "x2": np.array([[1.0, 0.0]])},
    "DeepNetwork.layer_kernel": {"x1": np.array([[1.0, 2.0]]), "x2": np.array([[1.0, 0.0]])},
    "WhitenedTwoLayer.init": {"n_in": 3, "n_out": 4},
    "Whitened.predict": {"product": np.ones((2, 3))},
    "Whitened.raw": {"product": np.ones((2, 3))},
}  # fmt: skip
INSTANCES = {
    "FrozenKernel": lambda: ls.FrozenKernel(KERNEL, [1.0, 0.0]),
    "BlockKernel": lambda: ls.BlockKernel(3.0, 2.0, 1.0, [2, 2]),
    "SpecializedKernel": lambda: ls.SpecializedKernel([3.0, 2.0], [[2.0, 0.5], [0.5, 1.0]], [2, 2]),
    "NeuralCollapse": _collapsing,
}
VARIADIC = {
    "cite": lambda item: ls.cite(item),
    "ensembles.of": lambda flow, name, t, start, engine, s: ls.ensembles.of(flow, name, t=t, start=start, engine=engine)(s=s),
    "sweep": lambda observe, s, tau, **options: ls.sweep(observe, s=s, tau=tau, **options),
}
SLOW = {"verify": 40, "learn": 40, "solve": 10, "applies": 10, "collapse.collapse": 40, "phases.diagram": 40, "ensemble": 10, "sweep": 10}
LEFT_OUT = {
    "arithmetic.cast": "passes any value on; its users check it",
    "arithmetic.is_object": "a predicate of namespaces",
    "arithmetic.namespace": "a function of any values",
    "arithmetic.precision": "a function of a namespace",
    "arithmetic.spacing": "a function of a checked double",
    "arithmetic.to_numpy": "passes any array on",
    "arithmetic.symbolic": "a function of SymPy symbols",
    "collapse.follow": "takes a route, integrate or descend, which are subjects",
    "ensembles.run": "takes tasks and a function of any kind",
    "ntk.first_step.tangent": "takes the networks that `draw` returns",
    "ntk.sampling.explicit_kernels": "takes an activation that `named` returns",
    "plot.figure": "passes everything to Matplotlib",
    "phases.write": "writes files; tests/studies",
}


def _good(key: str, function: Any) -> dict[str, Any]:
    """Return good arguments of a function: its own, or those of the same name elsewhere; all that it has."""
    own, found = OWN.get(key, {}), {}
    names = dict(inspect.signature(function).parameters)
    for name, about in names.items():
        if about.kind in (about.VAR_KEYWORD, about.VAR_POSITIONAL):
            continue
        if name in own:
            found[name] = own[name]
        elif name in BY_NAME:
            found[name] = BY_NAME[name]()
        elif about.default is about.empty:
            raise LookupError(f"{key}: {name} has no good value; add one to tests/contract/subjects.py")
    return found | {k: v for k, v in own.items() if k not in names}


def _function(key: str, function: Any) -> Subject:
    given = _good(key, function)
    call = VARIADIC.get(key, function)
    return _subject(key, call, partial(dict, given), cost=SLOW.get(key, 20 if key.startswith("plot.") else 1))


def functions(prefix: str = "", space: Any = ls) -> Iterator[tuple[str, Any]]:
    """Yield the public functions of the package by their names."""
    names = getattr(space, "__all__", None) or [n for n in dir(space) if not n.startswith("_")]
    held = {name: getattr(space, name) for name in names}
    for name, value in sorted(held.items(), key=lambda item: isinstance(item[1], types.ModuleType)):
        if isinstance(value, types.ModuleType) and value.__name__.startswith("linsolve") and prefix in ("", "ntk."):
            yield from functions(f"{prefix}{name}.", value)
        elif inspect.isfunction(value):
            yield f"{prefix}{name}", value


@lru_cache
def subjects() -> dict[str, Subject]:
    """Return every subject by name."""
    found = [subject for cls in ls.flows.ALL for subject in _flow_subjects(cls)]
    found += [_law_subject(cls) for cls in ls.laws.ALL if issubclass(cls, Law)]
    seen: set[int] = set()
    for key, function in functions():
        if key not in LEFT_OUT and id(function) not in seen and inspect.signature(function).parameters:
            seen.add(id(function))
            found.append(_function(key, function))
    found += [*_methods(ls.deep.DeepNetwork, _deep()), *_methods(ls.data.Whitened, ls.data.whiten(*(_arrays()[k] for k in "XY")))]
    return {subject.name: subject for subject in found}
