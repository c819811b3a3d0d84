"""Deep linear networks from singular modes, exactly, and back: layers, loss, tangent and layer kernels at any time."""

from linsolve.deep.balanced_map import BalancedMap
from linsolve.deep.network import DeepNetwork
from linsolve.deep.recognition import distances
from linsolve.deep.weights import deep_weights

__all__ = ["BalancedMap", "DeepNetwork", "deep_weights", "distances"]
