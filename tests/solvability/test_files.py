"""Data of a network from files, safetensors, and the width at which `applies` still answers in seconds."""

import re
import sys
import types

import numpy as np
import pytest

import linsolve as ls
from linsolve.solvability.files import read_data, read_weights

GEN = np.random.default_rng(0)
X, Y = GEN.normal(size=(20, 3)), GEN.normal(size=(20, 2))


@pytest.mark.parametrize("names", [("X", "Y"), ("x", "y"), ("X_train", "y_train"), ("x_train", "Y_train"), "savez"])
def test_samples_are_read_under_common_names(tmp_path, names):
    if names == "savez":
        np.savez(tmp_path / "d.npz", X, Y)
    else:
        np.savez(tmp_path / "d.npz", **dict(zip(names, (X, Y), strict=True)), X_test=X[:3])
    found = read_data(str(tmp_path / "d.npz"))
    assert not found.covariances
    assert found.name == "d"
    for each, right in zip(found.pair, (X, Y), strict=True):
        np.testing.assert_array_equal(each, right)
    centered = read_data(str(tmp_path / "d.npz"), center=True)
    np.testing.assert_allclose(centered.pair[1], Y - Y.mean(0))
    np.savez(tmp_path / "d.npz", X=X, X_train=X, Y=Y)
    with pytest.raises(ValueError, match=r"has the arrays X, X_train \(samples\)"):
        read_data(str(tmp_path / "d.npz"))


@pytest.mark.parametrize(
    ("name", "arrays", "rule"),
    [
        ("d.npz", {"X": X}, "has no array Y or y"),
        ("d.npz", {"X": X, "Y": Y[:-1]}, ": Y has 19 rows but X has 20"),
        ("d.npz", {"X": np.nan * X, "Y": Y}, r": X\[0, 0\] = nan must be finite"),
        ("d.npz", {"Sigma_xx": np.eye(2)}, "has the arrays Sigma_xx but must have"),
        ("d.npz", None, "does not exist"),
        ("d.csv", "a,b\n1,2\n1,\n2,3\n4,5\n", "line 3, column 'b' is empty"),
        ("d.txt", None, "is unknown; one of"),
    ],
)
def test_a_wrong_file_of_data_is_named_by_the_command_and_its_argument(tmp_path, monkeypatch, name, arrays, rule):
    monkeypatch.chdir(tmp_path)
    if isinstance(arrays, str):
        (tmp_path / name).write_text(arrays)
    elif arrays is not None:
        np.savez(tmp_path / name, **arrays)
    with pytest.raises((ValueError, FileNotFoundError), match=rf"^solve: data = '?{re.escape(name)}'? ?{rule}"):
        read_data(name, who="solve")
    with pytest.raises(ValueError, match=r"^applies: target = 'x' needs a \.csv file"):
        read_data("tree", target="x")


def test_second_moments_are_read_and_nothing_beside_them(tmp_path):
    path = tmp_path / "m.npz"
    np.savez(path, Sigma_xx=X.T @ X / 20, Sigma_yx=Y.T @ X / 20)
    found = read_data(str(path), who="solve")
    assert found.covariances
    np.testing.assert_array_equal(found.pair[0], X.T @ X / 20)
    weights = [GEN.normal(size=(2, 3))]
    right = ls.solve(weights, (X, Y), 1.0)
    np.testing.assert_allclose(ls.solve(weights, found.pair, 1.0, covariances=True)["w1"], right["w1"], rtol=1e-9)
    with pytest.raises(ValueError, match="solve: center = True does not go with"):
        read_data(str(path), center=True, who="solve")
    np.savez(path, Sigma_xx=np.eye(2))
    with pytest.raises(ValueError, match="has the arrays Sigma_xx but must have Sigma_xx and Sigma_yx alone"):
        read_data(str(path))
    np.savez(path, Sigma_xx=np.eye(2), Sigma_yx=np.eye(2), X=X)
    with pytest.raises(ValueError, match=r"Sigma_xx, Sigma_yx, X but must have"):
        read_data(str(path))


