"""Parts of `common_corruptions.py`: those of Hendrycks and Dietterich (2019)."""
