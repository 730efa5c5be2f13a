"""Optional dependencies, imported where they are first needed."""

import importlib
import types


def require(module: str, purpose: str) -> types.ModuleType:
    """Imports `module`, or says which extra brings it.

    Args:
      module: dotted name of the module.
      purpose: what it is needed for, as the subject of the error's sentence.

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
            'pip install "jaxrob[experiments]"'
        ) from error
