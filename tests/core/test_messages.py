"""Error messages of one line: arrays by their shapes, seeds by the function that received them."""

import pickle
import re

import numpy as np
import pytest
from scipy import sparse

import linsolve as ls


def refused(error, *parts):
    """Expect an error whose message has every part, in that order."""
    return pytest.raises(error, match=r"(?s)^.*" + ".*".join(re.escape(part) for part in parts))


def collapsing():
    return ls.NeuralCollapse.example(np.random.default_rng(0))[0]


def test_a_start_of_other_arrays_is_described_and_not_printed():
    w1, w2 = np.ones((4, 80)), np.ones((30, 4))
    with pytest.raises(ValueError, match="state = ") as caught:
        ls.WhitenedTwoLayer(target=np.ones((30, 80)))(1.0, (w1, w2))
    assert str(caught.value) == (
        "WhitenedTwoLayer: state = tuple of 2 (ndarray of shape (4, 80), ndarray of shape (30, 4)) must give product, "
        "gram_in, gram_out; pass WhitenedTwoLayer.of(w1, w2)"
    )
    with refused(ValueError, "NeuralCollapse: state = [1, 2] must give", "; pass flow.of(h, w, b)"):
        ls.NeuralCollapse.state([1, 2])
    with refused(ValueError, "TwoLayerOrder: state = ", "; pass TwoLayerOrder.State(...)"):
        ls.TwoLayerOrder.state([1, 2])  # its `of` makes a flow, too


@pytest.mark.parametrize("cls", ls.flows.ALL, ids=lambda cls: cls.__name__)
def test_no_message_about_a_start_is_long(cls):
    huge = np.linspace(0.0, 1.0, 999).reshape(27, 37)
    for z in ((huge,) * 9, ([huge.tolist()] * 9, None), {cls.State._fields[0]: huge, "more": huge}, (None, huge)):
        with pytest.raises((ValueError, TypeError)) as caught:
            cls.state(z)
        assert len(str(caught.value)) < 600
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda v: ls.applies({"w": v}, (v, v)), ("applies: weights = {'w': array(",)),
        (lambda v: ls.applies([v, v.T], (v, v), until=v), ()),
        (lambda v: ls.integrate(ls.BalancedMode(s=1.0), 1.0, 0.1, rtol=v), ("rtol = ndarray of shape (27, 37) must",)),
        (lambda v: ls.descend(ls.BalancedMode(s=1.0), 1.0, 0.1, step=v), ("step = ndarray of shape (27, 37) must",)),
        (lambda v: ls.ensemble((v, v), 3, 1.0), ("factory = tuple of 2 (ndarray of shape (27, 37), ndarray of",)),
        (lambda v: ls.ensemble(max, 3, 1.0, threads=v), ("threads = ndarray of shape (27, 37) must",)),
        (lambda v: ls.sweep(lambda s: s, s=[1.0], block=v), ("block = ndarray of shape (27, 37) must",)),
        (lambda v: ls.ensemble(max, v, 1.0), ("members = ndarray of shape (27, 37) must",)),
        (lambda v: ls.card(v), ("ndarray of shape (27, 37) is not a flow",)),
        (lambda v: ls.sweep(v, s=[1.0]), ("observe = ndarray of shape (27, 37)",)),
        (lambda v: ls.phases.slopes(v.tolist()), ("exponents = [[0.0,",)),
        (lambda v: ls.data.load(v), ("source = ndarray of shape (27, 37) must",)),
        (lambda v: ls.verify(v, v), ("flow",)),
    ],
)
def test_no_message_prints_an_array(call, words):
    with refused((ValueError, TypeError), *words) as caught:
        call(np.linspace(0.0, 1.0, 999).reshape(27, 37))
    assert len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "who"),
    [
        (lambda rng: ls.phases.wishart(10, 3, rng=rng), "wishart"),
        (lambda rng: ls.phases.networks(10, 3, rng=rng), "networks"),
        (lambda rng: ls.phases.slopes(ls.phases.Exponents(1, -0.5, 0, 0, 0, 0), rng=rng), "slopes"),
        (lambda rng: ls.TwoLayer.init(3, 2, rng=rng), "TwoLayer"),
        (lambda rng: ls.WhitenedTwoLayer.init(3, 2, 2, scale=0.1, rng=rng), "WhitenedTwoLayer.init"),
        (
            lambda rng: ls.WhitenedTwoLayer.gaussian(3, 2, 2, sigma1=1.0, sigma2=1.0, rng=rng),
            "WhitenedTwoLayer.gaussian",
        ),
        (lambda rng: collapsing().init(5, scale=0.1, rng=rng), "NeuralCollapse"),
        (
            lambda rng: ls.deep.DeepNetwork.init((np.eye(2), np.ones(2), np.eye(2)), 0.1, depth=2, rng=rng),
            "DeepNetwork",
        ),
        (lambda rng: ls.ntk.sampling.layer_by_layer(rng, 3, [2, 2], 2.0, 0.0), "layer_by_layer"),
    ],
)
def test_seeds_that_are_none_are_named(call, who):
    with refused(TypeError, who, "rng = 'x' must be None, an integer of at least 0, a numpy.random.Generator"):
        call("x")
    with refused(ValueError, who, "rng = -1 must be None, an integer of at least 0"):
        call(-1)


