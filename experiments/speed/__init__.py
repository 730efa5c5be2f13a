"""Parts of `throughput.py` and `flagship.py`."""
