"""Parts of `common_corruptions.py`, after Hendrycks and Dietterich (2019)."""
