"""Every operation of a program on special values, and every observable, for the tests of the CUDA source."""

import numpy as np

from linsolve import arithmetic
from linsolve.engines import cuda
from linsolve.engines.plan import COLUMN, TIME, plan_for
from linsolve.engines.program import Tracer

VALUES = np.array([0.0, -0.0, 0.5, -0.5, 1.0, 2.5, -3.0, 1e300, -1e-300, 5e-324, np.inf, -np.inf, np.nan])
UNARY = (
    "neg", "abs", "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sign"
)  # fmt: skip
OPERATORS = {"neg": lambda a: -a, "abs": abs}


def pairs():
    """Return all pairs of special values."""
    return tuple(v.ravel() for v in np.meshgrid(VALUES, VALUES))


def formulas(xp, a, b):
    """Return the result of every operation by name."""
    found = {name: OPERATORS[name](a) if name in OPERATORS else getattr(xp, name)(a) for name in UNARY}
    found |= {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b, "mod": a % b, "square": a**2, "cube": a**3}
    found |= {name: getattr(xp, name)(a, b) for name in ("hypot", "atan2", "minimum", "maximum", "pow")}
    tests = {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b, "nan": xp.isnan(a)}
    tests |= {"inf": xp.isinf(a), "finite": xp.isfinite(b), "not": ~(a < b), "xor": (a < 0) ^ (b < 0)}
    tests |= {"and": (a < 0) & (b < 0), "or": (a < 0) | (b < 0)}
    found |= {f"is {name}": xp.where(v, a, -xp.inf) for name, v in tests.items()}
    return found | {"astype": xp.astype(a < b, xp.float64), "constant": xp.where(a == 0, xp.nan, 1e-17) * b}


def recorded():
    """Return the program of every operation."""
    tracer = Tracer()
    for name, value in formulas(tracer, tracer.input("x"), tracer.input("y")).items():
        tracer.program.outputs[name] = value.index
    return tracer.program


def compare_operations(outs, x, y, rtol):
    """Compare outputs with NumPy's, signs of zeros included."""
    with np.errstate(all="ignore"):
        expected = formulas(np, x, y)
    for (name, exact), out in zip(expected.items(), outs, strict=True):
        np.testing.assert_allclose(out, exact, rtol=rtol, atol=0, err_msg=name)
        zero = (exact == 0) & ~np.isin(name, ("minimum", "maximum"))
        assert np.array_equal(np.signbit(out[zero]), np.signbit(exact[zero])) or name == "sign", name


def compare_observables(cls, ulps):
    """Compare every observable of a kernel with NumPy's, in units of the last place of the largest entry."""
    flow, z0 = cls.example(np.random.default_rng(0))
    t = np.array([0.0, 0.1, 0.5, 2.0, np.inf])
    plain = flow(t, z0)
    found = cuda.evaluate(flow, t, z0, plain.names)
    assert list(found) == plain.names
    for name in plain.names:
        size = np.max(np.abs(plain[name]))
        off = np.abs(arithmetic.to_numpy(found[name]) - plain[name])
        assert np.all(off <= ulps * 2.0**-52 * max(size, 1e-300)), name


def by_member(program):
    """Return the plan of a program whose inputs, except the time, vary between members."""
    return plan_for(program, tuple((name, TIME if name == "t" else COLUMN) for name in program.inputs))
