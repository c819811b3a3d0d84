"""Closed forms of the scalar and matrix Riccati equations that neither overflow nor cancel, in every arithmetic."""

from linsolve.stable.scalar import integral_of_decay, log1p_ratio, logistic, phi, riccati, riccati_lifetime, smallest

__all__ = ["integral_of_decay", "log1p_ratio", "logistic", "phi", "riccati", "riccati_lifetime", "smallest"]
