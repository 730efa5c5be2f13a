"""Optional extras: how they are installed, and imports that need one."""

import importlib
import types


def install(extra: str) -> str:
    """Returns the command that installs an extra."""
    # The package is on no registry, so "pip install jaxrob" would install a stranger's.
    return f'pip install -e ".[{extra}]" in a clone of jaxrob'


def required(module: str, purpose: str, extra: str) -> types.ModuleType:
    """Imports a module, or names the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = module.partition(".")[0]
        if error.name != missing:  # It is installed, but another import in it fails.
            raise
        raise ImportError(
            f"{purpose} needs {missing}, which is not installed: {install(extra)}"
        ) from error
