"""How an optional extra is installed."""


def install(extra: str) -> str:
    """Returns the command that installs an extra.

    The package is on no registry, so "pip install jaxrob" would install a stranger's.
    """
    return f'pip install -e ".[{extra}]" in a clone of jaxrob'
