"""Errors name the argument, the rule and a remedy that works."""

import re

import numpy as np
import pytest

import linsolve as ls
from linsolve.solvability.files import read_weights

X = np.random.default_rng(0).normal(size=(9, 3))
DATA, WEIGHTS = (X, X[:, :2]), [np.ones((4, 3)), np.ones((2, 4))]
OF_DATA = ls.laws.GeneralizationOfData
CASES = {
    "rates": (lambda: ls.applies(WEIGHTS, DATA, rates=-1.0), r"rates = -1.0 must lie in .*; say 1$"),
    "tolerance": (
        lambda: ls.applies(WEIGHTS, DATA, tolerance=2.0),
        r"tolerance = 2.0 must be a number in .*; say 1e-08$",
    ),
    "dimension": (lambda: ls.laws.GeneralizationInTime(0.0, 1.0), r"dimension = 0.0 must lie in .*; say 1$"),
    "time": (lambda: ls.solve(WEIGHTS, DATA, -1.0), r"t = -1.0 must lie in .*; say 1$"),
    "call": (lambda: OF_DATA(X, np.eye(3))(1.0), r"OfData: law\(t\) is not defined .*; say law.test_error\(t\)$"),
    "test input": (lambda: OF_DATA.of_kernel(np.eye(5), 5), r"samples = 5 .*leave at least one test input\); say 4$"),
    "task": (lambda: ls.laws.TransferError.of(WEIGHTS, DATA), r"TransferError.of: task = None must be given"),
    "samples": (
        lambda: ls.laws.TransferError.of(WEIGHTS, DATA, task=[1, 0, 0]),
        r"samples = None must be given .*say samples=20",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_errors_have_a_remedy(case):
    call, message = CASES[case]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize("matrix", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 7.0], [7.0, 0.123456]]])
def test_the_number_to_add_to_the_diagonal_suffices(matrix):
    with pytest.raises(ValueError, match="to the diagonal") as caught:
        OF_DATA(X[:, :2], matrix)
    shift = float(re.search(r"add (\S+) to the diagonal", str(caught.value)).group(1))
    assert OF_DATA(X[:, :2], matrix + shift * np.eye(2)).test_error(0.0) > 0


def test_a_table_takes_several_names():
    pytest.importorskip("pandas")
    traj = ls.solve(WEIGHTS, DATA, [0.0, 1.0])
    assert traj.to_dataframe("loss", "w1").equals(traj.to_dataframe(["loss", "w1"]))


def test_a_bias_without_layer_is_no_gap(tmp_path):
    np.savez(tmp_path / "w.npz", **{"0.weight": WEIGHTS[0], "2.weight": WEIGHTS[1], "7.bias": np.ones(2)})
    with pytest.raises(ValueError, match=r"a bias 7\.bias that belongs to none of the layers"):
        read_weights(tmp_path / "w.npz")
