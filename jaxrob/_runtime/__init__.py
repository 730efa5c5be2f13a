"""JAX and the machine: meshes and hosts, memory, keys, pixels, reading ahead.

Nothing here knows of classifiers, data sets or robustness.
"""
