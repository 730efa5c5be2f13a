"""The environment that a target's compiler needs, which must be there before JAX is."""

import importlib.util
import os
import subprocess
import sys

from absl import app

from accelerators import targets
from accelerators.targets import Target

_COMPILERS = {
    "tpu": ("libtpu",),
    "cuda": ("jax_cuda13_plugin", "jax_cuda12_plugin"),
}
#: XLA's cost model for GPUs then writes its estimates into the program's text.
_ESTIMATES = "--xla_gpu_collect_cost_model_stats=true"


def missing(target: Target) -> str | None:
    """What to install for a target's compiler, in words; None if it is there."""
    if _installed(target.platform):
        return None
    return (
        f"there is no compiler for {target.device} here: "
        f'pip install -e ".[{target.extra}]", in an environment of its own'
    )


def for_compiling(target: Target) -> None:
    """Starts the script anew in the target's environment, unless it is in it."""
    words = missing(target)
    if words is not None:
        raise app.UsageError(words)
    wanted = {"JAX_PLATFORMS": "cpu"} | target.environment
    if target.platform == "cuda" and target.estimates:
        wanted |= _with_estimates()
    _enter(wanted)


def for_measuring() -> None:
    """Starts the script anew so that a GPU's compiler, if it can, writes estimates."""
    if not _installed("cuda") or not (wanted := _with_estimates()):
        return
    # In another process, because a variable that is set later has no effect.
    asked = subprocess.run(
        [sys.executable, "-c", "import jax; print(jax.local_devices()[0].device_kind)"],
        env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        capture_output=True,
        text=True,
    )
    target = targets.of_device(asked.stdout) if asked.returncode == 0 else None
    if target is not None and target.estimates:
        _enter(wanted)


def _installed(platform: str) -> bool:
    return any(importlib.util.find_spec(name) for name in _COMPILERS[platform])


def _with_estimates() -> dict[str, str]:
    flags = os.environ.get("XLA_FLAGS", "")
    if _ESTIMATES in flags:
        return {}
    return {"XLA_FLAGS": f"{flags} {_ESTIMATES}".strip()}


def _enter(wanted: dict[str, str]) -> None:
    if all(os.environ.get(name) == value for name, value in wanted.items()):
        return
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | wanted)
