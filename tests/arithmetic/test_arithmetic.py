"""One formula in every arithmetic: high precision, symbols, balls, and the array-API standard and nothing but it."""

import fractions
import sys
import types

import array_api_strict
import numpy as np
import pytest
import sympy

import linsolve as ls
from linsolve import arithmetic
from linsolve.arithmetic.identities import prove_zero
from linsolve.arithmetic.object_array import ObjectArray
from linsolve.numerics.scalar import log1p_ratio, logistic

EPS = 2.0**-52
every_flow = pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda c: c.__name__)
every_object_arithmetic = pytest.mark.parametrize(
    "xp", [arithmetic.precise(30), arithmetic.symbolic(), arithmetic.balls(100)], ids=["precise", "symbolic", "balls"]
)


def in_library(xp, flow, z0):
    return flow.cast(xp), type(z0)(*(arithmetic.cast(xp, v) for v in z0))


def assert_same_numbers(found, expected, ulps):
    """Compare two trajectories in everything that has a name, in units of the last place of the largest entry."""
    assert found.names == expected.names
    for name in expected.names:
        value, reference = arithmetic.to_numpy(found[name]), np.asarray(expected[name])
        assert value.shape == reference.shape, name
        size = np.max(np.abs(reference * 1.0))
        if name not in (*expected.state._fields, *expected.flow.declared):  # invariants are small differences
            size = max(size, *(np.max(np.abs(v)) for v in expected.state))
        assert np.all(np.abs(value * 1.0 - reference * 1.0) <= ulps * EPS * size), name


@every_flow
def test_flows_need_nothing_but_the_array_api_standard(cls):
    flow, z0 = cls.example(np.random.default_rng(0))
    t = np.array([0.0, 0.1, 0.5, 2.0])
    strict_flow, strict_z0 = in_library(array_api_strict, flow, z0)
    found = strict_flow(array_api_strict.asarray(t), strict_z0)
    assert all(type(v) is type(array_api_strict.asarray(t)) for v in found.state)
    assert_same_numbers(found, flow(t, z0), ulps=16)


@every_flow
@pytest.mark.quick(4)
def test_fifty_digits_round_to_the_doubles(cls):
    flow, z0 = cls.example(np.random.default_rng(1))
    xp = arithmetic.precise(50)
    exact_flow, exact_z0 = in_library(xp, flow, z0)
    t = np.array([0.0, 0.1, 0.5, 2.0])
    assert_same_numbers(exact_flow(xp.asarray(t), exact_z0), flow(t, z0), ulps=4000)


@every_flow
def test_numpy_parameters_and_times_adopt_the_library_of_the_start(cls):
    flow, z0 = cls.example(np.random.default_rng(2))
    for xp in (array_api_strict, arithmetic.precise(20)):
        start = type(z0)(*(arithmetic.cast(xp, v) for v in z0))
        assert arithmetic.namespace(*flow([0.1], start).state) is xp
        with pytest.raises(TypeError, match="do not mix"):
            flow.cast(xp)([0.1], z0)
        with pytest.raises(TypeError, match="do not mix"):
            flow(arithmetic.precise(21).asarray([0.1]), start)


def test_python_numbers_adopt_the_library_of_the_rest():
    xp = arithmetic.precise(40)
    flow = ls.BalancedMode(s=xp.asarray(2.0))
    for start in (0.1, [0.1, 0.2], {"a": 0.1}, ls.BalancedMode.State(0.1)):
        assert arithmetic.namespace(flow(1.0, start)["a"]) is xp
    with pytest.raises(TypeError, match="do not mix"):
        flow(1.0, np.asarray(0.1))
    with pytest.raises(TypeError, match="do not mix"):
        ls.BalancedMode(s=xp.asarray(2.0), tau=arithmetic.precise(41).asarray(1.0))


# object arrays


@every_object_arithmetic
def test_arrays_of_no_dimension_never_collapse(xp):
    x = xp.asarray(2)
    results = [x + 1, 1 - x, x * x, x / 3, -x, x**2, 2**x, abs(x), xp.exp(x), xp.sum(x), xp.max(x), x[...], x[()]]
    results += [xp.asarray([1, 2])[0], xp.sum(xp.asarray([1, 2])), xp.where(x > 1, x, 0 * x), xp.asarray([x, x])[1]]
    results += [xp.asarray([1, 2]) @ xp.asarray([3, 4]), xp.take(xp.asarray([1, 2]), 0, axis=0), np.add(x, 1)]
    for k, value in enumerate(results):
        assert isinstance(value, ObjectArray), k
        assert value.namespace is xp, k
        assert value.shape == (), k


