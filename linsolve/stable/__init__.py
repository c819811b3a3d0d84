"""Closed forms of the scalar and matrix Riccati equations that neither overflow nor cancel, in every arithmetic."""

from linsolve.stable.blocks import Blocks
from linsolve.stable.boost import Boost, BoostStart, boost, boost_output
from linsolve.stable.boost_times import boost_blow_up, boost_time_to
from linsolve.stable.boosted_layers import Layers, LayersStart
from linsolve.stable.compensated import Twofold, length, two_prod, two_sum
from linsolve.stable.growth import deep_growth_time
from linsolve.stable.growth_inverse import deep_growth
from linsolve.stable.krylov import Krylov, krylov
from linsolve.stable.matrix import matrix_riccati
from linsolve.stable.momentum import descent_power, heavy_ball
from linsolve.stable.quadrature import legendre
from linsolve.stable.scalar import integral_of_decay, log1p_ratio, logistic, phi, riccati, riccati_lifetime, smallest
from linsolve.stable.sliding import Slide, rising_root
from linsolve.stable.spectral import Spectrum, decay, decayed_integral, integral_weights

__all__ = [
    "Blocks",
    "Boost",
    "BoostStart",
    "Krylov",
    "Layers",
    "LayersStart",
    "Slide",
    "Spectrum",
    "Twofold",
    "boost",
    "boost_blow_up",
    "boost_output",
    "boost_time_to",
    "decay",
    "decayed_integral",
    "deep_growth",
    "deep_growth_time",
    "descent_power",
    "heavy_ball",
    "integral_of_decay",
    "integral_weights",
    "krylov",
    "legendre",
    "length",
    "log1p_ratio",
    "logistic",
    "matrix_riccati",
    "phi",
    "riccati",
    "riccati_lifetime",
    "rising_root",
    "smallest",
    "two_prod",
    "two_sum",
]
