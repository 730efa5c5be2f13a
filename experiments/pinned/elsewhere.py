"""Runs that end between two blocks and resume, on eight devices, in two processes."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

import jaxrob
from jaxrob import adversarial, networks, roma, training
from jaxrob.strategies import ASAP, FewImages
from pinned import world
from pinned.kept import kept
from pinned.world import assessed, evaluated, few, searched

_BOTH = world.BLUR, world.NOISE


class _Host:
    """A network on the host that fails once, after a number of calls."""

    def __init__(self, function: Callable[[np.ndarray], np.ndarray], fails_at: int):
        self.function, self.fails_at, self.images = function, fails_at, []

    def __call__(self, images: np.ndarray) -> np.ndarray:
        if len(self.images) == self.fails_at:
            self.fails_at = -1
            raise RuntimeError("the machine is taken away")
        self.images.append(len(images))
        return self.function(images)


def _right_below(images: np.ndarray) -> np.ndarray:
    limit, level, label = (images[:, 0, 0, i] for i in range(3))
    answer = np.where(2 * limit > level, label, 1 - label)
    return 8 * np.stack([answer < 0.5, answer >= 0.5], axis=1).astype(np.float32)


def _resumed(
    function: Callable[[np.ndarray], np.ndarray], fails_at: int, ask: Callable[..., Any]
) -> Callable[[], Any]:
    """A case: undisturbed, then with a failure and a resume; and each run's calls."""

    def case() -> Any:
        found = {}
        for name, number, journal in (
            ("undisturbed", -1, None),
            ("interrupted", fails_at, "journal"),
        ):
            host = _Host(function, number)
            network = jaxrob.Classifier.from_host(
                host, 3 if function is world.on_host else 2, name="host", version="1",
                batch_size=20,
            )  # fmt: skip
            given = {"classifier": network, "journal": journal}
            said, before = None, 0
            try:
                result = ask(**given)
            except Exception as error:
                said, before = f"{type(error).__name__}: {error}", len(host.images)
                result = ask(**given)
            asked = [host.images[:before], host.images[before:]]
            found[name] = {"result": result, "error": said, "asked": asked}
        return found

    return case


def _while_reading() -> Any:
    """The data end with an error midway; the network is compiled."""
    found = {}
    for name, strategy in (("all", ASAP(32)), ("few", FewImages(half_width=0.1))):
        batches = world.Batches()
        data = world.in_batches(batches)
        said = []
        for last in (2, None):
            batches.last = last
            try:
                found[name] = assessed(
                    dataset=data, strategy=strategy, journal=f"{name}.journal",
                    batch_size=10, key=None,
                )  # fmt: skip
            except Exception as error:
                said.append(f"{type(error).__name__}: {error}")
            else:
                said.append("ended")
        found[f"{name} said"] = said
    return found


def _cut_journals() -> Any:
    """A journal that is cut anywhere, and one of another run."""

    def run(number: int) -> Any:
        some = (world.BLUR, world.FADING)
        return assessed(some, batch_size=20, journal=f"{number}")

    found: dict[str, Any] = {"whole": run(0)}
    content = pathlib.Path("0").read_bytes()
    for number, share in enumerate((0.2, 0.5, 0.8, 0.999), 1):
        path = pathlib.Path(f"{number}")
        path.write_bytes(content[: int(share * len(content))])
        found[f"{share}"] = run(number)
        found[f"{share} is whole again"] = path.read_bytes() == content
    other = content.replace(b"answers", b"answerz")
    for name, text in (("no journal", b"text\n"), ("damaged", other)):
        pathlib.Path("9").write_bytes(text)
        try:
            run(9)
        except ValueError as error:
            found[name] = f"{error}"
    return found


