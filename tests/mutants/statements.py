"""One wrong formula for each statement of each flow and for each law, made by subclassing its class."""

from typing import Any, NamedTuple

import numpy as np

import linsolve as ls
from linsolve.core.verify.case import implements

SLIGHTLY = 1 + 1e-9
STATEMENTS = (
    *("loss", "velocity", "descent", "solution", "along", "conditions", "invariants", "rates"),
    *("limit", "time_to", "lifetime", "step"),
)


class Wrong(NamedTuple):
    """A wrong formula: the class that holds it, the seed of its example, and the check that should see it."""

    cls: Any
    seed: int
    seen_by: str


def changed(base: type, **methods: Any) -> Any:
    """Return a subclass with other methods, each a function of (the original bound method, self, *arguments)."""

    def method(name: str, change: Any) -> Any:
        original = getattr(base, name)

        def wrong(self: Any, *arguments: Any, **options: Any) -> Any:
            return change(lambda *a, **o: original(self, *a, **o), self, *arguments, **options)

        if hasattr(original, "observable"):
            wrong.observable = original.observable
        return wrong

    members = {name: method(name, change) for name, change in methods.items()}
    return type(f"{base.__name__}With{'And'.join(methods)}", (base,), members)


def _scaled(state: Any, factor: float) -> Any:
    return type(state)(*(factor * v for v in state))


def _growing(true: Any, self: Any, xp: Any, z: Any) -> Any:
    found = true(xp, z)
    name = next(iter(found))
    extra = self.loss(xp, z)
    return found | {name: found[name] + xp.reshape(extra, extra.shape + (1,) * (found[name].ndim - extra.ndim))}


def _second_order(true: Any, self: Any, xp: Any, z: Any, h: Any) -> Any:
    """Return the step with the sign of its terms beyond the first order flipped."""
    velocity = self.velocity(xp, z)
    return self.State(*(2 * (a + h * v) - b for a, v, b in zip(z, velocity, true(xp, z, h), strict=True)))


CHANGES: dict[str, tuple[Any, str]] = {
    "loss": (lambda true, self, xp, z: true(xp, z) + 1, "definition"),
    "velocity": (lambda true, self, xp, z: _scaled(true(xp, z), SLIGHTLY), "velocity"),
    "descent": (lambda true, self, xp, z, g: _scaled(true(xp, z, g), SLIGHTLY), "velocity"),
    "solution": (lambda true, self, xp, t, z0: true(xp, t * SLIGHTLY, z0), "residual"),
    "along": (lambda true, self, xp, t, z0: {k: SLIGHTLY * v for k, v in true(xp, t, z0).items()}, "along"),
    "conditions": (lambda true, self, xp, z0: {k: 0 * v for k, v in true(xp, z0).items()}, "conditions"),
    "invariants": (_growing, "invariants"),
    "rates": (lambda true, self, xp, z: {k: SLIGHTLY * v for k, v in true(xp, z).items()}, "rates"),
    "limit": (lambda true, self, xp, z0: self.State(*(v + 1e-4 for v in true(xp, z0))), "limit"),
    "time_to": (lambda true, self, xp, z0, *, loss: SLIGHTLY * true(xp, z0, loss=loss), "time_to"),
    "lifetime": (lambda true, self, xp, z0: tuple(2 * end for end in true(xp, z0)), "lifetime"),
    "step": (_second_order, "step"),
}


def _flows() -> dict[str, Wrong]:
    found = {}
    for base in ls.flows.ALL:
        for statement in STATEMENTS:
            if implements(base.example(np.random.default_rng(0))[0], statement):
                change, check = CHANGES[statement]
                if base is ls.BalancedMap:
                    # its velocity is its descent of the gradient, so both are wrong alike; it has no raw network
                    check = {"descent": "residual", "loss": "along"}.get(statement, check)
                found[f"{base.__name__}.{statement}"] = Wrong(changed(base, **{statement: change}), 0, check)
        for name in base.declared if base is not ls.BalancedMap else ():  # of real depth, without a raw network
            wrong = changed(base, **{name: lambda true, self, xp, z: SLIGHTLY * true(xp, z) + 1e-9})
            found[f"{base.__name__}.{name}"] = Wrong(wrong, 0, "observables")
    return found


# wrong in ways of their own


def _never(true: Any, self: Any, xp: Any, z0: Any, *, loss: Any) -> Any:
    """Return a finite time also to a loss that is never reached."""
    time = true(xp, z0, loss=loss)
    return xp.where(xp.isinf(time), 0 * self.s + 1000, time)


class KernelChangeToSecondOrder(ls.LazyTwoLayer):
    """The kernel's ratio through the first order of its root."""

    def kernel_change(self, xp, z):
        root = 1 + super().kernel_change(xp, z) / 2  # sqrt(1 + x) to first order
        return root**2 - 1

    kernel_change.observable = ls.LazyTwoLayer.declared["kernel_change"]

    def along(self, xp, t, z0):
        found = super().along(xp, t, z0)
        return found | {"kernel_change": (1 + found["kernel_change"] / 2) ** 2 - 1}


