"""The file of kept results. It is valid for one machine, and rejected on others."""

import importlib.metadata
import json
import os
import pathlib
import platform
from typing import Any

import jax
from absl import app
from common import machine

_PACKAGES = (
    "jax", "jaxlib", "numpy", "scipy", "flax", "optax", "numpyro", "orbax-checkpoint",
    "dm-pix", "jinja2", "matplotlib", "pillow",
)  # fmt: skip
_VARIABLES = ("XLA_FLAGS", "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION")


def write(path: str | os.PathLike[str], cases: dict[str, Any]) -> None:
    """Writes the kept results of cases, by their names."""
    document = {"where": where(), "cases": cases}
    pathlib.Path(path).write_text(json.dumps(document))


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads the file."""
    try:
        document = json.loads(pathlib.Path(path).read_text())
        before, cases = document["where"], document["cases"]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise app.UsageError(
            f"--compare: {path} is not what --keep writes: {error!r}"
        ) from error
    now = where()
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
    return cases


def where() -> dict[str, Any]:
    """Returns what bits depend on besides the code: machine, versions, compilation."""
    device = jax.devices()[0]
    return {
        "system": platform.platform(),
        "processor": machine.processor(),
        "cores": os.cpu_count(),
        "devices": f"{jax.device_count()} {device.platform} {device.device_kind}",
        "python": platform.python_version(),
        "optimised": not jax.config.read("jax_disable_most_optimizations"),
        **{name: os.environ.get(name, "") for name in _VARIABLES},
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
    }
