"""The command `jaxrob`.

`run` decides what to do and with which status it ends. JAX is loaded by the parts that
compute, once the flags are known to be right.
"""