@every_object_arithmetic
def test_two_arithmetics_do_not_mix(xp):
    for other in (arithmetic.precise(31), arithmetic.balls(99)):
        with pytest.raises(TypeError, match="does not mix"):
            xp.asarray([1, 2]) + other.asarray([1, 2])
        with pytest.raises(TypeError, match="do not mix"):
            arithmetic.namespace(xp.asarray(1), other.asarray(1))
    with pytest.raises(TypeError, match="do not mix"):
        arithmetic.namespace(xp.asarray(1), np.asarray(1.0))


@every_object_arithmetic
@pytest.mark.parametrize("value", [None, 1j, [[1, 2], [3]], "one"])
def test_what_is_not_a_real_number_is_refused(xp, value):
    with pytest.raises(TypeError, match=r"value = .* must be"):
        xp.asarray(value)


@every_object_arithmetic
def test_doubles_and_fractions_enter_exactly(xp):
    tenth = xp.asarray(fractions.Fraction(1, 10)) - xp.asarray(0.1)
    assert float(arithmetic.to_numpy(tenth)) == pytest.approx(-5.551115123125783e-18, rel=1e-9, abs=0)
    assert (arithmetic.to_numpy(xp.asarray(0.1)) == 0.1).all()


@every_object_arithmetic
def test_shapes_reductions_and_contractions_agree_with_numpy(xp):
    a = np.random.default_rng(0).integers(-9, 9, (2, 3, 4)).astype(float)
    x = xp.asarray(a)
    b = np.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    pairs = [
        (xp.sum(x, axis=(0, 2)), a.sum(axis=(0, 2))),
        (xp.sum(x, axis=-1, keepdims=True), a.sum(axis=-1, keepdims=True)),
        (xp.prod(x, axis=1), a.prod(axis=1)),
        (xp.max(x, axis=2), a.max(axis=2)),
        (xp.min(x), a.min()),
        (xp.maximum(x, -x), np.maximum(a, -a)),
        (xp.minimum(x, 1), np.minimum(a, 1)),
        (xp.matmul(x, xp.asarray(b)), a @ b),
        (xp.vecdot(x, x), (a * a).sum(axis=-1)),
        (xp.matrix_transpose(x), np.swapaxes(a, -1, -2)),
        (xp.permute_dims(x, (2, 0, 1)), np.transpose(a, (2, 0, 1))),
        (xp.stack([x, x], axis=1), np.stack([a, a], axis=1)),
        (xp.concat([x, 2 * x], axis=0), np.concatenate([a, 2 * a])),
        (xp.reshape(x, (6, 4)), a.reshape(6, 4)),
        (xp.where(x > 0, x, 0 * x), np.where(a > 0, a, 0)),
        (xp.astype(x > 0, xp.float64), (a > 0) * 1.0),
        (xp.sign(x), np.sign(a)),
        (xp.eye(3), np.eye(3)),
        (xp.square(x) - xp.pow(x, 2), 0 * a),
        (xp.full_like(x, 7), 0 * a + 7),
    ]
    for k, (found, expected) in enumerate(pairs):
        assert isinstance(found, ObjectArray), k
        np.testing.assert_array_equal(arithmetic.to_numpy(found), expected, err_msg=str(k))


# high precision


@pytest.mark.parametrize("name", [n for n in arithmetic.precise(30).elementwise if n not in ("hypot", "atan2")])
def test_functions_of_high_precision_agree_with_numpy(name):
    xp = arithmetic.precise(30)
    numpy_names = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
    numpy_names |= {f"{k}h": f"{v}h" for k, v in numpy_names.items()}
    values = np.array([0.5, -2.0, 0.0, np.inf, -np.inf, np.nan, 1e300, -1e-300, 1e-30, 3.0])
    with np.errstate(all="ignore"):
        expected = getattr(np, numpy_names.get(name, name))(values)
    found = getattr(xp, name)(xp.asarray(values))
    np.testing.assert_allclose(arithmetic.to_numpy(found) * 1.0, expected, rtol=1e-14, atol=0)


