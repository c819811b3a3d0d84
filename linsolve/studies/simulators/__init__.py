"""Comparison of a simulator with the exact solution: errors, observed order, and the mistake that they look like."""
