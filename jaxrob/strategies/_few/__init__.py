"""Robustness from few images: the search and its estimates."""
