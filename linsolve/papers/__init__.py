"""References, published formulas, cards and generated code."""
