"""States that no weights have: refused by the field's name; states of weights of any size, rounded, are not."""

import warnings

import numpy as np
import pytest

from linsolve import WhitenedTwoLayer, arithmetic, integrate
from linsolve.systems.whitened import starts as whitened_start
from linsolve.systems.whitened.starts import refuse_impossible

FIELDS = ("product", "gram_in", "gram_out")


def state(seed=0, shape=(3, 2, 4), scale=0.3, batch=()):
    rng = np.random.default_rng(seed)
    w1, w2 = rng.normal(size=(*batch, shape[1], shape[0])), rng.normal(size=(*batch, shape[2], shape[1]))
    return WhitenedTwoLayer.of(scale * w1, scale * w2)


def check(z, given=()):
    refuse_impossible("WhitenedTwoLayer", z._asdict(), "WhitenedTwoLayer.of(w1, w2)", given)


def negative_in(z):
    return z._replace(gram_in=-z.gram_in)


def negative_out(z):
    return z._replace(gram_out=-z.gram_out)


def indefinite_in(z):
    value, vector = np.linalg.eigh(z.gram_in)
    value[..., 0] = -1e-6 * value[..., -1]
    return z._replace(gram_in=(vector * value[..., None, :]) @ np.swapaxes(vector, -1, -2))


def asymmetric_out(z):
    gram = z.gram_out.copy()
    gram[..., 0, 1] += 1e-6 * np.abs(gram).max()
    return z._replace(gram_out=gram)


def asymmetric_in(z):
    return z._replace(gram_in=z.gram_in + 1e-6 * np.triu(np.ones_like(z.gram_in), 1) * np.abs(z.gram_in).max())


def large_product(z):
    """A product of rank one, larger than the traces of the Gram matrices allow."""
    u, _, vh = np.linalg.svd(z.product)
    size = np.sqrt(np.trace(z.gram_in, axis1=-2, axis2=-1) * np.trace(z.gram_out, axis1=-2, axis2=-1))
    return z._replace(product=1.001 * size[..., None, None] * u[..., :, :1] @ vh[..., :1, :])


def hundredfold_product(z):
    return z._replace(product=100 * z.product)


def no_grams(z):
    return z._replace(gram_in=0 * z.gram_in, gram_out=0 * z.gram_out)


def no_gram_in(z):
    return z._replace(gram_in=0 * z.gram_in)


IMPOSSIBLE = {
    negative_in: "gram_in",
    negative_out: "gram_out",
    indefinite_in: "gram_in",
    asymmetric_in: "gram_in",
    asymmetric_out: "gram_out",
    large_product: "product",
    hundredfold_product: "product",
    no_grams: "product",
    no_gram_in: "product",
}


@pytest.mark.parametrize("change", IMPOSSIBLE, ids=lambda change: change.__name__)
@pytest.mark.parametrize("scale", [1e-60, 1e-8, 0.3, 1e60])
@pytest.mark.parametrize("shape", [(3, 2, 4), (1, 1, 1), (1, 5, 4), (4, 4, 4)], ids=str)
def test_an_impossible_state_is_refused_by_the_name_of_its_field(change, scale, shape):
    if (change is asymmetric_in and shape[0] == 1) or (change is asymmetric_out and shape[2] == 1):
        return
    batch = state(1, shape, scale, batch=(3,))
    single = state(2, shape, scale)
    wrong = change(single)
    flow = WhitenedTwoLayer(np.ones((shape[2], shape[0])))
    message = rf"WhitenedTwoLayer: {IMPOSSIBLE[change]} = .*violates this rule by .*WhitenedTwoLayer\.of\(w1, w2\)"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ask in (flow, lambda t, z: integrate(flow, t, z)):
            with pytest.raises(ValueError, match=message):
                ask(1.0, wrong)
        members = [m.copy() for m in batch]
        for whole, own in zip(members, wrong, strict=True):
            whole[1] = own
        with pytest.raises(ValueError, match=r"at index \(1,\)"):  # one bad member of a batch
            flow.state(tuple(members))


@pytest.mark.parametrize("change", IMPOSSIBLE, ids=lambda change: change.__name__)
@pytest.mark.parametrize("scale", [1e-60, 0.3, 1e60, 1e76])
def test_an_impossible_state_of_a_large_network_is_refused_like_that_of_a_small_one(change, scale):
    w1, w2 = WhitenedTwoLayer.init(70, 90, 66, scale=scale, rng=3)
    sound = WhitenedTwoLayer.of(w1, w2)
    flow, wrong = WhitenedTwoLayer(np.ones((66, 70))), change(sound)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="violates this rule") as refusal:
            flow(1.0, wrong)
        with pytest.raises(ValueError, match="violates this rule") as alone:
            flow.state(wrong)
        assert flow(0.0, sound)["product"].shape == (66, 70)
    assert str(refusal.value) == str(alone.value)
    assert str(refusal.value).startswith(f"WhitenedTwoLayer: {IMPOSSIBLE[change]} = ")


