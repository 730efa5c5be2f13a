"""Parts of `gpu_day.py`."""
