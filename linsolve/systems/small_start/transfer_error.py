"""Generalization error of kernel regression with a learned kernel on a new task."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from linsolve import arithmetic
from linsolve.core.arguments import integer, number, real_array, refuse_fractions
from linsolve.core.law import Statistic
from linsolve.core.network_law import Estimate, GivenNetwork, NetworkLaw
from linsolve.core.parameters import parameter
from linsolve.systems.small_start.final_kernel import FinalKernel
from linsolve.systems.small_start.final_network import FinalNetwork
from linsolve.systems.small_start.start import LARGEST, check_range, refuse

__all__ = ["TransferError"]


_MEANINGS = {"task": "new tasks", "samples": "number of samples of the new task"}


class TransferError(Statistic):
    r"""Mean generalization error on a new task of kernel ridge regression with the kernel of a trained linear network.

    With :math:`K(x, x') = x^\top [A \beta \beta^\top + I] x'`, ``P`` inputs :math:`x \sim N(0, I_D)`, a ridge
    :math:`\lambda` added to the ``P x P`` kernel matrix, and a new task :math:`y = w \cdot x`, :math:`|w| = 1`,
    :math:`w \cdot \beta = \alpha`,

    .. math:: E_g = \langle |w - \hat w|^2 \rangle = \frac{\kappa^2}{1 - \gamma} \Bigl[
        \frac{\alpha^2}{((1 + A) P + \kappa)^2} + \frac{1 - \alpha^2}{(P + \kappa)^2} \Bigr],

    .. math:: \kappa = \lambda + \kappa \Bigl[\frac{1 + A}{(1 + A) P + \kappa} + \frac{D - 1}{P + \kappa}\Bigr], \qquad
        \gamma = P \Bigl[\frac{(1 + A)^2}{((1 + A) P + \kappa)^2} + \frac{D - 1}{(P + \kappa)^2}\Bigr].

    Parameters
    ----------
    strength : array_like, shape (case,)
        Spike ``A`` of the kernel: ``L - 1`` after training ``L`` layers at equal learning rates, 0 before training.
    overlap : array_like, shape (case,)
        Overlap :math:`\alpha` of the new task with the old one.
    samples : array_like, shape (case,)
        Number ``P`` of samples of the new task; 0 is allowed. `sample` needs an integer.
    ridge : array_like, shape (case,)
        Ridge :math:`\lambda`.
    n_in : int
        Number ``D`` of inputs; with one input the overlap is 1 or -1.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown or not real.
    ValueError
        If a parameter is not finite or outside of its domain, or shapes do not fit.

    Notes
    -----
    Exact for ``A = 0`` without ridge, where :math:`E_g = 1 - P/D` for ``P <= D``, and for ``P = 0``. Otherwise it is
    the limit of large ``D`` and ``P``, with an error :math:`O(1/D)` (at ``A = 50, D = 100, P = 20``: 0.0075, sampled
    0.0086(3)). Without ridge and with ``P >= D`` the error is 0.

    Source: Atanasov, Bordelon, Pehlevan (2022), appendix E, eqs. (45)-(48). ``linsolve card TransferError`` lists the
    published formulas and their verdicts.

    Examples
    --------
    >>> import numpy as np
    >>> import linsolve as ls
    >>> kernel = {"strength": [0.0, 0.0], "overlap": [0.5, 0.5]}
    >>> law = ls.laws.TransferError(**kernel, samples=[25, 50], ridge=[0.0, 0.0], n_in=100)
    >>> law.prediction(np)["error"].round(6).tolist()  # 1 - P/D before training
    [0.75, 0.5]
    """

    strength: Any = parameter("A", "spike of the kernel", domain="[0, inf)", axes=("case",))
    overlap: Any = parameter(r"\alpha", "overlap of the new task with the old", domain="[-1, 1]", axes=("case",))
    samples: Any = parameter("P", "number of samples of the new task", domain="[0, inf)", axes=("case",))
    ridge: Any = parameter(r"\lambda", "ridge", domain="[0, inf)", axes=("case",))
    n_in: Any = parameter("D", "number of inputs", domain="[1, inf)", whole=True)

    approximates: ClassVar[str] = "kernel regression with the kernel of a trained linear network, averaged over samples"
    timed: ClassVar[bool] = False
    draws: ClassVar[int] = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self)
        away = np.abs(np.abs(arithmetic.to_numpy(self.overlap)) - 1)
        if int(self.n_in) == 1 and away.max() > 0:
            least = f"{float(np.abs(arithmetic.to_numpy(self.overlap)).min()):g}"
            refuse(self, "overlap", least, "must be 1 or -1 for n_in = 1, where no task is orthogonal", "add an input")

    symbol: ClassVar[str] = "1/D"
    meaning: ClassVar[str] = "inverse number of inputs"

    @classmethod
    def of(  # type: ignore[override]
        cls,
        weights: Any,
        data: Any,
        rates: Any = None,
        *,
        task: Any = None,
        samples: int | None = None,
        ridge: float = 0.0,
        bias: Any = None,
        covariances: bool = False,
        tolerance: float | None = None,
    ) -> NetworkLaw:
        r"""Return the law of regression on a new task with the tangent kernel of a network at the end of training.

        Parameters
        ----------
        weights, data, rates, covariances, tolerance
            As in `MatchedOutputs`; a network with one output from a small start.
        task : array_like, shape (n_in,) or (tasks, n_in)
            New tasks :math:`y = w \cdot x`, not zero.
        samples : int
            Number of standard Gaussian samples of the new task; 0 is allowed.
        ridge : float
            Ridge added to the kernel matrix, in units of the kernel's part without spike,
            :math:`\bar\eta s^{2 - 2/L}`.
        bias : None
            Biases are refused: each adds a part to the kernel, a constant or a function of the new inputs, that the
            average over samples does not have.

        Returns
        -------
        NetworkLaw
            ``law()["error"]`` is the mean of :math:`|w - \hat w|^2`, shape () or (tasks,).

        Raises
        ------
        NotExact
            If the network has several outputs or a bias, or its start is not small.
        TypeError
            If the task or the number of samples is missing.
        ValueError
            If an argument is invalid.

        Examples
        --------
        >>> import numpy as np
        >>> import linsolve as ls
        >>> weights = [0.01 * np.ones((3, 40)), 0.01 * np.ones(3)]
        >>> X = np.random.default_rng(0).normal(size=(60, 40))
        >>> task = np.eye(40)[0]  # the task learned before: two layers, spike 1
        >>> law = ls.laws.TransferError.of(weights, (X, X[:, 0]), task=task, samples=20)
        >>> float(law()["error"].round(3))  # 1 - P/D = 0.5 before training
        0.228
        """
        who = f"{cls.__name__}.of"
        for name, value, fix in (("task", task, "task=[1.0, 0.0] for two inputs"), ("samples", samples, "samples=20")):
            if value is None:
                raise TypeError(f"{who}: {name} = None must be given ({_MEANINGS[name]}); say {fix}")
        given = GivenNetwork.read(who, weights, data, rates, covariances, tolerance, bias)
        if given.network.biases:
            meaning = "a bias adds a part to the kernel that the average over samples of the new task does not have"
            given.refuse("bias", "given", "must be left out", meaning, "integrate the network with linsolve.solve")
        net, network = FinalNetwork.of(given, outputs=1), given.network
        n_in = network.weights[0].shape[1]
        tasks = np.asarray(real_array(who, "task", task, meaning=_MEANINGS["task"]))
        if tasks.ndim not in (1, 2) or tasks.shape[-1] != n_in:
            raise ValueError(
                f"{who}: task has shape {tasks.shape} but must be ({n_in},) or (tasks, {n_in}) (new tasks); reshape it"
            )
        largest = np.abs(tasks).max(axis=-1, initial=0.0)
        for bad in largest[(largest > LARGEST) | (largest < 1 / LARGEST)].ravel():
            rule = f"must have a largest entry between {1 / LARGEST:g} and {LARGEST:g}"
            raise ValueError(f"{who}: task = {bad:.3g} {rule} (new tasks); rescale, or drop a task of zeros")
        sizes = np.linalg.norm(tasks, axis=-1)
        count = integer(who, "samples", samples, meaning=_MEANINGS["samples"], low=0, example=20)
        ridge = number(who, "ridge", ridge, meaning="ridge", domain="[0, inf)", example=0.0)
        learned = (net.learned @ network.span.T)[0]
        overlap = np.clip(tasks @ learned / (sizes * np.linalg.norm(learned)), -1.0, 1.0)
        overlap, depth = np.sign(overlap) if n_in == 1 else overlap, len(network.weights)
        law = cls(
            strength=np.full(overlap.size, depth - 1.0),
            overlap=np.ravel(overlap),
            samples=np.full(overlap.size, float(count)),
            ridge=np.full(overlap.size, ridge),
            n_in=n_in,
        )

        def predict(given: GivenNetwork) -> dict[str, Estimate]:
            values = law.prediction(np)["error"].reshape(sizes.shape) * sizes**2
            return {"error": Estimate(lambda: values, 1, depth / n_in + 4 * net.error)}

        NetworkLaw(FinalKernel, given, net.small, predict)  # raises unless the start is small
        return NetworkLaw(cls, given, 1 / n_in, predict, expansion=False)

    def scale(self, xp: Any) -> Any:
        """Return ``kappa`` by Newton's method from above, which is monotone because the equation is convex."""
        spike = 1 + self.strength
        kappa = self.ridge + self.strength + self.n_in
        for _ in range(80):
            one, rest = spike * self.samples + kappa, self.samples + kappa
            excess = kappa - self.ridge - kappa * (spike / one + (self.n_in - 1) / rest)
            slope = 1 - self.samples * (spike**2 / one**2 + (self.n_in - 1) / rest**2)
            kappa = kappa - excess / xp.where(slope > 0, slope, xp.ones_like(slope))
            kappa = xp.where(kappa > 0, kappa, xp.zeros_like(kappa))
        return kappa

    def prediction(self, xp: Any) -> dict[str, Any]:
        """Return the mean error, shape (case,)."""
        kappa, spike = self.scale(xp), 1 + self.strength
        learned = ((self.ridge == 0) & (self.samples >= self.n_in)) | (kappa == 0)
        kappa = xp.where(learned, xp.ones_like(kappa), kappa)
        one, rest = spike * self.samples + kappa, self.samples + kappa
        # the equation of kappa gives 1 - gamma as a sum of positive terms
        left = self.ridge / kappa + kappa * (spike / one**2 + (self.n_in - 1) / rest**2)
        error = kappa**2 / left * (self.overlap**2 / one**2 + (1 - self.overlap**2) / rest**2)
        return {"error": xp.where(learned, xp.zeros_like(error), error)}

    def sample(self, rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        """Solve `count` regressions of each case."""
        refuse_fractions(type(self).__name__, "samples", self.samples, "number of samples of the new task")
        cases = zip(self.strength, self.overlap, self.samples, self.ridge, strict=True)
        return {"error": np.stack([self._draw(rng, count, *map(float, case)) for case in cases], axis=1)}

    def _draw(
        self, rng: np.random.Generator, count: int, strength: float, overlap: float, samples: float, ridge: float
    ) -> np.ndarray:
        size, metric = int(self.n_in), np.ones(int(self.n_in))
        metric[0] += strength  # beta is the first direction
        task = np.zeros(size)
        task[:2] = (overlap, np.sqrt(1 - overlap**2))[:size]
        x = rng.normal(size=(count, int(samples), size))
        features = x * metric
        gram = features @ x.mT + ridge * np.eye(int(samples))
        dual = np.linalg.solve(gram, (x @ task)[..., None])
        return np.sum((task - np.sum(dual * features, axis=1)) ** 2, axis=1)

    @classmethod
    def example(cls, rng: np.random.Generator) -> TransferError:
        """Return three tasks on 300 inputs: kernel before training, and after, with and without ridge."""
        return cls(
            strength=[0.0, rng.uniform(1.0, 3.0), rng.uniform(1.0, 3.0)],
            overlap=[rng.uniform(0.0, 1.0), rng.uniform(0.3, 0.7), rng.uniform(0.3, 0.7)],
            samples=[90, 60, 120],
            ridge=[0.0, 0.0, rng.uniform(20.0, 60.0)],
            n_in=300,
        )
