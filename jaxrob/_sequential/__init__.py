"""Robustness from few images: what is certain, what is open, and what to look at.

Pure functions of what was seen: nothing here knows of classifiers or images.
"""
