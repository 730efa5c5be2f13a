"""Texts and digests of values and programs, the same in every process."""
