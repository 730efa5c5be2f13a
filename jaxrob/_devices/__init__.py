"""Meshes of devices and hosts, the memory that they have, functions on the host."""
