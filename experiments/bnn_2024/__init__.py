"""Parts of `bnn_tables.py`, the tables of Essbai et al. (2024).

`retraining_bnn.py` uses the fitting and measuring of Bayesian networks too.
"""