def test_an_integration_is_stopped_by_a_solver_that_counts():
    from scipy.integrate import DOP853

    class Patient(DOP853):
        steps = 0

        def step(self):
            self.steps += 1
            if self.steps > 100:
                raise TimeoutError(f"100 steps, up to t = {self.t:.3g}")
            return super().step()

    flow = ls.BalancedMode(s=2.0)
    with pytest.raises(TimeoutError, match="100 steps"):
        ls.integrate(flow, 1e9, 0.1, method=Patient)
    late = ls.integrate(flow, 1e9, 0.1, method="Radau", rtol=1e-6)
    assert late["a"].item() == pytest.approx(2.0, rel=1e-6)


def trajectories():
    """Return one trajectory of every kind."""
    first, second = ls.BalancedMode(s=2.0), ls.BalancedMode(s=1.0)
    return [
        first([0.0, 1.0], 0.1),
        ls.solve([[[1.0]]], ([[1.0]], [3.0]), [0.0, 1.0]),
        ls.laws.MatchedOutputs.of([[[0.02], [0.0]], [[0.01, 0.0]]], ([[1.0]], [2.0]))([0.0, 2.0]),
        ls.sgd([[0.0]], ([[1.0], [2.0]], [1.0, 3.0]), [0, 1], batch=1, step=0.1),
        ls.sequence([(first, 5.0), (second, 5.0)], 0.01)([1.0, 6.0]),
    ]


@pytest.mark.parametrize("traj", trajectories(), ids=lambda traj: type(traj).__name__)
def test_an_index_given_as_a_name_is_refused_with_the_place_of_the_index(traj):
    who, first = type(traj).__name__, traj.keys()[0]
    arrays = [(traj.t > 0.5, "ndarray", "mask"), (np.arange(2), "ndarray", "index")]
    for name, kind, index in [*arrays, (0, "int", "0"), (None, "NoneType", "")]:
        with refused(KeyError, f"{who}: name = ", f"({kind}) must be a string", f'traj["{first}"][{index}'):
            traj[name]
        assert name not in traj
    with refused(KeyError, "(tuple) must be a string"):
        traj[:, 1]
    with refused(KeyError, f"{who}: name = [", "(ndarray) must be a string"):
        ls.plot.trajectory(traj, traj["loss"])
    for names in (traj["loss"], ["loss", 5], 5):
        with refused(TypeError, f"{who}.to_dataframe: names = ", f"({type(names).__name__}) must be strings"):
            traj.to_dataframe(names)
    with refused(AttributeError, "no attribute 'loss'", 'use traj["loss"]'):
        _ = traj.loss
    with pytest.raises(AttributeError, match=r"no attribute 'missing'$"):
        _ = traj.missing
    assert "loss" in traj
    assert list(traj) == traj.keys()


