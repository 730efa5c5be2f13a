"""What the tests cost, in seconds and in units of one fixed piece of work.

    python -m pytest && python tests/cost.py    # whether it kept to its budget

Machines differ by a factor of three, so the budget is so many times that work: small
networks, trained for a moment, which is mostly compilation, as the tests are.
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import time

KEPT = pathlib.Path(__file__).parents[1] / ".pytest_cache" / "cost.json"
# Units of `pytest` with nothing compiled before. Half as much again is too much.
BUDGET = 75
_COMPILED = "/jax/core/compile/backend_compile_duration"
_FROM_CACHE = "/jax/compilation_cache/cache_hits"
_programs = []


def count_programs() -> None:
    """Counts what this process compiles from now on, not what it reads from a cache."""
    from jax import monitoring

    def compiled(event, seconds, **details):
        if event == _COMPILED:
            _programs.append(1)

    def read(event, **details):
        if event == _FROM_CACHE:
            _programs.append(-1)

    monitoring.register_event_duration_secs_listener(compiled)
    monitoring.register_event_listener(read)


def programs() -> int:
    return sum(_programs)


def cpu_seconds() -> float:
    """Those of this process and of its children that have ended."""
    return sum(os.times()[:4])


def unit() -> float:
    """Returns the CPU seconds of the fixed piece of work, in a process of its own."""
    environment = os.environ | {
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, __file__, "work"]
    return float(subprocess.check_output(command, env=environment, text=True))


def report(tests: dict[str, float], compiled: int, before: float) -> str:
    """Keeps the seconds of each test; returns what all cost, in words."""
    # Timed before and after, since a machine that others share is not always as fast.
    used = cpu_seconds() - before
    one = (before + unit()) / 2
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    kept = {"cpu_seconds": used, "unit": one, "programs": compiled, "tests": tests}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept, indent=0))
    return (
        f"{used:.0f} s of CPU, {used / one:.0f} times the fixed piece of work "
        f"({one:.2f} s); {compiled} programs; {largest:.1f} GiB in the largest process"
    )


def work(widths: tuple[int, ...] = (16, 20, 24, 28, 32), steps: int = 50) -> None:
    import jax
    import jax.numpy as jnp

    key = jax.random.key(0)
    images, labels = jax.random.normal(key, (64, 784)), jnp.arange(64) % 10

    def loss(layers):
        hidden = images
        for layer in layers:
            hidden = jnp.tanh(hidden @ layer)
        answers = jax.nn.log_softmax(hidden)
        return -jnp.take_along_axis(answers, labels[:, None], axis=1).mean()

    @jax.jit
    def step(layers):
        gradients = jax.grad(loss)(layers)
        return [layer - 0.1 * each for layer, each in zip(layers, gradients)]

    for width in widths:
        sizes = [784, *[width] * 8, 10]
        layers = [jax.random.normal(key, shape) for shape in zip(sizes, sizes[1:])]
        for _ in range(steps):
            layers = step(layers)
    jax.block_until_ready(layers)


def check() -> None:
    kept = json.loads(KEPT.read_text())
    units = kept["cpu_seconds"] / kept["unit"]
    print(f"{units:.0f} units of CPU, of a budget of {BUDGET}")
    sys.exit(units > 1.5 * BUDGET)


if __name__ == "__main__":
    if sys.argv[1:] == ["work"]:
        start = time.process_time()
        work()
        print(time.process_time() - start)
    else:
        check()
