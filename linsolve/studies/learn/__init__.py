"""Closed form, integration and gradient descent on a data set, compared in one report."""
