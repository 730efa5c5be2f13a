"""Results as JSON."""

import dataclasses
import json
import os
from typing import Any

from jaxrob._runtime.checks import checked_path
from jaxrob._runtime.seal import sealed
from jaxrob._runtime.strict_json import jsonable


def to_json(result: Any, path: str | os.PathLike | None, **more: Any) -> str:
    """A frozen dataclass of arrays as JSON, written to `path` if one is given.

    What else is named is added. With a format, which is read again, it is sealed. JSON
    knows neither NaN nor infinity: they become null
    and "inf" or "-inf".
    """
    document = {
        field.name: jsonable(getattr(result, field.name))
        for field in dataclasses.fields(result)
    } | {name: jsonable(value) for name, value in more.items()}
    if "format" in more:
        document = sealed(document)
    text = json.dumps(document, allow_nan=False)
    if path is not None:
        checked_path("path", path).write_text(text)
    return text
