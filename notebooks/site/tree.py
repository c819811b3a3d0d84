"""Decision tree from a network, its data and its start to code that runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["PREAMBLE", "TREE", "Leaf", "Question", "leaves", "page"]

PREAMBLE = """\
import numpy as np
import linsolve as ls

rng, t = np.random.default_rng(0), np.linspace(0.0, 5.0, 50)"""


class Leaf(NamedTuple):
    """Flows or laws that hold, and code that evaluates the first one and ends in `traj` or `value`."""

    names: tuple[str, ...]
    code: str


class Question(NamedTuple):
    """A question and its answers, each with the next question or a leaf."""

    text: str
    answers: dict[str, Question | Leaf]


_ARRAYS = Leaf(
    (),
    """\
X, weights = rng.normal(size=(200, 4)), [0.3 * rng.normal(size=(6, 4)), 0.3 * rng.normal(size=(2, 6))]
Y = X @ rng.normal(size=(4, 2))  # put your own arrays here, one sample a row
print(ls.applies(weights, (X, Y)))  # the exact solution that holds, or the condition that fails
traj = ls.solve(weights, (X, Y), t)  # closed form if there is one, otherwise integrated""",
)

_ONE_MODE = Question(
    "Which start?",
    {
        "Balanced: both weights of the mode have one size.": Leaf(
            ("BalancedMode",), "traj = ls.BalancedMode(s=[3.0, 1.0])(t, 1e-3)"
        ),
        "Any start, any number of hidden units, any learning rates.": Leaf(
            ("HiddenMode",), "traj = ls.HiddenMode(s=2.0, eta_h=0.5)(t, ([0.1, 0.0], [0.0, 0.2]))"
        ),
        "Any start, with a bias; all outputs are equal.": Leaf(
            ("BiasedMode",), "traj = ls.BiasedMode(m=2.0, mu=1.0, N=4.0)(t, ([0.3], [0.2], 0.0))"
        ),
    },
)

_ONE_OUTPUT = Question(
    "Which state do you need?",
    {
        "All weights.": Leaf(
            ("TwoLayer",),
            "flow = ls.TwoLayer(y=1.0, gamma=0.1, x=[1.0, -2.0, 0.5])\n"
            "traj = flow(t, flow.init(width=100, d0=3, sigma_u=1.0, sigma_w=1.0, rng=0))",
        ),
        "Three order parameters, at any width.": Leaf(
            ("TwoLayerOrder",), "traj = ls.TwoLayerOrder(y=1.0)(t, ls.TwoLayerOrder.State(P=0.02, Q=0.01, R=0.0))"
        ),
        "The scaled output alpha (f - f0), from lazy to feature training.": Leaf(
            ("LazyTwoLayer",),
            "flow, z0 = ls.TwoLayer.from_lazy(alpha=10.0, h=50, X=[1.0, 2.0], y=3.0, rng=0)\ntraj = flow(t, z0)",
        ),
    },
)

_TWO_LAYERS = Question(
    "Two layers: which data?",
    {
        "One singular mode.": _ONE_MODE,
        "One output, inputs on a line through 0.": _ONE_OUTPUT,
        "White inputs, several outputs; the layers start balanced or with imbalance lambda times the identity.": Leaf(
            ("WhitenedTwoLayer",),
            "flow = ls.WhitenedTwoLayer(target=np.diag([3.0, 1.0]))\n"
            "traj = flow(t, flow.of(*flow.init(2, 4, 2, scale=1e-3, rng=0)))",
        ),
        "White inputs, several outputs; any small start.": Leaf(
            ("MatchedOutputs",),
            "law = ls.laws.MatchedOutputs.of([0.1 * np.eye(2), 0.05 * np.eye(2)], (np.eye(2), np.diag([3.0, 1.0])))\n"
            "traj = law(t)  # traj.error estimates the error",
        ),
        "Anything else.": _ARRAYS,
    },
)

_DEEP = Question(
    "Three or more layers, balanced and aligned with the data: how many modes?",
    {
        "One, at any real depth.": Leaf(("DeepMode",), "traj = ls.DeepMode(s=2.0, depth=[2, 3, np.inf])(t, 0.1)"),
        "Several.": Leaf(
            ("BalancedMap",), "traj = ls.BalancedMap(np.eye(2), [3.0, 1.0], np.eye(2), depth=3)(t, 0.125 * np.eye(2))"
        ),
        "The layers are not aligned.": _ARRAYS,
    },
)

_KERNEL = Question(
    "Constant tangent kernel: which structure?",
    {
        "Any kernel.": Leaf(
            ("FrozenKernel",),
            "J = rng.normal(size=(5, 8))\ntraj = ls.FrozenKernel(kernel=J @ J.T, y=rng.normal(size=5))(t, np.zeros(5))",
        ),
        "Three values: equal samples, equal classes, other classes.": Leaf(
            ("BlockKernel",),
            "traj = ls.BlockKernel(diagonal=2.0, within=1.0, between=0.5, sizes=[2, 2])(t, [1.0, 1.0, 0.0, 0.0])",
        ),
        "Blocks that differ from class to class.": Leaf(
            ("SpecializedKernel",),
            "flow = ls.SpecializedKernel.of_outputs(own=(4.0, 3.0, 0.5), other=(2.0, 1.0, 0.5), sizes=[2, 2])\n"
            "traj = flow(t, [1.0, 1.0, 1.0, 1.0])",
        ),
    },
)

