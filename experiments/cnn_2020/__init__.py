"""Parts of `retraining_tables.py`, the tables of Arcaini et al. (2020)."""
