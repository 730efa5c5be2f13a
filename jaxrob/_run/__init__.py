"""One run: what every entry point checks, pins and opens before it computes.

It knows nothing of thresholds, measures or strategies.
"""
