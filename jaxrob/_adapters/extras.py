"""Optional frameworks, imported when they are first needed."""

import importlib
import types

from jaxrob._arguments.extra import install


def required(module: str, purpose: str, extra: str) -> types.ModuleType:
    """Imports a module, or names the extra that installs it.

    Args:
      module: dotted name of the module.
      purpose: the feature that needs it, the subject of the error message.
      extra: the optional extra of this package.

    Raises:
      ImportError: if it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = module.partition(".")[0]
        if error.name != missing:  # It is installed, but another import in it fails.
            raise
        raise ImportError(
            f"{purpose} needs {missing}, which is not installed: {install(extra)}"
        ) from error
