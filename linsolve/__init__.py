"""linsolve: exact training dynamics of solvable linear networks, checked against simulation."""

from __future__ import annotations

from typing import Any

from linsolve import arithmetic
from linsolve.core.flow import Flow, observable
from linsolve.core.integrate import descend, integrate
from linsolve.core.law import Law
from linsolve.core.map import Map
from linsolve.core.parameters import parameter
from linsolve.core.query import NotExact, evaluate_by, iterate_by, observe_by
from linsolve.core.registry import on_use
from linsolve.core.series import draw_by
from linsolve.core.trajectory import Trajectory
from linsolve.core.version import VERSION
from linsolve.solvability import applies
from linsolve.systems import flows, laws

# the other public names and where they stand; each is imported on first access
_WHERE = {
    "adaptive_descent": "linsolve.core.adaptive",
    "card": "linsolve.papers.cards",
    "cite": "linsolve.papers.references",
    "collapse": "linsolve.studies.collapse:",
    "compare": "linsolve.studies.simulators.check",
    "data": "linsolve.data:",
    "deep": "linsolve.systems.deep:",
    "ensemble": "linsolve.ensembles.stream",
    "ensembles": "linsolve.ensembles:",
    "kernels": "linsolve.systems.kernel_regime:",
    "learn": "linsolve.studies.learn.run",
    "ntk": "linsolve.systems.random_networks:",
    "phases": "linsolve.studies.phases:",
    "plot": "linsolve.plot:",
    "published": "linsolve.papers.published:",
    "sequence": "linsolve.core.tasks",
    "sgd": "linsolve.solvability.sgd",
    "solve": "linsolve.solvability.solve",
    "sweep": "linsolve.ensembles.sweep_grid",
    "to_code": "linsolve.papers.standalone",
    "verify": "linsolve.core.verify",
    **flows.WHERE,
}

__all__ = [
    "Flow",
    "Law",
    "Map",
    "NotExact",
    "Trajectory",
    "applies",
    "arithmetic",
    "descend",
    "flows",
    "integrate",
    "laws",
    "observable",
    "parameter",
    *_WHERE,
]

__version__ = VERSION


def _evaluate(*query: Any) -> Any:
    """Evaluate a checked query; the engines are imported at the first one, and evaluate the next ones themselves."""
    from linsolve.engines.evaluate import follow

    evaluate_by(follow)
    return follow(*query)


def _observe(*query: Any) -> Any:
    """Evaluate an observable of a large ensemble; as `_evaluate`."""
    from linsolve.engines.evaluate import observed

    observe_by(observed)
    return observed(*query)


def _draw(*arguments: Any, **options: Any) -> Any:
    """Draw a trajectory; Matplotlib is imported at the first one."""
    from linsolve.plot import trajectory

    return trajectory(*arguments, **options)


def _iterate(name: str, *query: Any) -> Any:
    """Compile the steps of gradient descent; the engines are imported at the first call."""
    from linsolve.engines import recursion

    return getattr(recursion, name)(*query)


evaluate_by(_evaluate)
observe_by(_observe)
iterate_by(_iterate)
draw_by(_draw)

_get, _ = on_use(__name__, _WHERE, __all__)


def __getattr__(name: str) -> Any:
    if name in laws.WHERE:
        raise AttributeError(f"linsolve: {name} is a law; say linsolve.laws.{name}")
    return _get(name)


def __dir__() -> list[str]:
    return sorted(__all__)