def test_a_large_balanced_state_is_checked_by_its_root(monkeypatch):
    target, start = np.eye(70), WhitenedTwoLayer.of(*WhitenedTwoLayer.init(70, 90, 70, scale=0.3, rng=3))
    lopsided = WhitenedTwoLayer.of(*WhitenedTwoLayer.init(70, 70, 70, scale=0.3, imbalance=0.1, rng=3))
    right = WhitenedTwoLayer(target)(1.0, start).state
    tried = []
    monkeypatch.setattr(whitened_start, "_positive", lambda whole: tried.append(whole.shape) or True)
    for found, known in zip(WhitenedTwoLayer(target)(1.0, start).state, right, strict=True):
        np.testing.assert_array_equal(found, known)
    assert not tried
    WhitenedTwoLayer(target)(1.0, lopsided)
    assert tried == [(140, 140)]


@pytest.mark.parametrize("n", [3, 70])
def test_a_subclass_may_have_its_own_state(n):
    class OfWeights(WhitenedTwoLayer):
        @classmethod
        def state(cls, z):
            return cls.of(*z)

    weights = WhitenedTwoLayer.init(n, n, n, scale=0.3, rng=3)
    found, right = OfWeights(np.eye(n))(1.0, weights), WhitenedTwoLayer(np.eye(n))(1.0, WhitenedTwoLayer.of(*weights))
    np.testing.assert_array_equal(found["product"], right["product"])


def test_batches_that_do_not_fit_are_named_before_a_large_state_is_factored():
    sound = WhitenedTwoLayer.State(*[np.eye(70)] * 3)
    with pytest.raises(ValueError, match=r"target \(2,\), tau \(3,\)"):
        WhitenedTwoLayer(np.ones((2, 70, 70)), tau=[1.0, 2.0, 3.0])(1.0, sound)


@pytest.mark.parametrize("name", ["gram_in", "gram_out"])
def test_large_negative_entries_are_refused_without_a_warning(name):
    wrong = WhitenedTwoLayer.State(*[np.eye(70)] * 3)
    gram = np.diag([1.0] + 69 * [-1.7e308])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=rf"{name} = 1.7e\+308 .*no negative eigenvalue"):
            WhitenedTwoLayer(np.eye(70))(1.0, wrong._replace(**{name: gram}))


def test_a_product_whose_square_overflows_is_refused_without_a_warning():
    wrong = WhitenedTwoLayer.State(1e200 * np.eye(70), np.eye(70), np.eye(70))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"product = 1e\+200 .*Cauchy-Schwarz"):
            WhitenedTwoLayer(np.eye(70))(1.0, wrong)


def test_a_subnormal_state_of_a_large_network_is_refused():
    flow = WhitenedTwoLayer(np.eye(70))
    tiny = WhitenedTwoLayer.State(*[2e-308 * np.eye(70)] * 3)
    for ask in (flow.state, lambda z: flow(1.0, z)):
        with pytest.raises(ValueError, match=r"gram_in = 2e-308 \(largest entry\) must be 0 or at least 2.23e-308"):
            ask(tiny)


def test_a_product_without_gram_matrices_violates_the_rule_by_far():
    with pytest.raises(ValueError, match=r"violates this rule by more than 1e\+06 \(relative"):
        WhitenedTwoLayer.state(no_grams(state(2, (3, 2, 4), 0.3)))


@pytest.mark.parametrize("width", [1, 2, 9])
@pytest.mark.parametrize("sizes", [(1e-150, 1e-150), (1e-300, 1.0), (1e-8, 1e4), (0.0, 1.0), (0.0, 0.0), (1e75, 1e75)])
def test_states_of_weights_are_accepted(width, sizes):
    rng = np.random.default_rng(width)
    a, b = sizes
    w1, w2 = a * rng.normal(size=(50, width, 3)), b * rng.normal(size=(50, 4, width))
    z = WhitenedTwoLayer.of(w1, w2)
    check(z)
    check(type(z)(*(v.astype(np.float32).astype(float) for v in z)) if 1e-30 < a < 1e10 else z, [np.float32(1)])
    assert WhitenedTwoLayer.state(z).product.shape == (50, 4, 3)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rounding_is_judged_at_the_precision_of_the_input(dtype):
    z = state(3, (5, 2, 6), batch=(200,))
    rounded = type(z)(*(v.astype(dtype) for v in z))
    WhitenedTwoLayer.state(rounded)
    with pytest.raises(ValueError, match=r"must (be symmetric|have no negative|not exceed)"):
        WhitenedTwoLayer.state(type(z)(*(v.astype(float) for v in rounded)))  # doubles do not round so much


