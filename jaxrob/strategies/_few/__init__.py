"""Robustness from few images: what is certain, what is open, and what to look at."""
