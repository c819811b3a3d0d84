"""Good values of arguments: by name, and of single functions where that differs."""

from functools import lru_cache
from typing import Any

import numpy as np

import linsolve as ls


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@lru_cache
def arrays() -> dict[str, Any]:
    draw = rng()
    layers = [draw.normal(size=shape) / 2 for shape in ((4, 3), (2, 4))]
    X = draw.normal(size=(9, 3))
    return {"layers": layers, "X": X, "Y": X @ draw.normal(size=(3, 2))}


def mode() -> ls.BalancedMode:
    return ls.BalancedMode(s=[1.0, 2.0])


def two() -> tuple[Any, Any]:
    return ls.TwoLayer(y=1.0, x=[1.0, 2.0]), ls.TwoLayer.init(3, 2, rng=0)


def collapsing() -> ls.NeuralCollapse:
    return ls.NeuralCollapse(kappa_d=2.0, kappa_c=1.0, kappa_n=0.5, classes=3, m=4)


def deep() -> ls.deep.DeepNetwork:
    return ls.deep.DeepNetwork.init((np.eye(3)[:, :2], np.array([2.0, 1.0]), np.eye(2)), [0.1, 0.2], depth=3)


def trajectory() -> Any:
    return ls.WhitenedTwoLayer(np.diag([2.0, 1.0]))(
        [0.0, 1.0], ls.WhitenedTwoLayer.of(0.1 * np.eye(2), 0.1 * np.eye(2))
    )


