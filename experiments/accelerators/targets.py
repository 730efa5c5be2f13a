"""What programs are compiled for: a file for each in `targets/`."""

import pathlib
import tomllib
from typing import Any, NamedTuple

_FOLDER = pathlib.Path(__file__).parent / "targets"
#: The targets' names.
NAMES = tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


class Target(NamedTuple):
    """An accelerator."""

    name: str  # the file's name
    device: str  # what it is, in words
    platform: str  # "tpu" or "cuda"
    extra: str  # the extra of jaxrob that brings its compiler
    # Whether its compiler estimates each instruction. If not, all cost their operations
    # or bytes.
    estimates: bool
    # Parts of the names that JAX gives such devices (`device_kind`).
    kinds: tuple[str, ...]
    bytes_per_second: float  # of its large memory
    cycles_per_second: float  # its clock
    flops_per_second: float  # of products of matrices
    # Of convolutions that are grouped or have few channels.
    slow_flops_per_second: float
    environment: dict[str, str]  # variables that its compiler reads
    # What `jax.experimental.topologies.get_topology_desc` takes.
    topology: dict[str, Any]

    def rate(self, slow: bool) -> float:
        """Operations per second of a convolution."""
        return self.slow_flops_per_second if slow else self.flops_per_second


def load(name: str) -> Target:
    document = tomllib.loads((_FOLDER / f"{name}.toml").read_text())
    document["kinds"] = tuple(document["kinds"])
    return Target(name=name, **document)


def of_device(kind: str) -> Target | None:
    """The target that a device of that kind is; None if there is no file for it."""
    every = (load(name) for name in NAMES)
    return next((one for one in every if any(k in kind for k in one.kinds)), None)