def test_safetensors_are_read_by_their_library_or_refused(tmp_path, monkeypatch):
    path = tmp_path / "w.safetensors"
    with pytest.raises(FileNotFoundError, match=r"solve: weights = .* does not exist"):
        read_weights(path, "solve")
    path.write_bytes(b"8")
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match=r'needs the library safetensors; pip install "\.\[safetensors\]"'):
        read_weights(path)
    library = types.ModuleType("safetensors.numpy")
    library.load_file = lambda file: {"0.weight": X.T, "0.bias": np.ones(3)}
    monkeypatch.setitem(sys.modules, "safetensors.numpy", library)
    monkeypatch.setitem(sys.modules, "safetensors", types.ModuleType("safetensors"))
    found = read_weights(path)
    np.testing.assert_array_equal(found.layers[0], X.T)
    np.testing.assert_array_equal(found.biases[0], np.ones(3))

    def fail(file):
        raise RuntimeError("header too large")

    library.load_file = fail
    with pytest.raises(ValueError, match=r"cannot be read \(header too large\)"):
        read_weights(path)


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16"])
def test_safetensors_written_by_the_library_are_read(tmp_path, kind):
    library = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "w.safetensors"
    if kind == "bfloat16":  # which NumPy lacks, unless another library has added it
        header = b'{"0.weight":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]}}'
        path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0")
        with pytest.raises(ValueError, match=r"solve: (weights = .*cannot be read .*convert its|.*bfloat16.*convert)"):
            read_weights(path, "solve")
        return
    first, last = GEN.normal(size=(4, 3)).astype(kind), GEN.normal(size=(2, 4)).astype(kind)
    library.save_file({"fc2.weight": last, "fc1.weight": first, "fc1.bias": np.ones(4, kind)}, path)
    found = read_weights(path)
    np.testing.assert_array_equal(found.layers[0], first)
    np.testing.assert_array_equal(found.layers[1], last)
    assert found.layers[0].dtype == kind
    assert found.biases[1] is None
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(ValueError, match="cannot be read"):
        read_weights(path)


@pytest.mark.parametrize(("units", "bias"), [(3, np.float64(1.0)), (1, np.ones(2)), (3, np.ones(2))])
def test_biases_of_other_lengths_than_the_units_are_refused(tmp_path, units, bias):
    path = tmp_path / "w.npz"
    np.savez(path, **{"0.weight": np.ones((units, 2)), "0.bias": bias})
    with pytest.raises(ValueError, match=rf"0\.bias of .* has shape .* but must be \({units},\) \(bias of 0\.weight"):
        read_weights(path)


def test_a_number_is_the_bias_of_one_unit(tmp_path):
    np.savez(tmp_path / "w.npz", **{"0.weight": np.ones((1, 2)), "0.bias": np.float64(0.5)})
    assert read_weights(tmp_path / "w.npz").biases[0].tolist() == [0.5]


def test_layers_are_taken_by_name_over_gaps(tmp_path):
    path = tmp_path / "w.npz"
    parts = {f"{i}.weight": GEN.normal(size=shape) for i, shape in ((0, (5, 3)), (2, (4, 5)), (4, (2, 4)))}
    np.savez(path, **parts, **{"2.bias": np.zeros(4), "6.bias": np.ones(2), "running_mean": np.ones(3)})
    with pytest.raises(ValueError, match=r"applies: weights = .* has an array running_mean"):
        read_weights(path)
    found = read_weights(path, names="0.weight,2.weight, 4.weight")
    assert [w.shape for w in found.layers] == [(5, 3), (4, 5), (2, 4)]
    np.testing.assert_array_equal(found.biases[1], np.zeros(4))
    assert found.notes == [
        "layers, first to last: 0.weight, 2.weight, 4.weight.",
        "left out of w.npz: 6.bias, running_mean.",
    ]
    np.savez(path, **parts)
    with pytest.raises(ValueError, match=r"if nothing is missing, say --layers 0.weight,2.weight,4.weight"):
        read_weights(path)
    for names in ("0.weight,1.weight", "0.weight,0.weight", "", "2.bias"):
        with pytest.raises(ValueError, match=rf"solve: layers = {names} names .*, but must name layers of"):
            read_weights(path, "solve", names)