def test_functions_of_two_numbers_in_high_precision():
    xp = arithmetic.precise(30)
    y, x = np.array([1.0, -1e-200, 0.0, np.inf, 3e300]), np.array([-2.0, 1e-200, -1.0, 1.0, 4e300])
    for name in ("hypot", "atan2"):
        found = getattr(xp, name)(xp.asarray(y), xp.asarray(x))
        expected = np.hypot(y, x) if name == "hypot" else np.arctan2(y, x)
        np.testing.assert_allclose(arithmetic.to_numpy(found), expected, rtol=1e-15, atol=0)
    assert np.isnan(arithmetic.to_numpy(xp.asarray(-8.0) ** (1 / 3)))


def test_matrix_functions_of_high_precision():
    xp, rng = arithmetic.precise(40), np.random.default_rng(3)
    square = rng.standard_normal((2, 3, 3))
    positive = square @ np.swapaxes(square, -1, -2) + np.eye(3)
    tall, right = rng.standard_normal((2, 4, 3)), rng.standard_normal((2, 3, 2))
    a, p, m, b = (xp.asarray(v) for v in (square, positive, tall, right))

    def small(x):
        return np.max(np.abs(arithmetic.to_numpy(x))) < 1e-36

    def close(x, y):
        np.testing.assert_allclose(arithmetic.to_numpy(x), y, rtol=1e-10, atol=1e-10)

    values, vectors = xp.linalg.eigh(p)
    close(values, np.linalg.eigh(positive)[0])
    assert small(vectors @ (values[..., None] * xp.matrix_transpose(vectors)) - p)
    u, s, vh = xp.linalg.svd(m, full_matrices=False)
    close(s, np.linalg.svd(tall)[1])
    assert small(u @ (s[..., None] * vh) - m)
    q, r = xp.linalg.qr(m)
    assert small(q @ r - m)
    assert small(xp.matrix_transpose(q) @ q - xp.eye(3))
    low = xp.linalg.cholesky(p)
    close(low, np.linalg.cholesky(positive))
    assert small(low @ xp.matrix_transpose(low) - p)
    assert small(a @ xp.linalg.solve(a, b) - b)
    assert small(a @ xp.linalg.inv(a) - xp.eye(3))


def test_precision_is_private():
    import mpmath

    before = mpmath.mp.dps
    third = arithmetic.precise(80).asarray(1) / 3
    assert mpmath.mp.dps == before
    assert abs(third.item() * 3 - 1) < 1e-79
    for bad in (0, -3, 2.5, "50"):
        with pytest.raises(ValueError, match="dps"):
            arithmetic.precise(bad)


# symbols


def symbolic_mode(point):
    parameters, (a0,), _ = ls.BalancedMode.symbols()
    t = sympy.Symbol("t", positive=True)
    xp = arithmetic.symbolic({**point, t: 0.7})
    flow = ls.BalancedMode(**{name: xp.asarray(value) for name, value in parameters.items()})
    return xp, t, a0, flow, flow(xp.asarray(t), xp.asarray(a0))


def test_balanced_mode_is_proved_in_symbols_and_prints():
    xp, t, a0, flow, traj = symbolic_mode(ls.BalancedMode.symbols()[2])
    a, velocity = traj["a"].item(), flow.velocity(xp, traj.state).a.item()
    assert prove_zero(a.diff(t) - velocity)
    assert not prove_zero(a.diff(t) - 2 * velocity)
    assert prove_zero(a.subs(t, 0) - a0)
    assert prove_zero(flow.loss(xp, traj.state).item() - traj["loss"].item())
    latex = sympy.latex(a)
    assert latex.startswith(r"\frac{a_{0}}{")
    assert r"\left(1 - e^{- \frac{2 s t}{\tau}}\right)}{s}" in latex
    assert len(latex) < 120
    assert all(relation.subs(xp.at) == sympy.true for relation in xp.assumed)


def test_logistic_is_proved_in_symbols():
    a0, s, t = sympy.symbols("a_0 s t", positive=True)
    for point in ({a0: 0.1, s: 0.7, t: 1}, {a0: 3, s: 0.7, t: 1}, {a0: 0.1, s: 0.7, t: 5}):
        xp = arithmetic.symbolic(point)
        a, gap = (v.item() for v in logistic(xp, *(xp.asarray(v) for v in (t, a0, s))))
        assert prove_zero(a.diff(t) - a * (s - a))
        assert prove_zero(a + gap - s)


