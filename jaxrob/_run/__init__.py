"""One run: the checks, fingerprints and files that every entry point needs at first.

This layer knows nothing of thresholds, measures or strategies.
"""
