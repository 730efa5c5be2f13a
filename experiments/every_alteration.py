"""Each of the library's alterations, with its default range."""

import inspect

from jaxrob import alterations
from jaxrob.alterations import Alteration


def every_alteration() -> dict[str, Alteration]:
    """Returns the alterations by name: the functions that need no argument."""
    return {
        name: make()
        for name, make in inspect.getmembers(alterations, inspect.isfunction)
        if not any(
            one.default is one.empty
            for one in inspect.signature(make).parameters.values()
        )
    }
