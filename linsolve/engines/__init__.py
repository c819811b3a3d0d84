"""Evaluation engines (private): the formulas of a flow, recorded once, run as NumPy blocks, machine code or CUDA."""