x, y = sympy.symbols("x y", positive=True)
r = sympy.Symbol("r", real=True)
IDENTITIES = [
    sympy.sin(x) ** 2 + sympy.cos(x) ** 2 - 1,
    sympy.cosh(x * y) ** 2 - sympy.sinh(x * y) ** 2 - 1,
    sympy.tanh(2 * x) - 2 * sympy.tanh(x) / (1 + sympy.tanh(x) ** 2),
    sympy.exp(x + y) - sympy.exp(x) * sympy.exp(y),
    sympy.exp(3 * x / 2) - sympy.exp(x / 2) ** 3,
    sympy.sqrt(x**2 + y**2) ** 3 / (x**2 + y**2) - sympy.sqrt(x**2 + y**2),
    1 / (sympy.sqrt(x + y) - sympy.sqrt(x)) - (sympy.sqrt(x + y) + sympy.sqrt(x)) / y,
    sympy.sqrt(x + sympy.sqrt(x * x + 1)) ** 4 - (x + sympy.sqrt(x * x + 1)) ** 2,
    x**r * x ** (1 - r) - x,
    sympy.log(x * y) - sympy.log(x) - sympy.log(y),
    sympy.exp(2 * sympy.log(x + 1)) - (x + 1) ** 2,
    (x**3 - y**3) / (x - y) - x**2 - x * y - y**2,
]


@pytest.mark.parametrize("identity", IDENTITIES, ids=str)
def test_identities_are_proved_and_their_neighbors_are_not(identity):
    assert prove_zero(identity)
    assert not prove_zero(identity + x / 10**30)
    assert not prove_zero(identity * 0 + sympy.Abs(r) - r)


@pytest.mark.exhaustive
def test_a_question_too_large_is_answered_not_proved_and_quickly():
    names = sympy.symbols("z0:30", positive=True)
    assert not prove_zero((sum(names) ** 12 + 1) ** 3 - (sum(names) ** 12 + 1) ** 2)


def test_comparisons_use_assumptions_then_the_point_and_say_so():
    positive, free = sympy.Symbol("s", positive=True), sympy.Symbol("x", real=True)
    xp = arithmetic.symbolic({free: -0.5})
    assert (xp.asarray([positive, free]) > 0).tolist() == [True, False]
    assert xp.assumed == [free <= 0]
    assert xp.abs(xp.asarray(free)).item() == -free
    assert xp.sqrt(xp.asarray(free**2)).item() == -free
    assert xp.hypot(xp.asarray(free + 1), xp.asarray(2 * sympy.sqrt(-free))).item() == 1 - free
    assert xp.where(xp.asarray(free) ** 2 == free * free, xp.asarray(1), xp.asarray(0)).item() == 1
    assert (xp.asarray((free + 1) ** 2) == free**2 + 2 * free + 1).item() is True
    assert all(r.subs(free, -0.5) == sympy.true for r in xp.assumed)
    assert not any(isinstance(r, sympy.Eq) for r in xp.assumed)
    with pytest.raises(ValueError, match=r"left open by the assumptions on x .* give a generic point"):
        arithmetic.symbolic().asarray(free) < 0  # noqa: B015
    with pytest.raises(ValueError, match="not real"):
        xp.asarray(sympy.sqrt(free)) > 0  # noqa: B015


def test_symbols_take_numbers_exactly_and_never_parse_text():
    xp = arithmetic.symbolic()
    s = sympy.Symbol("s")
    assert (xp.asarray(s) * 0.1).item() == s * sympy.Rational(0.1)
    assert (np.asarray([0.5, 0.1]) * xp.asarray(s)).tolist() == [s / 2, s * sympy.Rational(0.1)]
    assert xp.asarray(float("inf")).item() == sympy.oo
    for text in ("s", "1", "__import__('os')"):
        with pytest.raises(TypeError, match="never parsed"):
            xp.asarray(text)
    with pytest.raises(TypeError, match="must be"):
        xp.asarray(float("nan"))
    with pytest.raises(TypeError, match="Symbol"):
        arithmetic.symbolic({"s": 1})


