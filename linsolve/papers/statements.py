"""Numbered statements and figures of the five papers on record, each with the call that gives it.

A call is Python, after ``import numpy as np, linsolve as ls``, ``rng = np.random.default_rng(0)`` and ``t = 0.5``, or
a command that starts with ``linsolve``. A row without a call says why: the statement is missing from the package, it is
an experiment with nonlinear networks, or it is background of the source.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BACKGROUND", "MISSING", "NONLINEAR", "STATEMENTS", "Statement"]

MISSING, NONLINEAR, BACKGROUND = "missing", "nonlinear experiment", "background"


class Statement(NamedTuple):
    """One row: place in the paper, statement, call, and the reason for an empty call.

    Examples
    --------
    >>> from linsolve.papers.statements import STATEMENTS
    >>> next(row.call for row in STATEMENTS["xu_ziyin_2024"] if row.place == "Table 1")
    'ls.phases.table()'
    """

    place: str
    states: str
    call: str = ""
    reason: str = ""


def _flow(name: str, call: str) -> str:
    return f"flow, z0 = ls.{name}.example(rng); {call}"


def _law(name: str, what: str, small: float = 1e-3) -> str:
    return f'ls.laws.{name}.example(rng).approximation(np, {small:g})["{what}"]'


def _mean(name: str) -> str:
    return f"ls.laws.{name}.example(rng).prediction(np)"


_RELU = "ls.ntk.mean_field.named('relu')"
_GRAM = "np.array([[1.0, 0.5], [0.5, 1.0]])"

STATEMENTS: dict[str, tuple[Statement, ...]] = {
    "xu_ziyin_2024": (
        Statement("(1)-(3), (17), (18)", "loss and gradient flow", _flow("TwoLayer", "flow.velocity(np, z0)")),
        Statement("(4)-(8), (26)-(30)", "weights at any time", _flow("TwoLayer", 'flow(t, z0)["u"]')),
        Statement("(9)", "final weights", _flow("TwoLayer", "flow.limit(np, z0).w")),
        Statement("after (9)", "directions across the data", _flow("TwoLayer", 'flow(t, z0)["w_across"]')),
        Statement("(10)", "tangent kernel", _flow("TwoLayer", 'flow(t, z0)["ntk"]')),
        Statement("(11), (12)", "alignment", _flow("TwoLayer", 'flow([0, t, np.inf], z0)["alignment"]')),
        Statement("(13), section 3.3", "mechanism of learning", _flow("TwoLayer", "ls.phases.diagnose(flow, z0)")),
        Statement(
            "section 3.3", "lengths of the layers", _flow("TwoLayer", 'flow(t, z0)["u_norm"], flow(t, z0)["h_norm"]')
        ),
        Statement("(14)-(16), (36)-(38), Theorem 2", "phase of exponents", "ls.phases.classify(1, -0.5, 0, 0, 0, 0)"),
        Statement("Corollaries 1-3, section 4.2", "map of the phases", "linsolve phase exponents"),
        Statement("Table 1", "phases of common scalings", "ls.phases.table()"),
        Statement("below (16)", "final alignment, and its bound", _law("FinalAlignment", "alignment")),
        Statement(
            "below (16), bound", "lower bound of the final alignment", "ls.laws.FinalAlignment.example(rng).bound(np)"
        ),
        Statement(
            "(19)-(25)", "conserved quantities", _flow("TwoLayer", 'flow(t, z0)["balance"], flow(t, z0)["bivector"]')
        ),
        Statement(
            "(31)-(35)", "a start with P = 0", 'ls.TwoLayerOrder(y=-1.0)(t, dict(P=0.0, Q=0.5, R=0.0))["output"]'
        ),
        Statement("Figure 1 (linear)", "alignment and disalignment", "linsolve figure xu-ziyin-1"),
        Statement("Figures 2-7", "ReLU networks, CIFAR-10", reason=NONLINEAR),
    ),
    "atanasov_2022": (
        Statement("(1)", "outputs under a kernel", _flow("FrozenKernel", 'flow(t, z0)["f"]')),
        Statement("(2), (3), (12)-(14)", "model kernel that grows in scale", _law("TwoPhaseKernel", "function")),
        Statement("(15), section 2", "regression with the final kernel", _law("KernelRegression", "gap")),
        Statement("(4)", "two layers on white inputs", _flow("WhitenedTwoLayer", 'flow(t, z0)["product"]')),
        Statement(
            "(5)", "tangent kernel", _flow("WhitenedTwoLayer", "flow.ntk(np, flow.State(*z0), np.eye(3), np.eye(3))")
        ),
        Statement("(6), (7), (18), (19)", "kernel in phase I", _law("EarlyAlignment", "kernel")),
        Statement("(8)", "kernel over the whole of training", _law("KernelAlignment", "kernel")),
        Statement("section 3.1.2, (26)", "strength of a balanced network", _flow("BalancedMode", 'flow(t, z0)["a"]')),
        Statement("section 3.1.2, Figure 3(b)", "time to learn", _law("LearningTime", "half of the loss")),
        Statement("section 3.2", "final kernel on any covariance", _law("FinalKernelAnisotropic", "alignment")),
        Statement(
            "(9), (29)-(33)",
            "deep network, its balance",
            "ls.deep.distances([2 * np.eye(2), np.eye(2)], np.diag([3.0, 1.0]))",
        ),
        Statement("(10), (34)-(37), (42)", "kernel of a deep network", _law("FinalKernel", "kernel")),
        Statement("section 4.1.1, (38)-(40)", "strength at any depth", _flow("DeepMode", 'flow(t, z0)["a"]')),
        Statement(
            "section 4.1.1, after (40)", "time to learn", _law("DeepLearningTime", "half of the loss at depth 3")
        ),
        Statement("section 4.2", "several outputs over the whole of training", _law("MatchedOutputs", "product")),
        Statement("(11), (60)-(62)", "speed of features and loss", _law("KernelSpeed", "ratio")),
        Statement("(16)", "overlaps in phase I", _law("EarlyAlignment", "q")),
        Statement("(17)", "overlaps of Gaussian weights", _mean("InitialOverlaps")),
        Statement("(20)-(24)", "phase I on any covariance", _law("EarlyAnisotropic", "output")),
        Statement("(25)", "direction of the kernel", _law("EarlyKernelDirection", "kernel")),
        Statement("(27), (28)", "output and size from start to end", _law("MatchedSolution", "r")),
        Statement(
            "(27), (28), rates of the layers",
            "the same at learning rates of their own",
            "ls.laws.MatchedSolution.of([0.01 * np.eye(2), [[0.01, 0.0]]], (np.eye(2), [1.0, 0.0]), [3.0, 0.4])(t)"
            '["output"]',
        ),
        Statement("(41)", "alignment of the first layer", _law("FirstLayerAlignment", "slope", 0.1)),
        Statement(
            "section 4.1.1, figure 4(c)",
            "times to learn and to align from any start",
            _law("UnalignedLearningTime", "alignment", 0.1),
        ),
        Statement(
            "section 4.1.1, prefactor",
            "blow-up time of the draw",
            "ls.deep.blow_up([[[1.0]], [[2.0]], [[3.0]]], [[1.0]]).time",
        ),
        Statement("section 4.2, Figure 5(b)", "drops of the loss", _law("SaddleToSaddle", "drop 2")),
        Statement(
            "section 4.2, several outputs",
            "time to learn from any start, and its lower bound",
            "law = ls.laws.SaddleToSaddle.example(rng); "
            'law.earliest(1e-3), law.approximation(np, 1e-3)["half of the loss"]',
        ),
        Statement(
            "section 4.2, Figure 5(a)",
            "alignment of several outputs over time",
            "ls.deep.DeepNetwork.init((np.eye(3)[:, :2], [2.0, 1.0], np.eye(2)), 1e-3, depth=3).kernel_alignment([t])",
        ),
        Statement("(43)", "kernels of the activations", _law("LayerKernels", "layer 1")),
        Statement("(44)-(48)", "error on a new task", _mean("TransferError")),
        Statement(
            "(49)-(52)",
            "kernels in training learn one function",
            "ls.kernels.regression(np.diag([4.0, 1.0, 1.0]), [[3.0, 0.0, 0.0]], [6.0]).map",
        ),
        Statement("(53), (54)", "kernel of several outputs", _law("FinalKernelOutputs", "kernel")),
        Statement("(55), (57)-(59)", "strengths at unequal widths", _law("WidthCorrection", "strengths squared")),
        Statement("(56), one output", "mean imbalance of two trained layers, over sigma^2", _mean("LayerImbalance")),
        *(
            Statement(f"Figure {name}", "linear networks", f"linsolve figure {name}")
            for name in ("2", "3", "4", "5", "B.1", "D.1", "D.3", "D.4", "E.1")
        ),
        Statement("Figures 1, 5(c), 6, D.2, I.1", "ReLU, tanh and residual networks", reason=NONLINEAR),
    ),
    "geiger_2020": (
        Statement("(1)-(4)", "mean-field limit of nonlinear units", reason=NONLINEAR),
        Statement(
            "(5), (25)-(28)",
            "linearized model under a frozen kernel",
            _flow("TwoLayer", "ls.kernels.linearize(flow, z0)"),
        ),
        Statement("(6), (7), (31), (32)", "scaled output, one hidden layer", _flow("LazyTwoLayer", 'flow(t, z0)["F"]')),
        Statement("(8), (9)", "adaptive steps of descent", "ls.adaptive_descent(ls.BalancedMode(s=2.0), 0.5, t).t"),
        Statement(
            "(10)-(14)", "one hidden layer in their scaling", "ls.TwoLayer.from_lazy(0.5, 50, [1.0, 2.0], 3.0, rng=0)"
        ),
        Statement(
            "(10)-(14), (20)-(23)",
            "several hidden layers in feature training",
            _law("DeepFeatureRegime", "half time", 1e-5),
        ),
        Statement("(15)-(17), (33)", "variance over initial weights", _mean("LazyFluctuations")),
        Statement("(18), (24)", "kernel after training", _law("LazyTraining", "kernel change")),
        Statement("(18), lazy training", "kernel at fixed width", _mean("FixedWidthKernelChange")),
        Statement(
            "(18), (29), lazy training of several hidden layers",
            "kernel, weights and time of a draw",
            _law("DeepLazyRegime", "kernel change", 0.01),
        ),
        Statement(
            "(17), (18), lazy training of several hidden layers",
            "averages over initial weights",
            _mean("DeepLazyFluctuations"),
        ),
        Statement("(19)", "half time", _law("FeatureRegime", "half time")),
        Statement("(29)", "weights in lazy training", _law("LazyRegime", "weights")),
        Statement("(30)", "weights in feature training", _law("FeatureRegime", "weights")),
        Statement("section 6, Figure 3(a)", "crossover of the regimes", "linsolve phase lazy"),
        Statement("Table 2", "exponents at several depths", _law("DeepFeatureRegime", "kernel", 1e-5)),
        *(
            Statement(
                f"Figure {name} (linear)", "one hidden layer", f"linsolve figure geiger-{name.replace('(a)', 'a')}"
            )
            for name in ("4(a)", "5", "9")
        ),
        Statement("Figures 3(b)-(d), 4(c)-(d)", "test error of classifiers", reason=NONLINEAR),
        Statement("Figure 4(b) (linear)", "one and two hidden layers", "linsolve figure geiger-4b"),
        Statement("Figure 10 (linear)", "two hidden layers", "linsolve figure geiger-10"),
        Statement(
            "Table 1, Figures 1, 2, 6-8, 11-16", "Softplus, convolutional and residual networks", reason=NONLINEAR
        ),
    ),
    "ortiz_jimenez_2021": (
        Statement("(1)", "linearized network", _flow("TwoLayer", "ls.kernels.linearize(flow, z0)")),
        Statement(
            "(1), deep networks",
            "linearized deep network",
            "ls.kernels.linearize(ls.deep.deep_weights(np.eye(2), 3), [np.eye(2)] * 3).kernel",
        ),
        Statement(
            "(2)",
            "bound of the risk, the term of the norm",
            "K = np.diag([4.0, 1.0]); ls.kernels.rkhs_norm(K, [2.0, 1.0]) * np.sqrt(np.trace(K)) / 2",
        ),
        Statement("(3), (7)", "norm of a function", "ls.kernels.rkhs_norm(np.diag([4.0, 1.0]), [2.0, 1.0])"),
        Statement(
            "Lemma 1, (6), (8), (9)", "bound of the norm", "ls.kernels.rkhs_norm_bound(np.diag([4.0, 1.0]), [2.0, 1.0])"
        ),
        Statement(
            "Lemma 1, (10)",
            "alignment by the Jacobian",
            "ls.kernels.alignment_from_jacobian(rng.standard_normal((2, 5)), [2.0, 1.0])",
        ),
        Statement("(5)", "data sets along a direction", reason=NONLINEAR),
        Statement(
            "Theorem 1, (4), (11)-(13)",
            "anisotropy directions",
            "ls.kernels.anisotropy_directions([rng.standard_normal((3, 2)), rng.standard_normal((1, 3))])",
        ),
        Statement(
            "section 4.2",
            "energy concentration",
            "ls.kernels.energy_concentration(np.diag([4.0, 1.0]), [3.0, 4.0], top=1)",
        ),
        Statement("Figure 8", "kernels frozen before and after training", "linsolve figure 8"),
        *(
            Statement(f"Figure {name} (linear)", "kernels during training", f"linsolve figure ortiz-{name}")
            for name in ("6", "7", "9")
        ),
        Statement("Table 1, Figures 1-5, 10-16", "convolutional and residual networks", reason=NONLINEAR),
    ),
    "seleznova_2024": (
        Statement(
            "1: (1.1), (1.2); 2: (2.1)-(2.23), (2.34)-(2.40)",
            "networks, descent, risk and its bounds",
            reason=BACKGROUND,
        ),
        Statement("2: Figures 2.1, 2.3, 2.4", "drawings of a network and of generalization curves", reason=BACKGROUND),
        Statement("2: Figure 2.5", "kernel of a trained ReLU network", reason=NONLINEAR),
        Statement(
            "2: (2.24)-(2.30); 3.1: (1), (5)-(7)",
            "covariance at infinite width",
            f"ls.ntk.mean_field.kernels(np, {_RELU}, {_GRAM}, 3, 2.0, 0.1)[0]",
        ),
        Statement(
            "2: (2.31)-(2.33); 3.1: (8), (9)",
            "phases of initialization",
            "ls.ntk.mean_field.chi(np, 'relu', np.array(2.0))",
        ),
        Statement(
            "2: (2.51)-(2.57)",
            "kernel at infinite width",
            f"ls.ntk.mean_field.kernels(np, {_RELU}, {_GRAM}, 3, 2.0, 0.1)[1]",
        ),
        Statement(
            "2: (2.41)-(2.44)",
            "least squares of least norm",
            "ls.kernels.regression(np.eye(3), rng.normal(size=(2, 3)), [1.0, 2.0]).map",
        ),
        Statement(
            "2: (2.45), (2.46)",
            "risk of least squares, noise of new labels included",
            "ls.laws.GeneralizationInTime(dimension=400, samples=1000, noise_variance=0.7).test_error(np.inf)",
        ),
        Statement(
            "2: (2.47)",
            "risk of minimizers reached from other starts",
            "law = ls.laws.GeneralizationOfData(rng.normal(size=(2, 3)), np.eye(3), signal=0.0, start=4.0); "
            "law.test_error(np.inf)",
        ),
        Statement(
            "2: (2.48)-(2.50), (2.58)",
            "tangent kernel of a network",
            _flow("TwoLayer", "ls.kernels.tangent_kernel(flow, z0, np.eye(flow.x.shape[-1]))"),
        ),
        Statement(
            "2: (2.59)-(2.61); 3.1: (2)-(4), (10)",
            "training in the kernel regime",
            _flow("FrozenKernel", 'flow(t, z0)["f"]'),
        ),
        Statement(
            "2: (2.62)",
            "generalization bound, the term of the norm",
            "K = np.diag([4.0, 1.0]); np.sqrt(2 / 2) * ls.kernels.rkhs_norm(K, [2.0, 1.0])",
        ),
        Statement("2: (2.63)", "kernel alignment", "ls.kernels.cosine_alignment(np.diag([4.0, 1.0]), [3.0, 4.0])"),
        Statement(
            "3.1: edge of chaos, E.1, E.2", "edge of chaos", "ls.ntk.mean_field.edge_of_chaos(np, np.array([0.0, 1.0]))"
        ),
        Statement(
            "3.1: Lemma 1",
            "covariance of the output at infinite width, standard weights",
            f"ls.ntk.standard_kernel(np, 'tanh', {_GRAM}, [3, 10, 10], 1.5, 0.1).output",
        ),
        Statement(
            "3.1: Lemma 2",
            "kernels with standard weights",
            f"ls.ntk.standard_kernel(np, 'tanh', {_GRAM}, [3, 10, 10], 1.5, 0.1).weights",
        ),
        Statement(
            "3.1: Theorem 3",
            "variance of the output",
            "ls.ntk.equicorrelated_variance(10, 1.0, 0.5, 4.0, 1.0, np.inf)",
        ),
        Statement(
            "3.1: Figures 5, 6",
            "ratio of the kernel on and off the diagonal",
            f"(lambda k: k[0, 0] / k[0, 1])(ls.ntk.standard_kernel(np, 'erf', {_GRAM}, np.ones(40), 3.0, 0.5).weights)",
        ),
        Statement(
            "3.1: Figures 1(a), 3, edge of chaos",
            "tanh by quadrature",
            "ls.ntk.mean_field.edge_of_chaos(np, np.array([1.0, 3.0]), 'tanh').weight_variance",
        ),
        Statement(
            "3.1: Figures 1(a), 7(a)",
            "dispersion of tanh networks at initialization, by exact sampling",
            "draws = ls.ntk.sample_kernels(0, 200, 'tanh', np.array([[1.0]]), np.full(5, 20), 3.0, 1.0); "
            "ls.ntk.estimate_dispersion((draws.weights + draws.biases)[:, 0, 0]).value",
        ),
        Statement("3.1: Figure 1", "dispersion of tanh and ReLU networks", "linsolve figure seleznova-3.1-1"),
        Statement(
            "3.1: Figures 1(b), 2, 7(b), exact",
            "dispersion with random biases",
            _mean("NTKMomentsWithBiases"),
        ),
        Statement(
            "3.1: Figure 2; 3.2: Figures 1, 2, 9, 10",
            "dispersion against depth",
            "linsolve ntk-stats --width 20 --depth 20 --networks 1000",
        ),
        Statement("3.1: Figures 3, 4, 8-11", "trained ReLU and tanh networks", reason=NONLINEAR),
        Statement(
            "3.2: Theorem 3.1, (8)-(10), (40)-(42)",
            "dispersion in the joint limit",
            _law("NTKDispersionLimit", "chaotic"),
        ),
        Statement(
            "3.2: Theorem 3.2, (1)-(7), (11)-(15), (19), (20), (24)-(39), Figures 5, 6",
            "moments of the kernel",
            "ls.ntk.moments(np.array([3, 10, 10, 10]), 2.0).log_dispersion(np)",
        ),
        Statement(
            "3.2: Theorem 3.3, (16)-(18), Figure 3",
            "kernel off the diagonal, by exact sampling",
            f"ls.ntk.sample_kernels(0, 200, 'relu', {_GRAM}, np.full(5, 20), 2.0, 0.0).weights.mean(axis=0)",
        ),
        Statement(
            "3.2: Figures 7, 8",
            "dispersion of the kernel off the diagonal, by exact sampling",
            f"draws = ls.ntk.sample_kernels(0, 200, 'relu', {_GRAM}, np.full(5, 20), 2.0, 0.0); "
            "ls.ntk.estimate_dispersion(draws.weights[:, 0, 1]).value",
        ),
        Statement(
            "3.2: Theorem 3.3, (16), (17), limit",
            "kernel off the diagonal, depth in proportion to width",
            "ls.ntk.pair_limit([0.0, 0.5, np.inf])",
        ),
        Statement(
            "3.2: (18)",
            "kernel off the diagonal, with its standard error",
            "ls.ntk.pair_ratio(0, 200, [20] * 5, 1.5, 0.5).value, ls.ntk.printed.pair_bound(5, 0.75, 0.5)",
        ),
        Statement("3.2: Figures 3, 11", "kernel off the diagonal by phase", "linsolve figure seleznova-3.2-3"),
        Statement(
            "3.2: Theorem 4.1, (21), (22), (43), (44)",
            "derivative of the kernel along the first gradient step, gates held",
            _law("NTKFirstStepLimit", "chaotic"),
        ),
        Statement(
            "3.2: (23), Figure 4",
            "blocks of an empirical kernel",
            "ls.kernels.fit_blocks(np.kron(np.eye(2), np.ones((3, 3))) + np.eye(6), [0, 0, 0, 1, 1, 1]).within",
        ),
        Statement("3.2: C.3", "dispersion of a sample", "ls.ntk.estimate_dispersion(rng.exponential(size=99)).value"),
        Statement("3.2: Figure 4", "kernel of trained ReLU networks", reason=NONLINEAR),
        Statement(
            "3.3: Table 1, (8)-(15)",
            "residuals under a kernel with blocks",
            _flow("BlockKernel", 'flow(t, z0)["loss_class"]'),
        ),
        Statement(
            "3.3: (1)-(7), (16)-(25), (31)-(42)",
            "features, classifier and bias",
            _flow("NeuralCollapse", 'flow(t, z0)["product"]'),
        ),
        Statement("3.3: (26)-(28), (43), (54)", "invariant", _flow("NeuralCollapse", 'flow(t, z0)["imbalance"]')),
        Statement(
            "3.3: (NC1)-(NC4), (51)-(58)",
            "measures of neural collapse",
            _flow("NeuralCollapse", 'flow([t, np.inf], z0)["nc1"]'),
        ),
        Statement(
            "3.3: (44)-(50)",
            "closed form of the end of training",
            "flow = ls.collapse.ZeroTarget(eta_w=4.0, eta_d=1.0); "
            'flow(t, flow.of(rng.normal(size=(3, 5)), rng.normal(size=(5, 9))))["gram_d"]',
        ),
        Statement(
            "3.3: (44)-(50), several rates",
            "end of training by quadrature",
            "flow = ls.collapse.ZeroTargetRates(eta_w=4.0, mu=[1.0, 0.3, 2.0]); "
            'flow(t, (0.8, rng.normal(size=3)))["h"]',
        ),
        Statement(
            "3.3: (29), (30), (59)-(70)",
            "limits with any bias",
            "flow = ls.NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=3, m=4); "
            "ls.collapse.balanced_limit(flow, [0.2, 0.3, 0.4]).gram_w",
        ),
        Statement(
            "3.3: (71)-(80)",
            "kernels with matrix blocks",
            "flow = ls.collapse.GeneralBlocks(*(k * np.eye(4) for k in (1.0, 0.5, 0.1))); "
            "flow.velocity(np, flow.State(rng.normal(size=(4, 6)), rng.normal(size=(3, 4)), np.zeros(3))).w",
        ),
        Statement(
            "3.3: (25), unequal class sizes",
            "features, classifier and bias",
            "flow = ls.NeuralCollapse(kappa_d=2.0, kappa_c=0.5, kappa_n=0.5, classes=3, m=[3, 1, 2]); "
            'flow(t, flow.of(*flow.init(5, scale=0.3, rng=rng)))["product"]',
        ),
        Statement(
            "3.3: (29), (60), unequal class sizes",
            "limit of balanced weights",
            "flow = ls.NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=3, m=[3, 1, 2]); "
            "ls.collapse.balanced_limit(flow, [0.2, 0.3, 0.4]).gram_w",
        ),
        Statement("3.3: Figures 1-20", "residual and convolutional networks; linear counterpart", "linsolve collapse"),
    ),
}
