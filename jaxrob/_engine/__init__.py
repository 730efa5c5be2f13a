"""The engine: a classifier's answers at every level of a queue of alterations.

It knows nothing of thresholds or measures.
"""
