"""Test samples of data sets: read beside the training samples or from a file of their own, coded alike."""

import re

import numpy as np
import pytest

from linsolve import data
from linsolve.solvability.files import read_data

X = np.arange(24.0).reshape(8, 3) + np.eye(8, 3)
LABELS = np.array(list("abcaabbc"))


def test_test_samples_have_the_classes_of_the_training_samples(tmp_path):
    np.savez(tmp_path / "both.npz", X=X, Y=LABELS, X_test=X[:3] + 1, y_test=np.array(["c", "a", "a"]))
    found = data.load(tmp_path / "both.npz").test
    assert found[0].tolist() == (X[:3] + 1).tolist()
    assert found[1].tolist() == [[0, 0, 1], [1, 0, 0], [1, 0, 0]]
    few = data.load(tmp_path / "both.npz", classes=["a", "b"])
    assert few.test[1].tolist() == [[1, 0], [1, 0]]
    np.savez(tmp_path / "train.npz", X=X, Y=LABELS)
    np.savez(tmp_path / "test.npz", X=X[:3] + 1, Y=np.array(["c", "a", "a"]))
    other = data.load(tmp_path / "train.npz", test=tmp_path / "test.npz").test
    assert [each.tolist() for each in other] == [each.tolist() for each in found]
    assert data.load(tmp_path / "train.npz").test is None


def test_the_means_of_the_training_samples_are_removed(tmp_path):
    np.savez(tmp_path / "d.npz", X=X, Y=X[:, :2] + 0.5, X_test=X[:3], Y_test=X[:3, :2] + 0.25)
    found = read_data(str(tmp_path / "d.npz"), center=True)
    assert found.test[0] == pytest.approx(X[:3] - X.mean(axis=0))
    assert found.test[1] == pytest.approx(X[:3, :2] + 0.25 - (X[:, :2] + 0.5).mean(axis=0))


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ((X[:3, :2], LABELS[:3]), "X_test has 2 columns but X has 3"),
        ((X[:3], LABELS[:2]), "Y_test has 2 rows but X_test has 3"),
        ((X[:2], np.array(["a", "d"])), r"Y_test = d is no class of the training samples \(a, b, c\)"),
    ],
)
def test_bad_test_samples_are_refused(tmp_path, tests, message):
    np.savez(tmp_path / "d.npz", X=X, Y=LABELS, X_test=tests[0], Y_test=tests[1])
    with pytest.raises(ValueError, match=message):
        data.load(tmp_path / "d.npz")


def test_two_sets_of_test_samples_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("both.npz", X=X, Y=LABELS, X_test=X[:3], Y_test=LABELS[:3])
    np.savez("t.npz", X=X[:3], Y=LABELS[:3])
    rule = r"t\.npz does not go with the test samples in both\.npz \(X_test, Y_test\)"
    with pytest.raises(ValueError, match=f"data.load: test = {rule}"):
        data.load("both.npz", test="t.npz")
    with pytest.raises(ValueError, match=f"solve: --test {rule}"):
        read_data("both.npz", test="t.npz", who="solve")


def test_second_moments_have_no_test_samples(tmp_path):
    np.savez(tmp_path / "m.npz", Sigma_xx=np.eye(2), Sigma_yx=np.eye(2))
    with pytest.raises(ValueError, match=r"test = t\.npz does not go with"):
        read_data(str(tmp_path / "m.npz"), test="t.npz")


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("digits", "digits must be a file ending in .npz or .csv (of test samples); give its path"),
        ("absent.npz", "absent.npz does not exist; check the path"),
        ("empty.npz", "empty.npz has no array X or x"),
        ("narrow.npz", "narrow.npz: X_test has 2 columns but X has 3"),
        ("short.csv", "short.csv"),
    ],
)
def test_errors_of_the_test_file_name_it(tmp_path, monkeypatch, test, message):
    monkeypatch.chdir(tmp_path)
    np.savez("train.npz", X=X, Y=LABELS)
    np.savez("empty.npz", Z=X)
    np.savez("narrow.npz", X=X[:, :2], Y=LABELS)
    (tmp_path / "short.csv").write_text("1,2,3,a\n4,5\n")
    for call, start in (
        (lambda: data.load("train.npz", test=test), "data.load: test = "),
        (lambda: read_data("train.npz", test=test, who="solve"), "solve: --test "),
    ):
        with pytest.raises((ValueError, OSError), match="^" + re.escape(start + message)) as caught:
            call()
        assert "train.npz" not in str(caught.value)
