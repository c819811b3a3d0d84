"""Measurements of accuracy and speed; ``python -m benchmarks`` prints them."""
