"""Programs compiled ahead of time, and what their compiler tells of them."""

import time
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh

from accelerators import costs
from accelerators.programs import Program
from accelerators.targets import Target


class Compiled(NamedTuple):
    """A compiled program."""

    executable: Any
    cost: costs.Cost
    temporary_bytes: int  # memory that it takes besides its arguments and results
    code_bytes: int  # the size of the program
    # Bytes by XLA's own count, which takes a loop's body once; None where it does not
    # count.
    once_bytes: float | None
    seconds: tuple[float, float]  # how long it took to trace and to compile


def mesh_of(target: Target) -> Mesh:
    """A device of a target, which need not be there."""
    topology = topologies.get_topology_desc(**target.topology)
    return Mesh(np.array(topology.devices[:1]), ("images",))


def compile_for(program: Program, target: Target, mesh: Mesh) -> Compiled:
    """Compiles a program whose arguments lie on the mesh."""
    start = time.perf_counter()
    with jax.set_mesh(mesh):
        lowered = program.lower()
        traced = time.perf_counter()
        executable = lowered.compile()
    done = time.perf_counter()
    memory = executable.memory_analysis()
    # A compiler for GPUs that are not there returns None.
    analysis = executable.cost_analysis() or {}
    return Compiled(
        executable,
        costs.cost_of(executable.as_text(), target, program.turns),
        memory.temp_size_in_bytes,
        memory.generated_code_size_in_bytes,
        analysis.get("bytes accessed"),
        (traced - start, done - traced),
    )
