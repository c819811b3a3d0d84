"""Numerical kernels that two or more systems share."""
