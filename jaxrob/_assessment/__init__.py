"""From a question to an assessment: which levels, what robustness, how certain."""
