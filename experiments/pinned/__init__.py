"""Calls of the whole package whose results `pins.py` keeps, by room."""
