"""Results as JSON."""

import dataclasses
import json
import os
from typing import Any

import numpy as np

from jaxrob._runtime.checks import checked_path


def to_json(result: Any, path: str | os.PathLike | None, **more: Any) -> str:
    """A frozen dataclass of arrays as JSON, written to `path` if one is given.

    What else is named is added. JSON knows neither NaN nor infinity: they become null
    and "inf" or "-inf".
    """
    document = {
        field.name: _jsonable(getattr(result, field.name))
        for field in dataclasses.fields(result)
    } | {name: _jsonable(value) for name, value in more.items()}
    text = json.dumps(document, allow_nan=False)
    if path is not None:
        checked_path("path", path).write_text(text)
    return text


def _jsonable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _jsonable(value.tolist())
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    if not isinstance(value, float) or np.isfinite(value):
        return value
    return None if np.isnan(value) else str(value)