# balls


def draws(seed, size=200):
    rng = np.random.default_rng(seed)
    s, a0 = (rng.choice([-1, 1], size) * 10 ** rng.uniform(-3, 3, size) for _ in range(2))
    return s, 10 ** rng.uniform(-1, 1, size), a0, 10 ** rng.uniform(-3, 1, size)


@pytest.mark.parametrize("seed", range(3))
def test_balls_contain_the_exact_balanced_mode_and_bound_the_double(seed):
    s, tau, a0, t = draws(seed)
    t = np.minimum(t, 20 * tau / np.abs(s))
    flow = ls.BalancedMode(s=s, tau=tau)
    xp, exact = arithmetic.balls(212), arithmetic.precise(100)
    found, value = (flow.cast(lib).solution(lib, lib.asarray(t), flow.State(lib.asarray(a0))).a for lib in (xp, exact))
    assert xp.contains(found, value).all()
    double = flow.solution(np, t, flow.State(a0)).a
    assert np.max(xp.radius(found) / np.abs(double)) < 1e-55
    error = xp.abs(found - xp.asarray(double)) / abs(xp.asarray(double))
    bound = 8 * EPS * (1 + np.abs(2 * s * t / tau))  # rounding of the exponent included
    assert xp.all(error < xp.asarray(bound)).item() is True


@pytest.mark.parametrize("seed", range(3))
def test_balls_contain_the_exact_kernels(seed):
    rng = np.random.default_rng(seed)
    a0, s = 10 ** rng.uniform(-3, 3, 150), rng.choice([-1, 1], 150) * 10 ** rng.uniform(-3, 3, 150)
    t = 10 ** rng.uniform(-3, 1, 150) / (abs(s) + a0)
    xp, exact = arithmetic.balls(212), arithmetic.precise(100)
    for k in (0, 1):
        found, value = (logistic(lib, *(lib.asarray(v) for v in (t, a0, s)))[k] for lib in (xp, exact))
        assert xp.contains(found, value).all()
        assert np.max(xp.radius(found / xp.asarray(value))) < 1e-50


def test_wide_balls_stay_enclosures_where_branches_are_undetermined():
    import flint

    xp = arithmetic.balls(100)
    s = xp.asarray([flint.arb(0.5, 0.75)])  # of both signs
    assert (s > 0).tolist() == [None]
    inside = np.linspace(-0.25, 1.25, 13)
    sign = xp.where(s < 0, -xp.ones_like(s), xp.ones_like(s))
    assert xp.contains(sign, [-1, 1]).all()
    assert xp.contains(xp.abs(s), np.abs(inside)).all()
    assert xp.contains(xp.maximum(s, 0), np.maximum(inside, 0)).all()
    assert xp.contains(xp.max(xp.concat([s, xp.asarray([0.2])])), np.maximum(inside, 0.2)).all()
    assert xp.contains(xp.astype(s > 0, xp.float64), [0, 1]).all()
    assert xp.contains(xp.hypot(s, 0 * s), np.abs(inside)).all()
    values = log1p_ratio(xp, xp.asarray([flint.arb(0.5, 0.25)]))
    assert xp.contains(values, log1p_ratio(np, np.linspace(0.25, 0.75, 9))).all()


def test_truth_is_kleenes():
    import flint

    xp = arithmetic.balls(64)
    yes, maybe, no = (xp.asarray(v) > 0 for v in (1, flint.arb(0, 1), -1))
    assert [(~v).item() for v in (yes, maybe, no)] == [False, None, True]
    assert [(maybe & v).item() for v in (yes, maybe, no)] == [None, None, False]
    assert [(maybe | v).item() for v in (yes, maybe, no)] == [True, None, None]
    assert [(np.asarray(v) & maybe).item() for v in (True, False)] == [None, False]
    assert [(np.asarray(v) | maybe).item() for v in (True, False)] == [True, None]
    mixed = xp.asarray([1, flint.arb(0, 1), -1]) > 0
    assert xp.all(mixed).item() is False
    assert xp.any(mixed).item() is True
    assert xp.all(mixed[:2]).item() is None
    assert xp.any(mixed[1:]).item() is None
    assert xp.logical_not(mixed).tolist() == [False, None, True]
    assert xp.logical_and(mixed, True).tolist() == [True, None, False]
    assert xp.logical_or(mixed, False).tolist() == [True, None, False]
    with pytest.raises(ValueError, match="undetermined"):
        bool(maybe)
    assert bool(yes) is True
    assert [f(xp.asarray([0, np.inf, np.nan])).tolist() for f in (xp.isfinite, xp.isinf, xp.isnan)] == [
        [True, False, None],
        [False, True, None],
        [False, False, None],
    ]


