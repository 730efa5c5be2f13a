"""Programs compiled ahead of time, and what their compiler tells of them."""

import math
import statistics
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from common import timing
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
    # Bytes by XLA's own count, which takes a loop's body once; None where it does not
    # count.
    once_bytes: float | None
    seconds: float  # how long it took to compile


def mesh_of(target: Target) -> Mesh:
    topology = topologies.get_topology_desc(**target.topology)
    return Mesh(np.array(topology.devices[:1]), ("images",))


def compile_for(program: Program, target: Target, mesh: Mesh) -> Compiled:
    with jax.set_mesh(mesh):
        lowered = program.lower()
        start = time.perf_counter()
        executable = lowered.compile()
    seconds = time.perf_counter() - start
    memory = executable.memory_analysis()
    # A compiler for GPUs that are not there returns None.
    analysis = executable.cost_analysis() or {}
    return Compiled(
        executable,
        costs.cost_of(executable.as_text(), target, program.turns),
        memory.temp_size_in_bytes,
        analysis.get("bytes accessed"),
        seconds,
    )


# Runs are started one behind the other for so long, since one may be shorter than
# what it takes to start it and to wait.
_SECONDS = 0.02
_MOST_RUNS = 50
_REPEATS = 7


def seconds(program: Program, executable: Any, prepared: Any = None) -> float:
    """The median time of a run, a few behind each other."""
    args = arguments(program, prepared)

    def run(number: int) -> float:
        def runs() -> None:
            found = None
            for _ in range(number):
                found = executable(*args)
            jax.block_until_ready(found)

        return timing.seconds(runs) / number

    def anew() -> float:
        nonlocal args
        args = arguments(program, prepared)
        return run(1)

    run(1)
    if _is_gone(args):
        # The program takes its arguments' memory for its results.
        return statistics.median(anew() for _ in range(_REPEATS))
    short = min(run(1) for _ in range(3))
    number = min(math.ceil(_SECONDS / short), _MOST_RUNS)
    return statistics.median(run(number) for _ in range(_REPEATS))


def arguments(program: Program, prepared: Any = None) -> tuple[Any, ...]:
    """A program's arguments on its devices: the values given, or random numbers."""
    rng = np.random.default_rng(0)

    def made(leaf: Any) -> Any:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return jnp.asarray(leaf)
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            array = jax.random.key(0)
        elif np.issubdtype(leaf.dtype, np.floating):
            array = rng.random(leaf.shape, np.float32).astype(leaf.dtype)
        elif leaf.dtype == np.uint8:
            array = rng.integers(0, 256, leaf.shape, np.uint8)
        else:
            # Classes and indices.
            array = np.zeros(leaf.shape, leaf.dtype)
        return jax.device_put(array, leaf.sharding)

    args = jax.tree.map(made, program.args)
    return args if prepared is None else (args[0], prepared, *args[2:])


def _is_gone(args: Any) -> bool:
    leaves = jax.tree.leaves(args)
    return any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)
