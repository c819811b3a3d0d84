"""Ensembles on a GPU: speed and accuracy, and the resources of the printed kernels."""
