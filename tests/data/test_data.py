import io
import zipfile

import numpy as np
import pytest

from linsolve import data
from linsolve.data.table import read_table
from linsolve.solvability.files import read_weights as applies_weights
from linsolve.studies.collapse.report import read_weights as collapse_weights


def correlated(rng, count=40, inputs=5, outputs=3):
    X = rng.normal(size=(count, inputs)) * 10.0 ** rng.uniform(-6, 6, inputs) + 7
    return X, (X - X.mean(0)) / X.std(0) @ rng.normal(size=(inputs, outputs)) + rng.normal(size=(count, outputs))


@pytest.fixture
def rng():
    return np.random.default_rng(5)


# whitening


def test_inputs_become_white_and_centered(rng):
    problem = data.whiten(*correlated(rng))
    np.testing.assert_allclose(problem.inputs.T @ problem.inputs / 40, np.eye(5), atol=1e-14)
    np.testing.assert_allclose(problem.inputs.mean(axis=0), 0, atol=1e-14)


def test_mean_loss_is_loss_plus_offset_for_any_map(rng):
    problem = data.whiten(*correlated(rng))
    W = rng.normal(size=problem.target.shape)
    full = np.sum((problem.targets - problem.inputs @ W.T) ** 2) / (2 * 40)
    assert full == pytest.approx(np.sum((problem.target - W) ** 2) / 2 + problem.offset, rel=1e-13)


def test_target_is_the_least_squares_solution_on_raw_inputs(rng):
    X, Y = correlated(rng)
    problem = data.whiten(X, Y)
    A = np.column_stack([(X - X.mean(0)) / X.std(0), np.ones(40)])
    expected = A @ np.linalg.lstsq(A, Y, rcond=None)[0]
    np.testing.assert_allclose(problem.predict(problem.target, X), expected, rtol=1e-9, atol=1e-9)
    weights, bias = problem.raw(problem.target)
    np.testing.assert_allclose(X @ weights.T + bias, expected, rtol=1e-7, atol=1e-7)


def test_rank_counts_directions_whatever_their_units(rng):
    X = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 6)) * 10.0 ** np.array([-150, -9, 0, 3, 9, 150])
    assert data.whiten(X, rng.normal(size=30)).rank == 3


def test_more_features_than_samples_interpolates(rng):
    problem = data.whiten(rng.normal(size=(6, 20)), rng.normal(size=(6, 2)))
    assert problem.rank == 5  # centering takes one
    assert problem.offset < 1e-28


def test_constant_inputs_are_dropped_and_reported(rng):
    X, Y = correlated(rng)
    with_constants = np.insert(X, [1, 5], [0.1, 0.0], axis=1)
    problem, without = data.whiten(with_constants, Y), data.whiten(X, Y)
    assert problem.dropped == (1, 6)
    np.testing.assert_allclose(problem.target, without.target, atol=1e-12)
    np.testing.assert_array_equal(problem.transform[[1, 6]], 0)


def test_maps_of_other_shapes_are_refused(rng):
    problem = data.whiten(*correlated(rng))
    with pytest.raises(ValueError, match=r"product has shape \(2, 2\) but needs \(..., 3, 5\)"):
        problem.raw(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"X has shape \(4, 2\) but needs \(P, 5\)"):
        problem.predict(problem.target, np.ones((4, 2)))


@pytest.mark.parametrize(("x", "y", "name"), [(1e-320, 1, "X"), (1e305, 1, "X"), (1, 1e200, "Y"), (1, 1e-200, "Y")])
def test_scales_beyond_double_precision_are_refused(x, y, name):
    X, Y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 0.0, 2.0, 5.0])
    with pytest.raises(ValueError, match=rf"data.whiten: {name} varies by .* \(in double precision\)"):
        data.whiten(x * X, y * Y)


def test_masked_samples_are_refused():
    Y = np.array([1.0, 0.0, 2.0, 5.0])
    hidden = np.ma.masked_greater(np.array([1.0, 2.0, 3.0, 1e9]), 100)
    with pytest.raises(ValueError, match="X is masked in places"):
        data.whiten(hidden, Y)
    assert data.whiten(np.ma.array(Y), Y).rank == 1


def test_centering_can_be_left_out(rng):
    X, Y = correlated(rng)
    problem = data.whiten(X, Y, center=False)
    np.testing.assert_array_equal(problem.input_mean, 0)
    assert abs(problem.inputs.mean(axis=0)).max() > 0.1


