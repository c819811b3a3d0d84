"""Evaluation engines (private): recorded formulas of a flow, evaluated as NumPy blocks, machine code or CUDA."""
