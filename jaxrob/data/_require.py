"""Optional dependencies, imported when they are first needed."""

import importlib
import types

from jaxrob._arguments.extra import install


def require(module: str, purpose: str, extra: str = "experiments") -> types.ModuleType:
    """Imports a module, or names the extra that installs it.

    Args:
      module: dotted name of the module.
      purpose: the feature that needs it, the subject of the error message.
      extra: the extra.

    Returns:
      The module.

    Raises:
      ImportError: if it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs {module.partition('.')[0]}, which is not installed: "
            f"{install(extra)}"
        ) from error
