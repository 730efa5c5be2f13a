"""Parts of `throughput.py`."""
