"""Parts of `argument_mutations.py`."""
