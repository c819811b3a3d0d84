"""Every public callable with good arguments, found from the package: flows by every engine, laws, functions."""

import dataclasses
import inspect
import types
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from good_values import BY_NAME, KERNEL, OWN, collapsing, deep
from systems.laws_of_networks import network_of

import linsolve as ls
from linsolve.core.flow import Flow
from linsolve.core.law import Expansion, Law, Statistic
from linsolve.core.map import Map
from linsolve.core.parameters import Parametrized
from linsolve.engines.evaluate import traceable

# words by which a message may name an argument, besides its name
WORDS = {
    "data": {"X", "Y", "inputs", "targets", "target", "Sigma_yx", "sigma", "G", "start", "weights"},
    "weights": {"layers", "h", "w", "b", "weight", "W1", "W2", "W3", "sigma", "G", "start"},
    "item": {"law"},
    "name": {"observable"},
    "source": {"set"},
    "widths": {"width"},
    "layers": {"layer", "weights"},
    "modes": {"u", "s", "v"},
    "z0": {"state", "start", "batch", "r", "f"},
    "z": {"state", "batch"},
    "r0": {"r", "state"},
    "f0": {"f", "state"},
    "covariance": {"covariances"},
    "traj": {"trajectory"},
    "axes": {"s", "tau"},
    "exponents": {"c_d", "c_gamma", "c_u", "c_w", "c_eta_u", "c_eta_w", "zero_output"},
    "reduce": {"levels", "bins"},
    "rates": {"rate", "sigma", "G", "start"},
    "rng": {"seed"},
    "checks": {"check"},
    "observe": {"observable"},
    "exact": {"traj"},
    "others": {"traj"},
    "trajs": {"traj"},
    "runs": {"run", "t", "a"},
    "start": {"state", "batch", "a"},
}
FRAMEWORK = ("example", "counterexamples", "symbols", "cast", "parameters", "observables", "compiled_solution", "state")
# steps of the laws' own proofs
STEPS = ("at", "blown_up", "layers_at_start", "of_network", "sample_errors", "small_of")
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
        if self.flow is not None and name in self.flow.axes:
            fields.add("state")
        return frozenset({name} | WORDS.get(name, set()) | fields)


def _subject(name: str, call: Any, good: Callable[[], dict[str, Any]], **more: Any) -> Subject:
    subject = Subject(name, call, good, frozenset(), **more)
    return subject._replace(names=frozenset().union(*(subject.aliases(key) for key in good())))


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
        cost = 1000 if engine == "compiled" and cls.__name__ in COMPILED_SLOWLY else 1
        yield _subject(
            f"{cls.__name__} ({engine or 'plain'})", flow_call(cls, engine or "plain"), good, cost=cost, flow=cls
        )
    flow, z0 = cls.example(np.random.default_rng(0))
    whole = {"flow": flow, "t": [0.0, 0.1], "z0": z0}
    yield _subject(
        f"integrate {cls.__name__}", ls.integrate, lambda: {**whole, "rtol": 1e-6, "max_evaluations": 500}, cost=4
    )
    yield _subject(f"descend {cls.__name__}", ls.descend, lambda: {**whole, "step": 0.01, "max_steps": 100}, cost=4)
    if cls.time_to is not Flow.time_to:
        yield _subject(
            f"{cls.__name__}.when", lambda z0, loss: flow.when(z0, loss=loss), lambda: {"z0": z0, "loss": 0.1}
        )
    if issubclass(cls, Map):
        descent = {"k": np.array([0, 3]), "z0": z0, "step": 0.01, "momentum": 0.0, "decay": 0.0, "samples": None}
        yield _subject(f"{cls.__name__}.discrete", flow.discrete, lambda: {**descent, "max_steps": 1000})
        steps = {"z0": z0, "loss": 0.1, "step": 0.01, "max_steps": 1000}
        yield _subject(f"{cls.__name__}.first_step", flow.first_step, lambda: dict(steps))
    yield from _methods(cls, INSTANCES.get(cls.__name__, lambda: flow)())


def _law_subject(cls: Any) -> Subject:
    law = cls.example(np.random.default_rng(0))
    own = [each for each in _public_methods(cls) if not hasattr(Expansion, each[0]) and each[0] != "drawn"]
    methods = [name for name, about in own if not about.parameters]  # `drawn` is of the size of the dimension

    def call(**given: Any) -> Any:
        law = cls(**given)
        with np.errstate(all="ignore"):  # formulas are pure; their results count
            found = law.approximation(np, 1e-2) if isinstance(law, Expansion) else law.prediction(np)
        return found | {name: getattr(law, name)() for name in methods}

    cost = {ls.laws.KernelRegression: 50, ls.laws.UnimodalBias: 20}.get(cls, 1)  # which integrate the network
    return _subject(f"laws.{cls.__name__}", call, lambda: {k: v.copy() for k, v in law.parameters().items()}, cost=cost)


