"""Frameworks, imported where they are first needed."""

import importlib
import types


def required(module: str, purpose: str, extra: str) -> types.ModuleType:
    """Imports a module, or says which extra brings it.

    Args:
      module: dotted name of the module.
      purpose: what it is needed for, as the subject of the error's sentence.
      extra: the optional extra of this package.

    Raises:
      ImportError: if it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = module.partition(".")[0]
        if error.name != missing:  # It is there, and fails for another reason.
            raise
        raise ImportError(
            f"{purpose} needs {missing}, which is not installed: "
            f'pip install "jaxrob[{extra}]"'
        ) from error