KERNEL = np.array([[2.0, 1.0], [1.0, 2.0]])
# good values by name of an argument
BY_NAME: dict[str, Any] = {
    "X": arrays()["X"],
    "Y": arrays()["Y"],
    "activation": "relu",
    "alpha": 2.0,
    "axes": ("d",),
    "ax": None,
    "b": np.full(3, 1 / 3),
    "batch": (2,),
    "beta": np.array([1.0, 1.0, 0.5]),
    "bias": False,
    "bias_variance": 0.1,
    "biases": 0.8,
    "bits": 100,
    "block": 16,
    "bounds": "[0, inf)",
    "c": 5.0,
    "c_d": 1,
    "c_eta_u": 0,
    "c_eta_w": 0,
    "c_gamma": -0.5,
    "c_u": 0,
    "c_w": 0,
    "cells": 11,
    "center": True,
    "checks": ["residual"],
    "classes": None,
    "count": 5,
    "covariance": np.eye(3),
    "covariances": False,
    "d0": 2,
    "data": (arrays()["X"], arrays()["Y"]),
    "dataset": ls.data.tree(2),
    "default": 1.0,
    "depth": 2,
    "doc": "a rate",
    "domain": "(0, inf)",
    "dps": 20,
    "engine": "plain",
    "eta": 0.5,
    "eta_u": 1.0,
    "eta_w": 0.5,
    "exponents": ls.phases.Exponents(1.0, -0.5, 0.0, 0.0, 0.0, 0.0),
    "f": np.array([1.0, 0.5]),
    "f0": np.array([0.1, 0.2]),
    "flow": two()[0],
    "fraction": 0.5,
    "gain": 0.4,
    "gamma": 1.0,
    "cosine": 0.3,
    "gram": np.array([[1.0, 0.2], [0.2, 0.5]]),
    "h": 4,
    "imbalance": 0.0,
    "item": "BalancedMode",
    "jacobian": np.linalg.cholesky(KERNEL),
    "k": np.array([0, 2]),
    "kappa": (10.0, 100.0),
    "kernel": KERNEL,
    "layer": 2,
    "layers": arrays()["layers"],
    "levels": 2,
    "log": False,
    "max_steps": 100,
    "members": 20,
    "momentum": 0.5,
    "most": 20,
    "n": 5,
    "n_in": 3,
    "n_out": 2,
    "name": "loss",
    "norm_squared": 0.7,
    "observe": "loss",
    "omega": np.array([1.0, 0.5, 2.0]),
    "progress": False,
    "q": 0.4,
    "rate": 1.0,
    "rates": np.array([1.0, 0.5]),
    "ratio": 0.5,
    "rng": 0,
    "rtol": 1e-6,
    "s11": 0.5,
    "s12": 0.3,
    "s22": 0.7,
    "scale": 0.3,
    "seed": 0,
    "sigma1": 1.0,
    "sigma2": 1.0,
    "sigma_u": 1.0,
    "sigma_w": 1.0,
    "sizes": np.array([2, 2]),
    "slope": 0.0,
    "source": None,
    "step": 0.05,
    "symbol": "k",
    "t": np.array([0.0, 0.5]),
    "target": np.arange(1.0, 7.0).reshape(2, 3),
    "threads": 1,
    "threshold": 0.5,
    "tolerance": 1e-6,
    "top": 1,
    "typical": (0.5, 2.0),
    "unbiased": False,
    "uniform": False,
    "until": 1.0,
    "value": 1.0,
    "variances": 1.0,
    "verdict": None,
    "weight_variance": 1.5,
    "weighted": True,
    "weights": arrays()["layers"],
    "whole": False,
    "width": 3,
    "widths": np.array([3, 4, 2]),
    "x": np.eye(2),
    "xp": np,
    "y": np.array([1.0, 0.0]),
    "z": two()[1],
    "z0": two()[1],
    "zero_output": False,
}
COLLAPSED = {"features": 4, "scale": 0.3, "seed": 0, "until": 2.0, "step": 0.05}
HELD_OUT = arrays()["X"][:5], arrays()["Y"][:5] + 0.1
# good values of single functions
OWN: dict[str, dict[str, Any]] = {
    "verify": {"flow": mode(), "z0": np.array([0.1, 0.2])},
    "integrate": {"flow": mode(), "z0": np.array([0.1, 0.2]), "method": "RK45", "max_evaluations": 500, "atol": 1e-9},
    "descend": {"flow": mode(), "z0": np.array([0.1, 0.2])},
    "adaptive_descent": {"flow": ls.BalancedMode(s=2.0), "z0": 0.5, "epsilon": 0.01, "output": "a", "change": 0.1},
    "cite": {"item": "BalancedMode"},
    "parameter": {"axes": ("d",)},
    "observable": {"axes": ("d",)},
    "learn": {"depth": 2, "width": 4, "scale": 0.1, "step": 0.05},
    "sgd": {"weights": arrays()["layers"][1] @ arrays()["layers"][0], "batch": 2},
    "solve": {"bias": None, "activation": None, "test": HELD_OUT},
    "applies": {"bias": None, "test": HELD_OUT, "threshold": 0.1},
    "collapse.collapse": {
        "flow": collapsing(),
        "start": "balanced",
        "weights": None,
        "bias": 0.1,
        "imbalance": None,
        **COLLAPSED,
    },
    "collapse.aligned_limit": {"flow": collapsing(), "epsilon": np.array([-0.5, 0.5])},
    "collapse.balanced_limit": {"flow": collapsing()},
    "deep.blow_up": {"layers": [np.eye(2), np.eye(2), np.ones((1, 2))], "target": np.array([1.0, 0.5])},
    "deep.deep_weights": {"depth": 2},
    "deep.nahm": {"w": np.ones(2), "M": np.ones((3, 2)), "a": np.ones(3)},
    "ensemble": {
        "factory": ls.ensembles.random_networks(100),
        "reduce": ("mean", "max"),
        "nonfinite": "raise",
        "executor": None,
    },
    "ensembles.of": {"flow": ls.BalancedMode, "name": "loss", "start": 0.1, "t": 1.0, "s": 1.0},
    "sequence": {"tasks": [(mode(), 1.0), (mode(), 2.0)], "z0": np.array([0.1, 0.2])},
    "sweep": {
        "rng": None,
        "observe": ls.ensembles.of(ls.BalancedMode, "loss", t=1.0, start=0.1),
        "store": None,
        "executor": None,
        "s": np.array([1.0, 2.0]),
        "tau": [1.0, 2.0],
    },
    "kernels.anisotropy_directions": {"layers": [np.eye(3)[:2], np.ones((1, 2))]},
    "kernels.input_kernel": {"layers": [np.eye(3)[:2], np.ones((1, 2))]},
    "ntk.moments": {"weights": "ntk"},
    "ntk.parametrization": {"name": "ntk"},
    "ntk.mean_field.kernels": {"depth": 3},
    "ntk.mean_field.phase": {"found": 1.0, "error": 1e-9},
    "ntk.mean_field.piecewise_linear": {"slope": 0.1},
    "ntk.limits.dispersion": {"found": "edge of chaos"},
    "ntk.limits.first_step": {"found": "edge of chaos"},
    "ntk.limits.phi_1": {"z": 0.3},
    "ntk.limits.phi_2": {"z": 0.3},
    "ntk.limits.phi_3": {"z": 0.3},
    "ntk.first_step.draw": {"rng": rng()},
    "ntk.sampling.explicit": {"rng": rng()},
    "phases.diagram": {"name": "chaos"},
    "phases.measured_phase": {"found": ls.phases.Slopes(0.0, -0.5, 0.0), "tolerance": 0.02},
    "phases.diagnose": {},
    "phases.medians": {"kappa": 10.0},
    "phases.networks": {"y": 1.0},
    "phases.classify": {},
    "plot.alignment": {"traj": trajectory(), "name": "kernel_alignment"},
    "plot.modes": {"traj": trajectory(), "name": "singular_values"},
    "plot.trajectory": {"traj": trajectory()},
    "plot.routes": {"trajs": {"exact": trajectory()}, "top": None},
    "plot.differences": {"exact": trajectory(), "others": {"again": trajectory()}},
    "published.about": {"name": "BalancedMode"},
    "data.load": {"source": "tree", "target": None},
    "kernels.energy_concentration": {"top": 1},
    "kernels.fit_blocks": {"kernel": np.diag([1.0, 2.0, 3.0, 4.0]) + 1, "labels": [0, 0, 1, 1], "average": "samples"},
    "ntk.standard_kernel": {
        "activation": "erf",
        "gram": np.array([[1.0, 0.2], [0.2, 0.5]]),
        "widths": np.array([3, 4, 2]),
        "weight_variance": 1.5,
        "bias_variance": 0.1,
    },
    "ntk.equicorrelated_variance": {
        "samples": 5,
        "q": 1.0,
        "q_pair": 0.5,
        "theta": 4.0,
        "theta_pair": 1.0,
        "t": np.array([0.0, 1.0]),
    },
    "ntk.trained_variance": {"covariance": np.eye(3) + 1, "kernel": 3 * np.eye(3) + 1, "samples": 2, "t": 1.0},
    "ntk.sample_kernels": {
        "activation": "relu",
        "gram": np.array([[1.0, 0.2], [0.2, 0.5]]),
        "widths": np.array([3, 4, 2]),
        "weight_variance": 1.5,
        "bias_variance": 0.1,
        "count": 5,
        "rng": 0,
    },
    "ntk.mean_field.edge_of_chaos": {"activation": "tanh"},
    "ntk.estimate_dispersion": {"kernels": np.array([1.0, 2.0, 1.5, 3.0])},
    "kernels.regression": {"X": np.array([[1.0, 0.5], [0.0, 1.0]])},
    "WhitenedTwoLayer.of": {"w1": np.eye(3)[:2], "w2": np.eye(3)[:, :2]},
    "WhitenedTwoLayer.weights": {"w1": 0.1 * np.eye(3), "w2": 0.1 * np.eye(4)[:, :3]},
    "NeuralCollapse.of": {"h": np.full((4, 12), 0.1), "w": np.full((3, 4), 0.1), "b": np.zeros(3)},
    "NeuralCollapse.imbalance_of": {"h": np.full((4, 12), 0.1), "w": np.full((3, 4), 0.1)},
    "NeuralCollapse.equal_bias_limit": {"beta": 0.2},
    "TwoLayer.from_dataset": {"X": np.array([[1.0, 2.0], [2.0, 4.0]]), "y": np.array([1.0, 2.0])},
    "LazyTwoLayer.from_dataset": {
        "X": np.array([[1.0, 2.0], [2.0, 4.0]]),
        "y": np.array([1.0, 2.0]),
        "reference": two()[1],
    },
    "TwoLayer.from_lazy": {"X": np.array([1.0, 2.0]), "y": 3.0, "z0": ls.TwoLayer.init(4, 2, rng=0)},
    "LazyTwoLayer.from_lazy": {"X": np.array([1.0, 2.0]), "y": 3.0, "z0": ls.TwoLayer.init(4, 2, rng=0)},
    "TwoLayerOrder.of": {},
    "FrozenKernel.discrete": {"z0": np.zeros(2), "step": 0.1, "allow_divergence": False},
    "FrozenKernel.sgd": {"z0": np.zeros(2), "batch": 1, "step": 0.1},
    "FrozenKernel.largest_step": {},
    "BlockKernel.largest_step": {},
    "SpecializedKernel.largest_step": {},
    "FrozenKernel.parameters_at": {"theta0": np.zeros(2), "f0": np.zeros(2)},
    "FrozenKernel.predict": {"k_x": np.ones((1, 2)), "f0_x": np.zeros(1)},
    "BlockKernel.discrete": {"z0": np.ones(4), "step": 0.1, "allow_divergence": False},
    "SpecializedKernel.discrete": {"z0": np.ones(4), "step": 0.1, "allow_divergence": False},
    "BlockKernel.predict": {"r0": np.ones(4), "labels": np.array([0, 1]), "f0_x": np.zeros(2)},
    "SpecializedKernel.predict": {"r0": np.ones(4), "labels": np.array([0, 1]), "f0_x": np.zeros(2)},
    "SpecializedKernel.of_outputs": {"own": (3.0, 2.0, 1.0), "other": (2.0, 1.0, 0.5)},
    "DeepNetwork.init": {
        "modes": (np.eye(3)[:, :2], np.array([2.0, 1.0]), np.eye(2)),
        "start": np.array([0.1, 0.2]),
        "depth": 2,
        "widths": 4,
    },
    "DeepNetwork.of": {
        "rates": 1.0,
        "layers": [0.1 * np.eye(2), 0.1 * np.eye(2)],
        "target": np.diag([2.0, 1.0]),
        "covariance": np.eye(2),
    },
    "deep.distances": {
        "layers": [0.1 * np.eye(2), 0.1 * np.eye(2)],
        "target": np.diag([2.0, 1.0]),
        "covariance": np.eye(2),
    },
    "DeepNetwork.output": {"x": np.array([[1.0, 2.0]])},
    "DeepNetwork.ntk": {"x1": np.array([[1.0, 2.0]]), "x2": np.array([[1.0, 0.0]])},
    "DeepNetwork.layer_kernel": {"x1": np.array([[1.0, 2.0]]), "x2": np.array([[1.0, 0.0]])},
    "WhitenedTwoLayer.init": {"n_in": 3, "n_out": 4},
    "TransferError.of": {"task": np.array([1.0, 0.0, 0.5]), "samples": 3, "ridge": 0.1},
    "GeneralizationOfData.of_kernel": {"kernel": np.eye(4) + 0.5, "samples": 2, "signal": 1.0, "start": 0.5},
    "Whitened.predict": {"product": np.ones((2, 3))},
    "Whitened.raw": {"product": np.ones((2, 3))},
}
