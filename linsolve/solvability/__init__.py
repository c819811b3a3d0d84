"""`applies`: the exact solutions that hold for a network on a data set, or the nearest ones with their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linsolve.core.named_arguments import named_arguments

if TYPE_CHECKING:
    from linsolve.solvability.verdict import Verdict

__all__ = ["applies"]


@named_arguments("applies")
def applies(
    weights: Any,
    data: Any,
    rates: Any = None,
    *,
    bias: Any = None,
    activation: str | tuple[str, float] | None = None,
    covariances: bool = False,
    until: float | None = None,
    tolerance: float | None = None,
    step: float | None = None,
    within: float | None = None,
    test: Any = None,
    threshold: float | None = None,
    base: Any = None,
    scale: float | None = None,
    context: float | None = None,
    contexts: Any = None,
    gates: Any = None,
) -> Verdict:
    r"""Return the exact solutions that hold for a linear network on a data set, and the errors of the nearest others.

    .. math:: L = \frac{1}{2P} \sum_\mu |y_\mu - W_L \cdots W_1 x_\mu|^2, \qquad
        \dot W_l = -\eta_l\, \partial L / \partial W_l .

    Parameters
    ----------
    weights : sequence of array_like
        ``W1, ..., WL`` from the first layer, shape (n_1, n_in), to the last, shape (n_out, n_{L-1}) or, for one output,
        (n_{L-1},). Two-layer branches whose outputs are added (gated networks, late fusion) are pairs in a list,
        ``[[W1, W2], [W1, W2], ...]``, or an array of shape (branches, 2, n, n); see Notes.
    data : pair of array_like
        Samples ``(X, Y)``, shapes (P, n_in) and (P, n_out) or (P,), taken as they are (a network without biases is not
        centered); with ``covariances=True`` the moments ``(Sigma_xx, Sigma_yx) = (X^T X / P, Y^T X / P)``. For branches
        X is one array that all of them read, or a tuple with one array for each.
    rates : array_like, shape (L,), optional
        Learning rates, positive; 1 by default. For the loss summed over samples multiply them by P.
    bias : sequence of array_like, or a number, optional
        Trained biases, one entry a layer, shape (n_l,) or a number for all units, None for a layer without a bias; they
        have the learning rates of their layers, and need samples.
    activation : None, "linear", "relu" or ("leaky_relu", alpha)
        Activation function of the hidden units; `alpha`, above -1, is the slope of negative inputs. See Notes.
    covariances : bool
        Whether `data` holds second moments instead of samples.
    until : float, optional
        Horizon of error bounds and measurements, in units of time; by default the time at which the removable loss has
        fallen to 5 %, or the network stays at a saddle. At most 1e6 time constants of the fastest mode; the integration
        of the network up to this time takes minutes. Rank-one heads take at most 1e5, and by default at most 3e3.
    tolerance : float, optional
        Relative distance, 1e-15 to 0.1, up to which a condition counts as holding; weaker directions of data and
        weights are dropped. By default 1e-9, or 16 units of rounding (1.9e-6) if weights or data are float32; the
        verdict states it.
    step : float, optional
        Length of a step of gradient descent, in units of time. ``verdict.departure`` is then the first time at which
        its outputs differ from those of gradient flow by more than `within` times the largest output of the flow (root
        mean square over samples). Its `method` names the source: exact descent, for a network that reduces to a `Map`;
        a simulation; or a leading correction. If no network without biases is equivalent, `step` needs `until`.
    within : float, optional
        Size of that difference, as a share of the largest output, 0.01 by default; needs `step`.
    test : pair of array_like, optional
        Test samples ``(X, Y)``, shapes (m, n_in) and (m, n_out) or (m,): also find the time at which their loss is
        least, the part of the loss that no training time removes, and the delay of test accuracy behind train accuracy,
        ``verdict.generalization``. For one layer without hidden units the test loss is known at all times, and
        predicted from the training samples. Other networks are followed up to `until`: nothing is said of later times.
        Training data must be samples.
    threshold : float, optional
        Squared error, summed over outputs, up to which a sample counts as correct; by default a tenth of the mean
        squared training error of the start, or of the mean squared target if the start fits it; needs `test`.
    base : array_like, shape (n_out, n_in), optional
        Frozen map :math:`W_0`, which is added to the outputs and does not learn (fine-tuning). Outputs, errors and
        `within` are then those of the update.
    scale : float, optional
        Factor c of the product of the layers, :math:`\alpha/\mathrm{rank}` for adapters; 1 by default. Low-rank
        adaptation (LoRA) is ``applies([a, b], (X, Y), base=W0, scale=alpha / rank)``.
    context : float, optional
        Number of tokens in a context, for linear attention that learns linear regression in context. `weights` is then
        ``(value, key_query)``, shapes (heads,) and (heads, d, d), or ``(value, key, query)`` of rank-one heads, shapes
        (heads,), (heads, d) and (heads, d), and `rates` has their learning rates. `data` is the covariance of the
        tokens, shape (d, d) or (d,) or one number, or sampled sequences ``(tokens, targets)``, shapes
        (P, context + 1, d) and (P, context + 1), each with its query last; `test` is sampled, too. Rank-one heads take
        no `step` and no `test`.
    contexts : array_like of int, shape (P,), optional
        Context of each sample, 0 to K - 1, for branches that contexts gate; ``numpy.unique(labels,
        return_inverse=True)[1]`` numbers other labels.
    gates : array_like of 0 and 1, shape (branches, K), optional
        Whether each branch acts in each context; by default all do.

    Returns
    -------
    Verdict
        Its flows run in the network's time. ``print`` shows the answer, ``verdict.report()`` all conditions. For
        adapters and attention ``verdict.directions`` has the times at which the directions of the target are learned.

    Raises
    ------
    ValueError, TypeError
        If shapes do not fit, entries are not finite, second moments are not positive semidefinite, rates are not
        positive, or the tolerance is out of range.

    Notes
    -----
    Input directions outside the span of the data do not count, nor do those absent from both start and target: the
    first layer is constant there. A network at which every gradient is exactly 0 stays there, and is exact as
    "stationary point"; its flow is a `DeepMode` of one layer at its target. A note states whether it is a saddle.

    With biases a closed form is known in three cases. If only the first layer has a bias, it is a weight of the
    constant input 1. If the inputs are centered, the weights move as without biases on centered targets in two cases:
    only the last layer has a bias; or the hidden biases are zero and the last is the mean of the targets.

    A leaky ReLU network (ReLU: alpha = 0) with one hidden layer trains as the linear network :math:`g W_2 W_1 x`,
    :math:`g = (1 + \alpha) / 2`, under four conditions, whose distances the verdict states: each hidden unit (w, u),
    its row of W1 and column of W2, has a mirrored unit (-w, -u); each sample (x, y) has a mirrored sample (-x, -y);
    there is no bias, or an output bias of 0 and data of zero means; no unit has a sample, other than 0, with
    :math:`w \cdot x = 0` exactly, where the slope is taken as :math:`\phi'(0) = g` and programs take another.
    Units :math:`c_i (w, u)` on one line through the origin need not be pairs: the sums of :math:`c_i^2` of the two
    sides must agree. The same holds for samples :math:`(c_i x, y_i)` on one line; the sum of :math:`|c_i| y_i` must
    vanish, too. The network then stays odd, and its weights are at every time those of the linear network, under
    gradient flow, gradient descent, momentum and sign-equivariant optimizers such as Adam. ``verdict.flow()`` is the
    flow of the weights :math:`\sqrt g W_l`. With two or more hidden layers of mirrored units the network stays odd
    but does not stay linear: the verdict states the distance of its gradient. Source: Zhang, Saxe & Latham, "When are
    bias-free ReLU networks effectively linear networks?" (2025).

    Branches give :math:`f(x_i) = \sum_b g_{b k} W_2^{bk} W_1^b x_i`, k the context of sample i. ``W2`` has shape
    (n_out, width), one head for all contexts of the branch, or (m, n_out, width), one for each of the m contexts in
    which it acts, in increasing order; `rates` are those of first layers and heads. Two cases are exact. Branches that
    share no error, since they act in different contexts or on inputs that are not correlated there, are two-layer
    networks side by side; several heads of one branch are one below the other, if the contexts are equally frequent and
    have the same second moments of the inputs. Branches that share errors are a `NeuralRace` in each mode: the contexts
    are alike in this sense, their maps have the same singular values and right singular vectors, which are
    eigenvectors of the inputs' second moment, all layers are aligned with them and balanced, the heads of a branch have
    equal sizes, and each context has branches of the same kinds and strengths. ``flow()`` of several parts needs the
    name of one, such as ``"NeuralRace of branches 1, 3"``; the maps of a part's contexts are one below the other.
    Branches are numbered from 1, as layers are; positions in arrays, such as ``gates[0]`` of branch 1, from 0.

    For late fusion of two branches with one output that is not exact, ``verdict.fusion`` has the conditions of the law
    ``linsolve.laws.UnimodalBias``, its times, and those of the integrated weights. The branch that is correlated more
    with the output is learned when the loss has lost half of what this branch alone can remove, the other one when it
    has then lost half of the rest. Branches take no `bias`, `test`, `step`, `base` or `covariances`, and are linear.

    Exact for: linear layers, and leaky ReLU under these conditions, under gradient flow. Not for: other nonlinear
    units, momentum, steps of finite size.

    Accuracy: every exact flow is compared with the integrated network (``verdict.errors``); the bounds of nearby cases
    dominate the measured errors (``tests/solvability/test_applies.py``, ``test_bound.py``).

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> rng = np.random.default_rng(0)
    >>> u, w = rng.normal(size=3), rng.normal(size=(3, 2))
    >>> verdict = ls.applies([w, u], ([[1.0, 2.0], [2.0, 4.0]], [1.0, 3.0]), rates=[0.5, 2.0])
    >>> verdict.exact[0]
    'TwoLayer'
    >>> flow, z0 = verdict.flow()
    >>> flow(float("inf"), z0)["output"].round(6).item() == flow.y.round(6).item()
    True

    A ReLU network of mirrored units, on mirrored samples:

    >>> w, u = np.concatenate([w, -w]), np.concatenate([u, -u])
    >>> data = [[1.0, 2.0], [2.0, 4.0], [-1.0, -2.0], [-2.0, -4.0]], [1.0, 3.0, -1.0, -3.0]
    >>> print(str(ls.applies([w, u], data, activation="relu")).split(", ")[1])
    linear of gain 0.5: exact as TwoLayer

    >>> X = np.sqrt(3) * np.eye(3)  # white inputs; adapters of rank 2 learn two of the three directions
    >>> a, b = ls.LoRA.init(3, 2, 3, size=0.1, rng=0)
    >>> verdict = ls.applies([a, b], (X, X @ np.diag([5.0, 3.0, 2.0])), base=np.eye(3), scale=2.0)
    >>> verdict.exact[0], verdict.directions.times.round(3).tolist()
    ('LoRA', [0.559, 0.757, inf])

    >>> size = np.cbrt(1e-3) * np.ones(2)  # heads along the axes; tokens of variances 2 and 1
    >>> heads = size, np.diag(size), np.diag(size)
    >>> verdict = ls.applies(heads, [2.0, 1.0], context=31)
    >>> verdict.exact[0], verdict.directions.times.round(3).tolist()
    ('RankOneAttention', [2.222, 9.109])

    A gated network, two contexts: a pathway with a head for each, and a private pathway in each. The shared one wins:

    >>> X, private, gates = [[1.0]] * 4, [[[0.1]], [[0.1]]], [[1, 1], [1, 0], [0, 1]]
    >>> shared = [[[0.1 * 2**0.25]], [[[0.1 / 2**0.25]], [[0.1 / 2**0.25]]]]  # balanced: |W1|^2 = 2 |W2|^2
    >>> verdict = ls.applies([shared, private, private], (X, [2.0] * 4), contexts=[0, 0, 1, 1], gates=gates)
    >>> verdict.exact
    ('NeuralRace',)
    >>> flow, z0 = verdict.flow()
    >>> flow(float("inf"), z0)["strengths"].round(3).tolist()  # of pathways of two contexts and of one
    [[1.633, 0.367]]

    Late fusion, from a small start: the branch that is correlated more is learned first, and alone:

    >>> a, b = np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.array([[1.0], [0.0], [0.0], [-1.0]])
    >>> verdict = ls.applies([[[[1e-5]], [[1e-5]]]] * 2, ((a, b), 2 * a[:, 0] + b[:, 0]))
    >>> verdict.exact, verdict.fusion.order, np.round(verdict.fusion.times, 2).tolist()
    ((), (1, 2), [4.61, 20.42])
    """
    from linsolve.solvability.answer import answered  # imported on use: it needs SciPy

    return answered(
        weights, data, rates, covariances, until, tolerance, bias=bias, step=step, within=within, test=test,
        threshold=threshold, activation=activation, base=base, scale=scale, context=context,
        contexts=contexts, gates=gates,
    )  # fmt: skip
