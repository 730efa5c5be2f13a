"""Cases run each in a folder of its own, and their results, exact to the bit.

The file of kept results is valid for one machine, and rejected on others.
"""

import dataclasses
import fnmatch
import functools
import hashlib
import importlib
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from absl import app
from common import timing

#: The modules whose `CASES` are run.
_CHAPTERS = (
    "altering", "evaluating", "assessing", "probable", "learning", "measuring",
    "reporting", "commanding", "elsewhere",
)  # fmt: skip
#: The key of the error of a case that fails.
RAISED = "raised"
# Fields that differ from run to run by their nature.
_LEFT_OUT = frozenset({"seconds", "started"})
# Arrays up to this size are kept whole, larger ones by a few values.
_MOST_VALUES = 64
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
_PACKAGES = (
    "jax", "jaxlib", "numpy", "scipy", "flax", "optax", "numpyro", "orbax-checkpoint",
    "dm-pix", "jinja2", "matplotlib", "pillow",
)  # fmt: skip
_VARIABLES = ("XLA_FLAGS", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION")


def cases(only: str = "*") -> dict[str, Callable[[], Any]]:
    """The cases whose names fit a pattern."""
    found: dict[str, Callable[[], Any]] = {}
    for name in _CHAPTERS:
        found |= importlib.import_module(f"pinned.{name}").CASES
    return {
        name: case for name, case in found.items() if fnmatch.fnmatchcase(name, only)
    }


def result(case: Callable[[], Any]) -> dict[str, Any]:
    """A case's result and warnings, in order, or its error."""
    before = os.getcwd()
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(record=True) as said,
    ):
        warnings.simplefilter("always")
        os.chdir(folder)
        try:
            found = {"value": kept(case())}
        # Code under comparison may fail in any way.
        except Exception as error:
            traceback.print_exc()
            found = {RAISED: f"{type(error).__name__}: {error}"}
        finally:
            folder = os.getcwd()
            os.chdir(before)
    found["warnings"] = [_in_words(one) for one in said if _counts(one)]
    return _without_folder(found, folder)


def _counts(warning: warnings.WarningMessage) -> bool:
    """Whether a warning is for users: JAX's deprecations appear once a process."""
    passing = DeprecationWarning | PendingDeprecationWarning | ResourceWarning
    return not issubclass(warning.category, passing)


def _in_words(warning: warnings.WarningMessage) -> str:
    """The class, whether it points to the line of the call, and the text."""
    path = pathlib.Path(warning.filename)
    is_here = pathlib.Path(__file__).parent in path.parents
    where = "the call" if is_here else path.name
    return f"{warning.category.__name__} at {where}: {warning.message}"


def _without_folder(value: Any, folder: str) -> Any:
    if isinstance(value, dict):
        return {name: _without_folder(one, folder) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_folder(one, folder) for one in value]
    return value.replace(folder, "FOLDER") if isinstance(value, str) else value


def kept(value: Any) -> Any:
    """Converts a value to JSON: floats with all digits, of objects what is public."""
    if isinstance(value, str):
        return _ADDRESS.sub("0x...", value)
    if isinstance(value, np.generic) and not isinstance(value, np.float64):
        return f"{value.dtype} {value.item()!r}"
    if isinstance(value, float):
        return float(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, bytes):
        return {"bytes": len(value), "digest": _digest(value)}
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(
        value.dtype, jax.dtypes.prng_key
    ):
        return {"key": kept(np.asarray(jax.random.key_data(value)))}
    if isinstance(value, np.ndarray | jax.Array):
        return _array(np.asarray(value))
    if isinstance(value, Mapping):
        return {str(name): kept(one) for name, one in value.items() if _said(name)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _attributes(value)
    if isinstance(value, list | tuple):
        return [kept(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if dataclasses.is_dataclass(value) or type(value).__module__.startswith("jaxrob"):
        return _attributes(value)
    if callable(value):
        return "a function"
    return kept(f"{type(value).__name__} {value}")


def _said(name: Any) -> bool:
    return name not in _LEFT_OUT and not str(name).startswith("_")


def _attributes(value: Any) -> dict[str, Any]:
    names = dict.fromkeys(getattr(value, "_fields", ()))
    if dataclasses.is_dataclass(value):
        names |= dict.fromkeys(field.name for field in dataclasses.fields(value))
    for base in type(value).__mro__[:-1]:
        names |= {
            name: None
            for name, one in vars(base).items()
            if isinstance(one, property | functools.cached_property)
        }
    found = {name: _attribute(value, name) for name in names if _said(name)}
    if hasattr(value, "to_json"):
        found["to_json"] = kept(json.loads(value.to_json()))
    return found


def _attribute(value: Any, name: str) -> Any:
    # A property that is not known here raises an error with a message.
    try:
        return kept(getattr(value, name))
    except ValueError as error:
        return f"{type(error).__name__}: {error}"


def _array(array: np.ndarray) -> Any:
    if array.dtype == object:
        return [kept(one) for one in array.tolist()]
    array = np.ascontiguousarray(array).reshape(array.shape)
    flat = array.reshape(-1)
    places = np.arange(flat.size)
    if flat.size > _MOST_VALUES:
        places = np.unique(np.linspace(0, flat.size - 1, _MOST_VALUES // 4).astype(int))
    return {
        "array": f"{array.dtype} {list(array.shape)}",
        "digest": _digest(array.tobytes()),
        "values": {str(place): _number(flat[place].item()) for place in places},
    }


def _number(value: Any) -> Any:
    """A float32's item, too, needs enough digits to differ from its neighbours'."""
    if isinstance(value, complex):
        return [value.real, value.imag]
    return value if isinstance(value, int | float | str) else str(value)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]


def write(path: str | os.PathLike[str], results: dict[str, Any]) -> None:
    """Writes the kept results of cases, by their names."""
    document = {"where": _where(), "cases": results}
    pathlib.Path(path).write_text(json.dumps(document))


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        document = json.loads(pathlib.Path(path).read_text())
        before, results = document["where"], document["cases"]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise app.UsageError(
            f"--compare: {path} is not what --keep writes: {error!r}"
        ) from error
    now = _where()
    unlike = [
        f"{name} was {before.get(name)!r}, is {now.get(name)!r}"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]
    if unlike:
        raise app.UsageError(
            f"--compare: {path} was kept elsewhere, where other bits are right: "
            f"{'; '.join(unlike)}. Keep it anew here, on the code before"
        )
    return results


def _where() -> dict[str, Any]:
    device = jax.devices()[0]
    return {
        "system": platform.platform(),
        "processor": timing.processor(),
        "cores": os.cpu_count(),
        "devices": f"{jax.device_count()} {device.platform} {device.device_kind}",
        "python": platform.python_version(),
        "optimised": not jax.config.read("jax_disable_most_optimizations"),
        **{name: os.environ.get(name, "") for name in _VARIABLES},
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
    }