class ArrayLike:
    """Array that has shape and dtype but belongs to no array library."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype


class Convertible(ArrayLike):
    """Array that NumPy converts."""

    def __array__(self, dtype=None, copy=None):
        return self.array


@pytest.mark.parametrize("call", [ls.applies, lambda weights, data: ls.solve(weights, data, [0.0, 1.0])])
def test_arrays_of_no_library_are_named_and_converted_where_numpy_can(call):
    w1, w2, data = np.ones((2, 2)), np.ones((1, 2)), (np.eye(2), np.ones(2))
    with refused(TypeError, ": W1 = csr_array must be an array (layer); pass W1.toarray()"):
        call([sparse.csr_array(w1), w2], data)
    with refused(TypeError, ": X = ArrayLike must be an array (data); pass a NumPy array"):
        call([w1, w2], (ArrayLike(data[0]), data[1]))
    assert repr(call([Convertible(w1), w2], data)) == repr(call([w1, w2], data))


def test_traced_arguments_of_functions_that_branch_on_values_are_named():
    jax = pytest.importorskip("jax")
    w1, w2, data = np.ones((2, 2)), np.ones((1, 2)), (np.eye(2), np.ones(2))
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        with refused(TypeError, "solve: t = ", "(time; solve cannot be traced by jax.jit or jax.grad); trace"):
            jax.jit(lambda t: ls.solve([w1, w2], data, t)["loss"])(1.0)
        with refused(TypeError, "solve: W1 = ", "cannot be traced"):
            jax.grad(lambda w: ls.solve([w, w2], data, 1.0)["loss"])(w1)
        with refused(TypeError, "solve: rates = ", "cannot be traced"):
            jax.jit(lambda rates: ls.solve([w1, w2], data, 1.0, rates)["loss"])(np.ones(2))
        with refused(TypeError, "MatchedSolution.of: X = ", "cannot be traced"):
            jax.jit(lambda x: ls.laws.MatchedSolution.of([w1, w2], (x, data[1])))(data[0])


@pytest.mark.parametrize("bias", [None, [None, [0.3]]])
def test_a_law_of_a_network_is_pickled_with_its_network(bias):
    data = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), np.array([1.5, -0.5, 2.5, -1.5])
    law = ls.laws.MatchedSolution.of([np.full((2, 2), 0.01), [[0.01, 0.02]]], data, bias=bias)
    again = pickle.loads(pickle.dumps(law))
    assert repr(again) == repr(law)
    assert again([1.0, 2.0]).keys() == law([1.0, 2.0]).keys()
    for name in law(1.0):
        np.testing.assert_array_equal(again([1.0, 2.0])[name], law([1.0, 2.0])[name])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ls.ntk.sample_kernels(0, 5, "swish", np.eye(2), [3, 4], 2.0, 0.0), "sample_kernels: activation = 'sw"),
        (lambda: ls.ntk.pair_ratio("x", 5, [3, 4], 2.0, 0.5), "pair_ratio: rng = 'x'"),
        (
            lambda: ls.ntk.sample_kernels(0, 5, "relu", np.ones((2, 3)), [3, 4], 2.0, 0.0),
            "gram has shape (2, 3), so sample = 2 and sample = 3, but must be square",
        ),
        (
            lambda: ls.TwoLayer(y=1.0, x=[1.0, 1.0])(1.0, (np.ones(4), np.ones((3, 2)))),
            "; its trailing axes are (d, d0); order its axes so, or change one of the two",
        ),
        (
            lambda: ls.solve(([0.1], [np.eye(2)]), (np.ones((5, 3, 2)), np.ones((5, 3))), 1.0, context=1.5),
            "solve: context = 1.5 must be a whole number (tokens before the query); round it",
        ),
        (lambda: ls.ntk.correlation("np", [4, 5], 0.0), "correlation: xp = 'np' must be a namespace of arrays"),
        (
            lambda: ls.ntk.correlation([4, 5], 0.0),
            "correlation: missing a required argument: 'slope'; call correlation(xp, widths, slope)",
        ),
        (
            lambda: ls.verify(ls.TwoLayer(y=1.0)),
            "verify: z0 = None must be a state (start of the network; only a law has none); pass TwoLayer.State(u, w)",
        ),
        (
            lambda: ls.laws.FinalKernel([np.ones((3, 2)), np.ones((1, 3))], target=[1.0, 0.0], rates=[1.0, 1.0]),
            "FinalKernel: start = layers of shapes [(3, 2), (1, 3)] must be square and of one size (layers at the "
            "start, over sigma); fill the layers with zeros, or use FinalKernel.of([W1, W2], (X, Y))",
        ),
        (
            lambda: ls.solve((np.ones(2), np.ones((2, 3)), np.ones((2, 4))), np.eye(3), 1.0, context=9),
            "solve: query has shape (2, 4) but must be (2, 3) (shape of key, (heads, d)); give key and query one row "
            "for each head, with the length of a token",
        ),
        (lambda: ls.learn("digits"), "learn: dataset = 'digits' must be a Dataset (a problem); pass ls.data.load(...)"),
    ],
)
def test_an_error_names_the_function_the_value_and_the_fix(call, message):
    with refused((ValueError, TypeError), message):
        call()
