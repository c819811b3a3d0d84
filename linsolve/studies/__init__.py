"""Whole experiments with a report: data sets, neural collapse, NTK statistics, phase diagrams, figures of papers."""