def _measured(mesh: Mesh | None, journal: str) -> Any:
    """The results of the calls that shard over devices, by name."""
    given = {"key": world.KEY, "mesh": mesh}
    found: dict[str, Any] = {}
    for name, data in (("whole", world.DATASET), ("batches", world.in_batches())):
        found[name] = evaluated(
            world.NOISE, [0.0, 0.1, 0.3], dataset=data, batch_size=20, **given
        )
    found["counts"] = evaluated(
        world.NOISE, [0.3], classifier=world.STOCHASTIC, reduced=True, **given
    )
    for run in ("first", "resumed"):
        found[run] = assessed(_BOTH, journal=journal, strategy=ASAP(16), mesh=mesh)
    found["few"] = searched(strategy=few(half_width=0.1), mesh=mesh)
    found["sequential"] = jaxrob.compare_sequentially(
        world.right_below(), world.right_below(0.6), world.limited(), world.DIM, 0.7,
        strategy=FewImages(ASAP(64), half_width=0.1), **given,
    )  # fmt: skip
    found["roma"] = roma.assess(
        world.classifier(), world.GREY[:9], epsilon=0.15, num_samples=100,
        estimator="auto", budget=2000, **given,
    )  # fmt: skip
    some = world.classifier(), world.GREY[:9], world.LABELS[:9]
    found["pgd"] = adversarial.pgd(*some, epsilon=0.1, steps=3, mesh=mesh)
    found["trained"] = training.fit(
        networks.MLP((4,), 3), world.DATASET, epochs=2, batch_size=12, **given
    )
    return found


def _started(num_processes: int, num_devices: int) -> list[Any]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    optimised = not jax.config.read("jax_disable_most_optimizations")
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": f"{num_devices}",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": f"{int(not optimised)}",
        # This checkout, whichever is installed.
        "PYTHONPATH": os.pathsep.join(map(str, pathlib.Path(__file__).parents[1:3])),
    }
    if jax.config.jax_compilation_cache_dir is not None:
        environment["JAX_COMPILATION_CACHE_DIR"] = jax.config.jax_compilation_cache_dir
    command = [sys.executable, "-m", "pinned.process", f"{num_processes}", f"{port}"]
    # Gloo prints messages of its connections.
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen([*command, f"{number}"], env=environment, **streams)
        for number in range(num_processes)
    ]
    try:
        for one in processes:
            _, said = one.communicate(timeout=500)
            if one.returncode:
                raise RuntimeError(f"a process ended with {one.returncode}: {said}")
    finally:
        for one in processes:
            one.kill()
    paths = (pathlib.Path(f"found-{number}.json") for number in range(num_processes))
    return [json.loads(path.read_text()) for path in paths]


def in_process(process: int) -> None:
    """Keeps results on all devices of all processes, in `found-PROCESS.json`."""
    mesh = Mesh(np.array(jax.devices()).reshape(2, -1), ("a", "b"))
    # Only the first process touches the file: the others have a path that fails.
    journal = "journal" if process == 0 else "nowhere/journal"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = kept(_measured(mesh, journal))
    messages = [
        f"{one.message}" for one in said if issubclass(one.category, UserWarning)
    ]
    document = {"value": found, "warnings": messages}
    pathlib.Path(f"found-{process}.json").write_text(json.dumps(document))


CASES = {
    "interrupted.evaluation": _resumed(
        world.on_host, 5,
        lambda **given: evaluated(
            world.NOISE, [0.0, 0.1, 0.3], key=world.KEY, batch_size=20, **given
        ),
    ),
    "interrupted.assessment": _resumed(
        world.on_host, 11,
        lambda **given: assessed(_BOTH, strategy=ASAP(32), batch_size=20, **given),
    ),
    # At the third look, of two alterations in one queue.
    "interrupted.few_images": _resumed(
        _right_below, 9,
        lambda **given: searched(
            (world.DIM, world.LIFT), batch_size=300, strategy=few(half_width=0.08),
            **given,
        ),
    ),
    "interrupted.budget": _resumed(
        _right_below, 9,
        lambda **given: searched(
            strategy=few(budget=2500, curtail=True), batch_size=300, **given
        ),
    ),
    "interrupted.probability": _resumed(
        world.on_host, 30,
        lambda **given: roma.assess(
            images=world.GREY, epsilon=0.3, num_samples=100, estimator="count",
            key=world.KEY, **given,
        ),
    ),
    "interrupted.while_reading": _while_reading,
    "interrupted.cut_journals": _cut_journals,
    "on_devices.one_device": lambda: _measured(None, "journal"),
    "on_devices.eight_devices": lambda: _started(1, 8)[0],
    "on_devices.two_processes": lambda: _started(2, 2),
}  # fmt: skip