def test_modes_rebuild_the_map_and_stop_at_its_rank(rng):
    X, _ = correlated(rng)
    Y = np.eye(3)[rng.integers(0, 3, 40)]
    modes, target = data.modes(X, Y), data.whiten(X, Y).target
    assert len(modes.s) == 2  # centered one-hot targets sum to zero
    np.testing.assert_allclose(modes.u * modes.s @ modes.v.T, target, atol=1e-15)


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        ([[1.0], [np.nan], [2.0]], [1.0, 2.0, 3.0], r"X\[1, 0\] = nan must be finite"),
        ([[1.0], [0.0], [2.0]], [1.0, 2.0, np.inf], r"Y\[2, 0\] = inf must be finite"),
        ([[1.0], [0.0]], [1.0, 2.0, 3.0], "Y has 3 rows but X has 2"),
        ([[1.0]], [1.0], "at least 2 samples"),
        ([[1.0, 2.0], [1.0, 2.0]], [1.0, 2.0], "constant in every column"),
        ([[1.0], [2.0]], [[1.0, 5.0], [2.0, 5.0]], r"Y column 1 is constant \(= 5\)"),
        ([["a"], ["b"]], [1.0, 2.0], "not real numbers"),
        ([[1.0], [2.0, 3.0]], [1.0, 2.0], "not a rectangular array"),
        ([], [], "empty"),
        ([[1.0], [-1.0], [0.0], [0.0]], [0.0, 0.0, 1.0, -1.0], "uncorrelated"),
    ],
)
def test_what_cannot_be_whitened_is_refused_by_name(X, Y, message):
    with pytest.raises(ValueError, match=message):
        data.whiten(X, Y)


# reading


def test_digits_are_known():
    digits = data.load("digits")
    assert digits.inputs.shape == (1797, 64)
    assert digits.classes == tuple("0123456789")
    problem = data.whiten(digits.inputs, digits.targets)
    assert (problem.rank, len(problem.dropped)) == (61, 3)


def test_classes_choose_a_subset():
    few = data.load("digits", classes=[3, "8"])
    assert few.classes == ("3", "8")
    assert few.targets.sum(axis=0).tolist() == [183, 174]


def test_breast_cancer_has_names():
    cancer = data.load("breast_cancer")
    assert cancer.classes == ("benign", "malignant")
    assert cancer.features[0] == "mean radius"
    assert data.whiten(cancer.inputs, cancer.targets).rank == 30


@pytest.mark.parametrize("key", ["Y", "y"])
def test_npz_is_read(tmp_path, rng, key):
    X = rng.normal(size=(12, 2, 2))
    np.savez(tmp_path / "a.npz", X=X, **{key: np.arange(12) % 3})
    found = data.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(found.inputs, X.reshape(12, 4))
    np.testing.assert_array_equal(found.targets, np.eye(3)[np.arange(12) % 3])


def test_matrices_of_targets_stay_as_they_are(tmp_path, rng):
    X, Y = rng.normal(size=(9, 2)), rng.normal(size=(9, 4))
    np.savez(tmp_path / "real.npz", X=X, Y=Y)
    np.savez(tmp_path / "classes.npz", X=X, Y=np.eye(3)[np.arange(9) % 3])
    assert data.load(tmp_path / "real.npz").classes == ()
    assert data.load(tmp_path / "classes.npz").classes == ("0", "1", "2")


CSV = {
    "text labels": ("a,b,kind\n1,2,x\n3,4,y\n5,7,x\n2,2,y\n", ("x", "y"), ("a", "b")),
    "integer labels": ("a;b;kind\n1;2;0\n3;4;1\n5;7;0\n2;2;1\n", ("0", "1"), ("a", "b")),
    "real labels": ("a\tb\tvalue\n1\t2\t0.5\n3\t4\t1.5\n", (), ("a", "b")),
    "no header": ("1,2,x\n3,4,y\n\n5,7,x\n2,2,y\n", ("x", "y"), ("1", "2")),
    "numbers as names": ("0,1,kind\n1,2,7\n3,4,8\n5,7,7\n2,2,8\n", ("7", "8"), ("0", "1")),
    "byte order mark": ("\ufeffa,b,kind\n1,2,x\n3,4,y\n5,7,x\n2,2,y\n", ("x", "y"), ("a", "b")),
}