_CLASSIFIER = Question(
    "Last layer and features of a classifier: is the last layer trained?",
    {
        "Yes.": Leaf(
            ("NeuralCollapse",),
            "flow = ls.NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=3, m=4)\n"
            "traj = flow(t, flow.of(*flow.init(6, scale=0.3, rng=0)))",
        ),
        "No, it is frozen.": Leaf(
            ("FrozenHead",),
            "head = [[1.0, 0.0], [-1.0, 0.0]]\n"
            "flow = ls.FrozenHead(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=2, m=2, w=head)\n"
            "traj = flow(t, (np.zeros((2, 4)), np.zeros(2)))",
        ),
    },
)

_ATTENTION = Question(
    "Linear attention, regression in context: keys and queries?",
    {
        "Merged into one matrix.": Leaf(
            ("LinearAttention",),
            "flow = ls.LinearAttention(context=31, dim=4)\n"
            "traj = flow(t, flow.of(*flow.init(4, heads=8, scale=0.01, rng=0)))",
        ),
        "Separate, of rank one.": Leaf(
            ("RankOneAttention",),
            "traj = ls.RankOneAttention(context=31, variance=[0.5, 2.0, 1.0])(t, [1e-3, 1e-3, 1e-3])",
        ),
    },
)

_AVERAGES = Question(
    "Averages: over which draws?",
    {
        "Minibatches of SGD.": Leaf(
            ("StreamingSGD",),
            "law = ls.laws.StreamingSGD(batch=4, step=0.1, dimension=10, noise_variance=0.5)\n"
            "value = law.mean([0, 10, 100]), law.std([0, 10, 100])",
        ),
        "Training samples and label noise: test error, when to stop.": Leaf(
            ("GeneralizationInTime",),
            "law = ls.laws.GeneralizationInTime(dimension=400, samples=400, noise_variance=0.25)\n"
            "value = law.optimal_stopping_time(), law.test_error(t)",
        ),
        "Random initial weights: the tangent kernel.": Leaf(
            ("NTKMoments",),
            "ones = [1.0, 1.0]\n"
            "law = ls.laws.NTKMoments(widths=[2, 4], weight_variance=2.0, slope=0.0, omega=ones, beta=ones)\n"
            "value = law.prediction(np)",
        ),
    },
)

TREE = Question(
    "What is given?",
    {
        "Weights and data, as arrays or files.": _ARRAYS,
        "A model with two layers.": _TWO_LAYERS,
        "A model with three or more layers.": _DEEP,
        "A model in the kernel regime, or a linear model.": _KERNEL,
        "The last layer of a classifier, with features that move.": _CLASSIFIER,
        "Linear attention.": _ATTENTION,
        "A frozen map plus a low-rank adapter (LoRA).": Leaf(
            ("LoRA",),
            "flow = ls.LoRA(target=np.diag([4.0, 2.0, 2.0]), base=np.eye(3), scale=2.0)\n"
            "traj = flow(t, flow.of(*flow.init(3, 2, 3, size=0.1, rng=0)))",
        ),
        "ReLU or leaky ReLU units in mirrored pairs, on mirrored samples.": Leaf(
            (),
            "X, w, u = rng.normal(size=(50, 3)), 0.3 * rng.normal(size=(4, 3)), 0.3 * rng.normal(size=(1, 4))\n"
            "weights, X = [np.concatenate([w, -w]), np.concatenate([u, -u], axis=1)], np.concatenate([X, -X])\n"
            'traj = ls.solve(weights, (X, X @ [1.0, -2.0, 0.5]), t, activation="relu")',
        ),
        "Gated pathways that race for one target.": Leaf(
            ("NeuralRace",), "traj = ls.NeuralRace(s=1.0, contexts=4, served=[4, 1])(t, [1e-3, 1e-3])"
        ),
        "A random ensemble; its mean and spread are needed.": _AVERAGES,
    },
)


def leaves(node: Question | Leaf = TREE) -> Iterator[Leaf]:
    """Yield all leaves below a node."""
    if isinstance(node, Leaf):
        yield node
    else:
        for below in node.answers.values():
            yield from leaves(below)


def page() -> str:
    """Return the tree in Markdown: nested answers that unfold, with code at the ends."""
    parts = ["## Decision tree", "Unfold one answer after the other. Each way ends in code that runs after"]
    parts += [f"```python\n{PREAMBLE}\n```", *_shown(TREE)]
    return "\n\n".join(parts) + "\n"


def _shown(node: Question | Leaf) -> Iterator[str]:
    if isinstance(node, Leaf):
        yield " ".join(f"[{name}](cards/{name}.md)" for name in node.names)
        yield f"```python\n{node.code}\n```"
        return
    yield f"**{node.text}**"
    for answer, below in node.answers.items():
        yield f'<details class="answer"><summary>{answer}</summary>'
        yield from _shown(below)
        yield "</details>"
