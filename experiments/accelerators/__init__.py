"""Parts of `accelerator.py`."""