@pytest.mark.parametrize("case", CSV)
def test_csv_is_read(tmp_path, case):
    text, classes, features = CSV[case]
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    found = data.load(tmp_path / "a.csv")
    assert (found.classes, found.features) == (classes, features)
    assert found.inputs[1].tolist() == [3, 4]


HEADERS = {
    "0,1,species\n5,6,x\n7,8,y\n5,5,x\n7,7,y\n": ("0", "1"),  # as pandas names columns
    ",0,1,species\n0,5,6,x\n1,7,8,y\n2,5,5,x\n3,7,7,y\n": ("", "0", "1"),
    "400.5,401,kind\n5,6,0\n7,8,1\n5,5,0\n7,7,1\n": ("400.5", "401"),
    "RI,Na,kind\n5,6,0\n7,8,1\n5,5,0\n7,7,1\n": ("RI", "Na"),
    "1,2,kind\n5,6,x\n7,8,y\n5,5,x\n7,7,y\n": ("1", "2"),
    "1;2;3;kind\n5;6;1;x\n7;8;1;y\n5;5;2;x\n7;7;2;y\n": ("1", "2", "3"),
    "0,1,2\n5,6,0\n7.5,8,1\n5,5,0\n7,7,1\n": ("0", "1"),  # numbers alone that count the columns
    "1,2,3\n5,6,0\n7.5,8,1\n5,5,0\n7,7,1\n": ("1", "2"),
    '"a, b, c";d;kind\n5;6;x\n7;8;y\n5;5;x\n7;7;y\n': ("a, b, c", "d"),
    "\n\na\tb\tkind\n5\t6\tx\n7\t8\ty\n5\t5\tx\n7\t7\ty\n": ("a", "b"),
}


@pytest.mark.parametrize("text", HEADERS)
def test_headers_are_told_from_samples(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    found = data.load(tmp_path / "a.csv")
    assert (found.features, len(found.inputs), len(found.classes)) == (HEADERS[text], 4, 2)


@pytest.mark.parametrize("cell", ["NA", "?", "0x1", '"1,000"', "5.1.2", "_", "x"])
def test_a_first_sample_that_is_damaged_is_no_header(tmp_path, cell):
    (tmp_path / "a.csv").write_text(f"1.5,{cell},0.5,x\n3,4,1,y\n5,6,1,x\n7,8,1,y\n")
    with pytest.raises(ValueError, match=r"a\.csv line 1, column '2' = .* is not a number"):
        data.load(tmp_path / "a.csv")


@pytest.mark.parametrize("row", ["0,1,2", "1,2,3", "1,2,2", "2,1,3", "1.0,2,3"])
def test_numbers_alone_are_a_sample_unless_they_count_the_columns_of_reals(tmp_path, row):
    for below, count in (("5,6,0\n7,8,1\n5,5,0\n", 4), ("5.5,6,2\n7,8.5,1\n5,5,2\n", 4 - (row in ("0,1,2", "1,2,3")))):
        (tmp_path / "a.csv").write_text(f"{row}\n{below}")
        found = read_table(tmp_path / "a.csv", None)[0]
        assert len(found) == count


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_decimal_commas_are_read(tmp_path, delimiter):
    rows = [["a", "b", "y"], ["1,5", "-2", "0,25"], ["3", "1e1", "1,5"], ["0,125", ",5", "2,0"], ["1,250", "7,", "0,5"]]
    (tmp_path / "a.csv").write_text("\n".join(delimiter.join(row) for row in rows))
    found = data.load(tmp_path / "a.csv")
    assert found.inputs.tolist() == [[1.5, -2.0], [3.0, 10.0], [0.125, 0.5], [1.25, 7.0]]
    assert found.targets[:, 0].tolist() == [0.25, 1.5, 2.0, 0.5]


@pytest.mark.parametrize("cells", ["1,500;2", "1,5;2.5"])
def test_commas_that_may_separate_thousands_are_refused(tmp_path, cells):
    (tmp_path / "a.csv").write_text(f"a;b\n{cells}\n1;3\n")
    with pytest.raises(ValueError, match=r"a\.csv line 2, '1,5(00)?' has a comma that may be decimal or separate"):
        data.load(tmp_path / "a.csv")


def test_text_with_commas_in_other_cells_stays_text(tmp_path):
    (tmp_path / "a.csv").write_text("a;b\n1;x,1\n2;y\n3;x,1\n4;y\n")
    assert data.load(tmp_path / "a.csv").classes == ("x,1", "y")


WRONG_FORMATS = {
    b"W1 = 1 2 3\n": "it is text",
    b"": "it is empty",
    b"\x80\x04\x95 pickle": "it is in another format",
    b"PK\x03\x04 torn": "not an archive of plain arrays",
}


@pytest.mark.parametrize("content", WRONG_FORMATS)
def test_a_file_of_another_format_is_called_by_it(tmp_path, content):
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    for read in (data.load, applies_weights, collapse_weights):
        with pytest.raises(ValueError, match=WRONG_FORMATS[content]) as caught:
            read(path)
        assert "pickled" not in str(caught.value)
    np.save(tmp_path / "b.npy", np.ones(3))
    (tmp_path / "b.npy").rename(path)
    with pytest.raises(ValueError, match="it holds a single array"):
        applies_weights(path)
    for gone, state in ((tmp_path / "none.npz", "does not exist"), (tmp_path, "is a folder")):
        with pytest.raises(FileNotFoundError, match=state):
            applies_weights(gone)


LABELS = {
    "1_0 10 1_0 10": ("10", "1_0"),  # int() would make them one
    "100000000000000000000 100000000000000000001 " * 2: ("100000000000000000000", "100000000000000000001"),
    "a\x0bb c a\x0bb c": ("a\x0bb", "c"),  # str.splitlines breaks lines there
}


@pytest.mark.parametrize("text", LABELS)
def test_labels_keep_apart_what_differs(tmp_path, text):
    rows = [f"{k},{k * k},{label}" for k, label in enumerate(text.split(" ")) if label]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    assert data.load(tmp_path / "a.csv").classes == LABELS[text]


def test_csv_label_column_is_chosen_by_name(tmp_path):
    (tmp_path / "a.csv").write_text("kind,a,b\nx,1,2\ny,3,4\nx,5,6\ny,0,1\n")
    found = data.load(tmp_path / "a.csv", target="kind")
    assert found.features == ("a", "b")
    assert found.targets.tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]