def _law_methods(cls: Any) -> Iterator[Subject]:
    """Yield the methods of a law that a user calls, and the values of the law of a network at times."""
    law, proof = cls.example(np.random.default_rng(0)), (*dir(Expansion), *dir(Statistic))
    yield from _methods(cls, law, but=(*STEPS, *proof))
    if not cls.without_network():
        given = network_of(cls, **OWN.get(f"{cls.__name__}.of", {}))
        if cls.timed:
            given["t"] = np.array([0.0, 0.5])
        yield _subject(f"{cls.__name__}.of", partial(_values, cls), lambda: given, cost=10)


def _values(cls: Any, **given: Any) -> dict[str, Any]:
    """Return the values and the errors of the law of a network."""
    times = [given.pop("t")] if cls.timed else []
    traj = cls.of(**given)(*times)
    return {name: traj[name] for name in traj} | {f"error of {name}": traj.error[name] for name in traj}


def _methods(cls: Any, made: Any, but: Sequence[str] = ()) -> Iterator[Subject]:
    """Yield the methods that a user calls: all but formulas, which are functions of the namespace `xp`."""
    for name, about in _public_methods(cls):
        called = about.parameters and "xp" not in about.parameters and name not in but
        if called and f"{cls.__name__}.{name}" not in INTERNAL:
            yield _function(f"{cls.__name__}.{name}", getattr(made, name))


def _public_methods(cls: Any) -> Iterator[tuple[str, inspect.Signature]]:
    """Yield the public methods of a class with their signatures without `self` and `cls`."""
    for name in dir(cls):
        raw = inspect.getattr_static(cls, name)
        method = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
        hidden = name.startswith("_") or name in (*FRAMEWORK, "when") or raw in (Map.discrete, Map.first_step)
        if not hidden and inspect.isfunction(method):
            about = inspect.signature(method)
            kept = [each for key, each in about.parameters.items() if key not in ("self", "cls")]
            yield name, about.replace(parameters=kept)


# functions


INSTANCES = {
    "FrozenKernel": lambda: ls.FrozenKernel(KERNEL, [1.0, 0.0]),
    "BlockKernel": lambda: ls.BlockKernel(3.0, 2.0, 1.0, [2, 2]),
    "SpecializedKernel": lambda: ls.SpecializedKernel([3.0, 2.0], [[2.0, 0.5], [0.5, 1.0]], [2, 2]),
    "NeuralCollapse": collapsing,
}
VARIADIC = {
    "cite": lambda item: ls.cite(item),
    "ensembles.of": lambda flow, name, s, **options: ls.ensembles.of(flow, name, **options)(s=s),
    "sweep": lambda observe, s, tau, **options: ls.sweep(observe, s=s, tau=tau, **options),
}
SLOW = {
    "LoRA.simulate": 4,
    "WhitenedTwoLayer.weights": 50,
    "UnimodalBias.simulated": 20,
    "verify": 40,
    "learn": 40,
    "solve": 50,
    "compare": 20,
    "applies": 10,
    "collapse.collapse": 40,
    "phases.diagram": 40,
    "ensemble": 10,
    "sweep": 10,
}
LEFT_OUT = {
    "GeneralizationOfAlignedStudent.accuracy": "for one output; tests/systems/generalization",
    "GeneralizationOfAlignedStudent.train_accuracy": "refused; tests/systems/generalization",
    "arithmetic.cast": "passes any value on; its users check it",
    "arithmetic.constant": "passes any value on; its users check it",
    "arithmetic.exact": "a step of formulas",
    "arithmetic.first_order": "a step of formulas",
    "arithmetic.holds": "a predicate of masks",
    "arithmetic.implicit": "takes functions of formulas",
    "arithmetic.repeated": "takes a step of formulas",
    "arithmetic.is_cupy": "a predicate of any values",
    "arithmetic.is_double": "a predicate of any values",
    "arithmetic.is_object": "a predicate of namespaces",
    "arithmetic.is_traced": "a predicate of any values",
    "arithmetic.namespace": "a function of any values",
    "arithmetic.precision": "a function of a namespace",
    "arithmetic.ratio": "a step of formulas",
    "arithmetic.spacing": "a function of a checked double",
    "arithmetic.to_numpy": "passes any array on",
    "arithmetic.symbolic": "a function of SymPy symbols",
    "collapse.follow": "takes a route, integrate or descend, which are subjects",
    "ensembles.run": "takes tasks and a function of any kind",
    "ntk.first_step.tangent": "takes the networks that `draw` returns",
    "ntk.sampling.explicit_kernels": "takes an activation that `named` returns",
    "plot.animate": "takes a function that draws; tests/plot",
    "plot.interact": "takes a function that draws; tests/plot",
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
            found[name] = BY_NAME[name]
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
    for cls in (each for each in ls.laws.ALL if issubclass(each, Law)):
        found += [_law_subject(cls), *_law_methods(cls)]
    seen: set[int] = set()
    for key, function in functions():
        if key not in LEFT_OUT and id(function) not in seen and inspect.signature(function).parameters:
            seen.add(id(function))
            found.append(_function(key, function))
    found += _methods(ls.deep.DeepNetwork, deep())
    found += _methods(ls.data.Whitened, ls.data.whiten(BY_NAME["X"], BY_NAME["Y"]))
    return {subject.name: subject for subject in found if subject.name not in LEFT_OUT}