def test_states_in_high_precision_are_judged():
    xp, z = arithmetic.precise(40), state(4)
    exact = type(z)(*(xp.asarray(v) for v in z))
    check(exact)
    tiny = xp.asarray(10) ** -200
    check(type(z)(*(v * tiny * tiny for v in exact)))
    with pytest.raises(ValueError, match="product"):
        check(exact._replace(product=100 * exact.product))
    with pytest.raises(ValueError, match="gram_in"):
        check(exact._replace(gram_in=-exact.gram_in))


def test_shapes_that_do_not_fit_are_refused_as_shapes():
    z = state(5)
    with pytest.raises(ValueError, match=r"gram_in has shape \(2, 2\)"):
        WhitenedTwoLayer(np.ones((4, 3)))(1.0, z._replace(gram_in=np.eye(2)))


def test_states_along_a_trajectory_are_starts():
    rng = np.random.default_rng(6)
    for lam in (0.0, 0.5, -0.5):
        w = WhitenedTwoLayer.init(3, 2, 4, scale=0.1, imbalance=lam, batch=(20,), rng=rng)
        flow = WhitenedTwoLayer(rng.normal(size=(20, 4, 3)))
        late = flow([1e-3, 1.0, 30.0, np.inf], flow.of(*w)).state
        for k in range(4):
            flow(1.0, tuple(v[k] for v in late))


@pytest.mark.parametrize("size", [1e155, 1e160, 1e300])
def test_a_target_whose_loss_is_no_double_is_refused(size):
    with pytest.raises(OverflowError, match=r"WhitenedTwoLayer: target = .* must be below 1e\+154"):
        WhitenedTwoLayer(np.diag([size, 1.0]))
    exact = arithmetic.precise(30).asarray(np.diag([size, 1.0]))
    assert arithmetic.is_object(arithmetic.namespace(WhitenedTwoLayer(exact).target))


@pytest.mark.parametrize("sizes", [(1e160, 1.0), (1.0, 1e200), (1e-160, 1e-160), (1e-200, 1e-300), (1e300, 1e300)])
def test_weights_whose_squares_are_no_doubles_are_refused(sizes):
    a, b = sizes
    name = "w1" if a >= b else "w2"
    with pytest.raises(OverflowError, match=rf"WhitenedTwoLayer: {name} = .* must lie between"):
        WhitenedTwoLayer.of(a * np.eye(2), b * np.eye(2))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-150, 1e-8, 1.0, 1e60, 1e150])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 2), (2, 2, 2), (3, 2, 4)], ids=str)
@pytest.mark.quick(9)
def test_targets_of_any_size_at_any_time(shape, size):
    """Limits known by hand: a start that holds every direction reaches the best map of its rank; a zero start stays."""
    rng = np.random.default_rng(sum(shape))
    n_in, width, n_out = shape
    target = size * rng.normal(size=(n_out, n_in))
    flow, scale = WhitenedTwoLayer(target), max(np.sqrt(size), 1e-70)
    w1, w2 = WhitenedTwoLayer.init(n_in, width, n_out, scale=0.3 * scale, rng=rng)
    times = np.asarray([0.0, 5e-324, 1.0 / max(size, 1e-150), 1e300, np.inf])
    for start in (WhitenedTwoLayer.of(w1, w2), WhitenedTwoLayer.of(0 * w1, 0 * w2)):
        traj = flow(times, start)
        for name in ("product", "gram_in", "gram_out", "singular_values", "kernel_alignment", "obstructed"):
            assert np.isfinite(traj[name]).all(), name
        assert (np.abs(traj["kernel_alignment"]) <= 1 + 1e-12).all()
        np.testing.assert_array_equal(traj["product"][0], start.product)
        if not start.product.any():
            assert not traj["product"].any()
        elif size >= 1e-8 and not traj["obstructed"][0]:
            u, s, vh = np.linalg.svd(target)
            rank = min(shape)
            best = u[:, :rank] * s[:rank] @ vh[:rank]
            np.testing.assert_allclose(traj["product"][-1], best, rtol=0, atol=1e-12 * size)
    for wrong in (-1.0, -np.inf):
        with pytest.raises(ValueError, match="WhitenedTwoLayer: t = -"):
            flow(wrong, start)