BAD_CSV = {
    "": "is empty",
    "a,b\n": "has a header but no rows",
    "a,b\n1,2\n3\n": "line 3 has 1 columns but the first row has 2",
    "a,b\n1,x\n,y\n": "line 3, column 'a' is empty",
    "a,b\n1,x\nfoo,y\n": "line 3, column 'a' = 'foo' is not a number",
    "a,b\n1,x\ninf,y\n": "line 3, column 'a' = inf must be finite",
    "a,b\n1,x\n2,\n": "line 3, column 'b' is empty",
    "a\n1\n2\n": "has one column",
    "a,b\n1,x\n2,x\n3,x\n": "only one class",
    "a,b\n1,x\n2,nan\n": "line 3, column 'b' = 'nan' is missing",
    "a,b\n1_0,x\n2,y\n": "line 2, column 'a' = '1_0' is not a number",
    'a,b\n1,"x\n2,y\n': r"is not a table \(unexpected end of data\)",
    "a,b\n1,x\n2,y\n3,z\n": "classes = 3 are too many for 3 samples",
}


@pytest.mark.parametrize("text", BAD_CSV)
def test_bad_csv_is_refused_with_line_and_column(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=BAD_CSV[text]):
        data.load(tmp_path / "a.csv")


def test_missing_column_suggests_the_right_one(tmp_path):
    (tmp_path / "a.csv").write_text("length,kind\n1,x\n2,y\n")
    with pytest.raises(ValueError, match=r"target column = 'lenght' is unknown; did you mean 'length'\?"):
        data.load(tmp_path / "a.csv", target="lenght")


def test_label_column_is_one(tmp_path):
    (tmp_path / "a.csv").write_text("a,a,b\n1,2,x\n3,4,y\n")
    with pytest.raises(ValueError, match="target column = 'a' is the name of several columns"):
        data.load(tmp_path / "a.csv", target="a")


def test_pickles_are_never_opened(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.array([object(), 1]), Y=np.arange(2.0))
    with pytest.raises(ValueError, match="not an archive of plain arrays"):
        data.load(tmp_path / "a.npz")


