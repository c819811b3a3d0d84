import numpy as np
import pytest

import linsolve as ls
from linsolve import WhitenedTwoLayer
from linsolve.systems.whitened.imbalance import imbalance


@pytest.mark.parametrize("diagonal", [(-2e-17, 1e-17), (-2e-17, -1e-17), (1e-17, -3e-18), (0.0, 0.0)])
def test_a_block_that_rounding_made_negative_counts_as_zero(diagonal):
    gram_in, gram_out = (np.diag([v, v / 2]) for v in diagonal)
    found = imbalance(np, np.zeros((2, 2)), gram_in, gram_out)
    kept = imbalance(np, np.zeros((2, 2)), gram_in * (diagonal[0] > 0), gram_out * (diagonal[1] > 0))
    assert found.distance == kept.distance >= 0


def test_random_rounding_has_no_negative_distance():
    rng = np.random.default_rng(0)
    blocks = 1e-17 * rng.normal(size=(3, 500, 3, 3))
    gram_in, gram_out = (b + b.mT for b in blocks[:2])
    assert np.all(imbalance(np, blocks[2], gram_in, gram_out).distance >= 0)


@pytest.mark.parametrize("size", [1e-60, 1e-72, 1e-76])
def test_two_eigenvalues_of_tiny_weights_keep_their_digits(size):
    flow, z0 = WhitenedTwoLayer(target=[[1.0]]), WhitenedTwoLayer.of([[size], [0.0]], [[0.1 * size, size]])
    line = ls.TwoLayer(y=1.0, gamma=1.0, eta_u=0.5, eta_w=0.5, x=[1.0])
    same = line(np.log(1 / size), line.State(u=np.array([0.1, 1.0]) * size, w=np.array([[1.0], [0.0]]) * size))
    assert flow(np.log(1 / size), z0)["product"][0, 0] == pytest.approx(float(same["output"]), rel=1e-12)


@pytest.mark.parametrize("size", [1e-78, 1e-81, 1e-100, 1e-150])
def test_two_eigenvalues_whose_product_underflows_are_refused(size):
    z0 = WhitenedTwoLayer.of([[size], [0.0]], [[0.1 * size, size]])
    assert float(imbalance(np, *z0).spread) > 0
    with pytest.raises(OverflowError, match=r"gram_in = .* make the product of two eigenvalues .* underflow"):
        WhitenedTwoLayer(target=[[1.0]])(1.0, z0)
    balanced = WhitenedTwoLayer.of([[size]], [[size]])
    assert WhitenedTwoLayer(target=[[1.0]])(np.inf, balanced)["product"] == 1


@pytest.mark.parametrize(("first", "second"), [(1e-146, 1.0), (1e-150, 1.0), (1.0, 1e-150), (1e-145, 1e-2)])
def test_two_eigenvalues_of_different_size_keep_their_digits(first, second):
    w1, w2 = np.array([[first], [0.0]]), np.array([[0.1, 1.0]]) * second
    line = ls.TwoLayer(y=1.0, gamma=1.0, eta_u=0.5, eta_w=0.5, x=[1.0])
    right = line(0.5, line.State(u=w2[0], w=w1))["output"]
    found = WhitenedTwoLayer(target=[[1.0]])(0.5, WhitenedTwoLayer.of(w1, w2))["product"][0, 0]
    assert found == pytest.approx(float(right), rel=1e-12)


def test_the_member_whose_product_underflows_is_named():
    sizes = np.array([1.0, 1e-90])[:, None, None]
    z0 = WhitenedTwoLayer.of(np.array([[1.0], [0.0]]) * sizes, np.array([[0.1, 1.0]]) * sizes)
    with pytest.raises(OverflowError, match=r"gram_in = 1e-180, .*at index \(1,\)"):
        WhitenedTwoLayer(target=[[1.0]])(1.0, z0)


def test_products_that_underflow_in_jax_are_refused_too():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        size = 1e-90
        z0 = WhitenedTwoLayer.of(jnp.array([[size], [0.0]]), jnp.array([[0.1 * size, size]]))
        with pytest.raises(OverflowError, match="underflow"):
            WhitenedTwoLayer(target=jnp.array([[1.0]]))(1.0, z0)
