"""Parts of `argument_mutations.py`, and cases of `roma_modes.py`."""
