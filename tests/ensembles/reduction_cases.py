"""Reductions of an ensemble on a GPU, real or simulated, against Welford's recurrence and NumPy's statistics."""

import numpy as np

import linsolve as ls
from linsolve import arithmetic
from linsolve.engines import cuda
from linsolve.engines.cuda import checked
from linsolve.engines.cuda_source import TIMES
from linsolve.ensembles import cuda_reduce


def same(found, expected):
    return np.array_equal(np.asarray(found), np.asarray(expected))


def in_parts(flow, t, start, cuts):
    """Return what a reduction keeps of the members of a flow, given in parts."""
    gathering = cuda_reduce.Reduction(("a",), len(t))
    for first, last in zip([0, *cuts], [*cuts, len(start)], strict=True):
        gathering.absorb(checked(ls.BalancedMode(s=flow.s[first:last]), t, start[first:last]))
    return arithmetic.to_numpy(gathering.kept)


def compare_with_welford():
    """Compare a reduction with Welford's recurrence in NumPy, over the members of each thread in order."""
    members, t = 2 * cuda_reduce.LANES + 5000, np.linspace(0.0, 3.0, TIMES + 1)
    flow, start = ls.BalancedMode(s=np.linspace(0.5, 3.0, members)), np.linspace(1e-3, 0.1, members)
    kept = in_parts(flow, t, start, [])
    assert same(kept, in_parts(flow, t, start, [cuda_reduce.LANES]))  # of any division into batches
    values = arithmetic.to_numpy(cuda.evaluate(flow, t, start, "a")["a"])
    mean, spread = np.zeros((2, len(t), cuda_reduce.LANES))
    for number, first in enumerate(range(0, members, cuda_reduce.LANES), 1):
        x = values[:, first : first + cuda_reduce.LANES]
        some = np.s_[:, : x.shape[1]]
        away = x - mean[some]
        mean[some] += away * (1 / number)
        spread[some] += away * (x - mean[some])
    assert same(kept[0, ..., 0], mean)
    assert same(kept[0, ..., 1], spread)


def compare_with_numpy():
    members, t = 40_001, np.array([0.0, 0.3, 0.6, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, np.inf])
    flow, edges = ls.BalancedMode(s=np.linspace(0.5, 3.0, members)), np.linspace(0.0, 2.5, 31)
    assert t.size > TIMES
    plain, gathering = flow(t, 0.1), cuda_reduce.Reduction(("a", "loss"), t.size, edges)
    gathering.absorb(checked(flow, t, 0.1))
    found = gathering.results()
    for name in ("a", "loss"):
        values, variance = plain[name], plain[name].var(-1, ddof=1)
        np.testing.assert_allclose(found[name, "mean"], values.mean(-1), rtol=1e-14)
        np.testing.assert_allclose(found[name, "variance"], variance, rtol=1e-12, atol=1e-30)
        np.testing.assert_allclose(found[name, "standard_error"] ** 2, variance / members, rtol=1e-12, atol=1e-30)
        np.testing.assert_allclose(found[name, "min"], values.min(-1), rtol=1e-14)
        np.testing.assert_allclose(found[name, "max"], values.max(-1), rtol=1e-14)
        assert (found[name, "count"] == members).all()
        counts = np.stack([np.histogram(v, edges)[0] for v in values])
        # a value may be an ulp to the other side of an edge
        assert np.abs(found[name, "histogram"] - counts).max() <= 1
        inside = found[name, "histogram"].sum(-1)
        assert (inside + found[name, "below"] + found[name, "above"] == members).all()