def test_bad_files_are_refused(tmp_path):
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(ValueError, match="not an archive of plain arrays"):
        data.load(tmp_path / "torn.npz")
    np.savez(tmp_path / "named.npz", X=np.ones((2, 2)), labels=np.ones(2))
    with pytest.raises(ValueError, match=r"has no array Y or y \(it has X, labels\)"):
        data.load(tmp_path / "named.npz")
    (tmp_path / "latin.csv").write_bytes("a,b\n1,\xe9\n".encode("latin-1"))
    with pytest.raises(ValueError, match="not text in UTF-8"):
        data.load(tmp_path / "latin.csv")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        data.load(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="did you mean 'digits'"):
        data.load("digit")


def archives(rng):
    """Archives that are damaged, each in a byte or two, and some that lie."""
    plain = io.BytesIO()
    np.savez(plain, X=np.ones((4, 2)), Y=np.arange(4.0), W1=np.ones((2, 2)), h=np.ones(2), w=np.ones(2), b=np.ones(2))
    for where in rng.integers(len(plain.getvalue()), size=150):
        damaged = bytearray(plain.getvalue())
        damaged[where] ^= 1 << rng.integers(8)
        yield bytes(damaged)
    for shape in ("(True,)", "(-1,)", "(99999999999999999999,)", "(9,)", "'a'"):
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
        lie, entry = io.BytesIO(), b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)
        with zipfile.ZipFile(lie, "w") as file:
            for name in ("X", "Y", "W1", "h", "w", "b"):
                file.writestr(f"{name}.npy", entry)
        yield lie.getvalue()
    single = io.BytesIO()
    np.save(single, np.ones(3))
    yield single.getvalue()


def test_damaged_archives_are_read_or_refused(tmp_path, rng):
    path, refused = tmp_path / "a.npz", 0
    for content in archives(rng):
        path.write_bytes(content)
        for read in (data.load, applies_weights, collapse_weights):
            try:
                read(path)
            except ValueError as error:
                assert str(path) in str(error) or "data.load: Y" in str(error)  # noqa: PT017
                refused += 1
    assert refused > 100


def test_labels_and_sizes_that_are_none_are_refused(tmp_path):
    big = np.ones((4, 2)) * np.longdouble(10) ** 400
    for arrays, message in [
        ({"X": big, "Y": np.arange(4.0)}, r"X\[0, 0\] = inf must be finite"),
        ({"X": np.ones((4, 2)), "Y": np.array(["a", "", "a", ""])}, r"Y\[1\] = '' is not a label"),
        ({"X": np.ones((4, 2)), "Y": np.array(["a", "a", "nan", "nan"])}, r"Y\[2\] = 'nan' is not a label"),
    ]:
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(ValueError, match=message):
            data.load(tmp_path / "a.npz")


def test_sources_and_classes_of_other_types_are_refused(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileNotFoundError, match="is not a file"):
        data.load(tmp_path / "folder.csv")
    for source in (None, 3, b"a.csv", np.ones(2)):
        with pytest.raises(TypeError, match=r"data.load: source = .* must be a name or a path"):
            data.load(source)
    with pytest.raises(TypeError, match=r"data.load: classes = 3 must be a list"):
        data.load("tree", classes=3)
    with pytest.raises(ValueError, match="the targets are real"):
        data.load("tree", classes=["a"])
    with pytest.raises(ValueError, match=r"data.load: classes = \[\] is empty"):
        data.load("tree", classes=[])


def test_bad_choices_are_refused(tmp_path, rng):
    np.savez(tmp_path / "real.npz", X=rng.normal(size=(4, 2)), Y=rng.normal(size=4))
    np.savez(tmp_path / "short.npz", X=rng.normal(size=(4, 2)), Y=rng.normal(size=3))
    np.savez(tmp_path / "gap.npz", X=rng.normal(size=(6, 2)), Y=np.eye(3)[[0, 1, 0, 1, 0, 1]])
    for name, options, message in [
        ("real.npz", {"classes": ["a"]}, "the targets are real"),
        ("real.npz", {"target": "a"}, "needs a .csv file"),
        ("short.npz", {}, "Y has 3 rows but X has 4"),
        ("gap.npz", {}, "class = 2 has no samples"),
    ]:
        with pytest.raises(ValueError, match=message):
            data.load(tmp_path / name, **options)
    with pytest.raises(ValueError, match="only one class"):
        data.load("digits", classes=["3"])
    with pytest.raises(ValueError, match="class = '11' is unknown"):
        data.load("digits", classes=["1", "11"])


def test_missing_scikit_learn_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sklearn", None)
    with pytest.raises(ImportError, match=r'pip install "\.\[learn\]"'):
        data.load("digits")