def test_what_numpy_would_decide_on_balls_is_refused():
    xp = arithmetic.balls(64)
    with pytest.raises(TypeError, match=r"np.maximum is not rigorous on balls; use xp.maximum"):
        np.maximum(xp.asarray([1]), xp.asarray([2]))
    with pytest.raises(TypeError, match="not rigorous"):
        xp.asarray([1, 2]).max()


def test_matrix_functions_of_balls():
    xp, exact = arithmetic.balls(212), arithmetic.precise(80)
    a, b = np.random.default_rng(0).standard_normal((2, 3, 3)), np.random.default_rng(1).standard_normal((3, 2))
    found, value = (lib.linalg.solve(lib.asarray(a), lib.asarray(b)) for lib in (xp, exact))
    assert found.shape == (2, 3, 2)
    assert xp.contains(found, value).all()
    assert xp.contains(xp.linalg.inv(xp.asarray(a)), exact.linalg.inv(exact.asarray(a))).all()
    assert xp.radius(found).max() < 1e-55
    with pytest.raises(NotImplementedError, match=r"linalg.eigh is not available in balls .* use precise"):
        xp.linalg.eigh(xp.asarray(a))


def test_balls_neither_read_nor_leave_the_global_precision():
    import flint

    xp = arithmetic.balls(300)
    with flint.ctx.workprec(20):
        third = xp.asarray(1) / 3
        root = xp.sqrt(xp.asarray(2))
        total = xp.sum(xp.stack([third] * 3))
        assert flint.ctx.prec == 20
    assert max(xp.radius(v) for v in (third, root, total)) < 1e-89
    with pytest.raises(TypeError):
        third + "a"
    assert flint.ctx.prec == 53


def test_missing_python_flint_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(ImportError, match=r'pip install "\.\[balls\]"'):
        arithmetic.balls(77)


@pytest.mark.parametrize("bits", [0, 1.5, "53"])
def test_bits_are_checked(bits):
    with pytest.raises(ValueError, match="bits"):
        arithmetic.balls(bits)


def test_cast_makes_doubles_and_returns_doubles_themselves():
    single, double = np.array([0.1], dtype=np.float32), np.array([0.1])
    assert arithmetic.cast(np, single).dtype == np.float64
    assert arithmetic.cast(np, single)[0] == float(single[0])
    assert arithmetic.cast(np, double) is double


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_spacing_is_the_epsilon_of_the_dtype(kind):
    assert arithmetic.spacing(np.zeros(1, dtype=kind)) == np.finfo(kind).eps


def test_spacing_of_other_types():
    assert arithmetic.spacing(types.SimpleNamespace(dtype="torch.bfloat16")) == 2.0**-7
    assert arithmetic.spacing([1.0]) == arithmetic.spacing(1) == np.finfo(float).eps


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize(
    "step",
    [
        lambda x, y: (x / 2 + 1 / x, y),  # converges to sqrt(2)
        lambda x, y: (-x, 1 / y),  # alternates
        lambda x, y: (np.minimum(x, 1.5) + 0.25, y * 0),  # repeats later
        lambda x, y: (x * np.nan, y),
    ],
)
def test_a_loop_that_repeats_ends_early_with_the_same_bits(step, count):
    state, calls = (np.array([1.0, 3.0]), np.array(2.0)), []
    expected = state
    for _ in range(count):
        expected = step(*expected)

    def counted(*now):
        calls.append(now)
        return step(*now)

    found = arithmetic.repeated(np, count, counted, *state)
    assert [v.tobytes() for v in found] == [np.asarray(v).tobytes() for v in expected]
    assert len(calls) <= count


def test_a_loop_ends_after_a_repetition():
    calls = []
    arithmetic.repeated(np, 100, lambda x: (calls.append(1), (-x,))[1], np.array([1.0]))
    assert len(calls) == 2
