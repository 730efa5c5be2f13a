"""The command `jaxrob`.

`run` chooses the command and the exit status. JAX is loaded by the commands that
compute, once the flags are known to be valid.
"""