SINGLE = {
    "BalancedMode.limit without its sign": Wrong(
        changed(ls.BalancedMode, limit=lambda true, self, xp, z0: self.State(self.s + 0 * z0.a)), 0, "limit"
    ),
    "DeepMode.limit without its sign": Wrong(
        changed(ls.DeepMode, limit=lambda true, self, xp, z0: self.State(self.s + 0 * z0.a)), 1, "limit"
    ),
    "BalancedMode.time_to without never": Wrong(changed(ls.BalancedMode, time_to=_never), 0, "time_to"),
    "DeepMode.time_to without never": Wrong(changed(ls.DeepMode, time_to=_never), 0, "time_to"),
    "HiddenMode.time_to without never": Wrong(changed(ls.HiddenMode, time_to=_never), 0, "time_to"),
    "WhitenedTwoLayer.kernel_alignment squared": Wrong(
        changed(ls.WhitenedTwoLayer, kernel_alignment=lambda true, self, xp, z: true(xp, z) ** 2), 0, "observables"
    ),
    "NeuralCollapse.nc2_norms inverted": Wrong(
        changed(ls.NeuralCollapse, nc2_norms=lambda true, self, xp, z: 1 / true(xp, z)), 0, "observables"
    ),
    "FrozenHead.nc3 squared": Wrong(
        changed(ls.FrozenHead, nc3=lambda true, self, xp, z: true(xp, z) ** 2), 0, "observables"
    ),
    "TwoLayer.alignment squared": Wrong(
        changed(ls.TwoLayer, alignment=lambda true, self, xp, z: true(xp, z) ** 2), 0, "observables"
    ),
    "LazyTwoLayer.kernel_change to second order": Wrong(KernelChangeToSecondOrder, 0, "observables"),
    "BalancedMode.lifetime: none": Wrong(
        changed(ls.BalancedMode, lifetime=lambda true, self, xp, z0: (-xp.inf + 0 * z0.a, xp.inf + 0 * z0.a)),
        0,
        "lifetime",
    ),
    "HiddenMode.alignment in [0, 1]": Wrong(
        type(
            "PositiveAlignment",
            (ls.HiddenMode,),
            {"alignment": ls.observable(bounds="[0, 1]")(lambda self, xp, z: ls.HiddenMode.alignment(self, xp, z))},
        ),
        0,
        "bounds",
    ),
}
FLOWS = _flows() | SINGLE


# laws


def _values(factor: float) -> Any:
    return lambda true, self, xp, *small: {name: factor * v for name, v in true(xp, *small).items()}


def _laws() -> dict[str, Wrong]:
    found = {}
    for base in ls.laws.ALL:
        if issubclass(base, ls.laws.Expansion):
            found[base.__name__] = Wrong(changed(base, approximation=_values(1.01)), 1, "order")
        else:
            factor = 1 + 2.5 * base.resolution
            found[base.__name__] = Wrong(changed(base, prediction=_values(factor)), 0, "z")
    return found


def _half_learned(true: Any, self: Any, xp: Any, small: Any) -> Any:
    s, w = xp.sqrt(xp.sum(self.target**2)), self.first @ self.target
    w = w / s
    time = xp.log(4 * s / (small**2 * xp.sum((self.last + w) ** 2))) / (2 * self.eta * s)
    return true(xp, small) | {"half of the target": time}


class _Quick(ls.laws.LearningTime):
    """The learning time, measured at larger scales, which are integrated in less time."""

    scales = (1e-1, 5e-2)


LAWS = _laws() | {
    "LearningTime without -1": Wrong(changed(_Quick, approximation=_half_learned), 1, "special cases"),
    "NTKFirstStep.conditions": Wrong(
        changed(ls.laws.NTKFirstStep, conditions=lambda true, self, xp: {k: 0 * v for k, v in true(xp).items()}),
        1,
        "conditions",
    ),
    "InitialOverlaps: q0 off by 2 %": Wrong(
        changed(
            ls.laws.InitialOverlaps,
            prediction=lambda true, self, xp: (lambda found: found | {"q0": 1.02 * found["q0"]})(true(xp)),
        ),
        0,
        "z q0",
    ),
    "InitialOverlaps with 100 draws": Wrong(
        type("FewDraws", (ls.laws.InitialOverlaps,), {"draws": 100}), 0, "resolution"
    ),
    "LazyRegime with another next term": Wrong(
        changed(
            ls.laws.LazyRegime,
            approximation=lambda true, self, xp, small: {k: v * (1 + small**2) for k, v in true(xp, small).items()},
        ),
        0,
        "size",
    ),
    "FeatureRegime with another next term": Wrong(
        changed(
            ls.laws.FeatureRegime,
            approximation=lambda true, self, xp, small: {
                k: v * (1 + 2 * small ** self.orders[k]) for k, v in true(xp, small).items()
            },
        ),
        0,
        "size",
    ),
}
