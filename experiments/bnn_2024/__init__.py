"""Parts of `bnn_tables.py`, the tables of Essbai et al. (2024).

What fits and measures Bayesian networks serves `retraining_bnn.py` too.
"""
