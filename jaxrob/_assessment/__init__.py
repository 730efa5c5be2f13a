"""Assessments: which levels, what robustness, how certain."""
