"""Runs that end between two blocks, and resume from their journal."""

from collections.abc import Callable
from typing import Any

import numpy as np

import jaxrob
from jaxrob import roma, strategies
from pinned import limits, world


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
    function: Callable[[np.ndarray], np.ndarray],
    num_classes: int,
    fails_at: int,
    ask: Callable[[jaxrob.Classifier, str | None], Any],
) -> Any:
    """Runs undisturbed, then with a failure and a resume; returns each run's calls."""
    found = {}
    for name, number, journal in (
        ("undisturbed", -1, None),
        ("interrupted", fails_at, "journal"),
    ):
        host = _Host(function, number)
        network = jaxrob.Classifier.from_host(
            host, num_classes, name="host", version="1", batch_size=20
        )
        said, before = None, 0
        try:
            result = ask(network, journal)
        except Exception as error:
            said, before = f"{type(error).__name__}: {error}", len(host.images)
            result = ask(network, journal)
        found[name] = {
            "result": result,
            "error": said,
            "asked": [host.images[:before], host.images[before:]],
        }
    return found


def evaluation() -> Any:
    return _resumed(
        world.on_host,
        3,
        5,
        lambda network, journal: jaxrob.evaluate(
            network, world.dataset(), world.noise(), [0.0, 0.1, 0.3], key=world.KEY,
            batch_size=20, journal=journal,
        ),
    )  # fmt: skip


def assessment() -> Any:
    return _resumed(
        world.on_host,
        3,
        11,
        lambda network, journal: jaxrob.assess(
            network, world.dataset(), (world.blur(), world.noise()), 0.7,
            strategy=strategies.ASAP(32), key=world.KEY, batch_size=20, journal=journal,
        ),
    )  # fmt: skip


def few_images() -> Any:
    """Interrupted at the third look, of two alterations in one queue."""
    return _resumed(
        _right_below,
        2,
        9,
        lambda network, journal: limits.assessed(
            (limits.dim, limits.lift), classifier=network, batch_size=300,
            strategy=limits.few(half_width=0.08), journal=journal,
        ),
    )  # fmt: skip


def budget() -> Any:
    return _resumed(
        _right_below,
        2,
        9,
        lambda network, journal: limits.assessed(
            classifier=network, strategy=limits.few(budget=2500, curtail=True),
            batch_size=300, journal=journal,
        ),
    )  # fmt: skip


def probability() -> Any:
    return _resumed(
        world.on_host,
        3,
        30,
        lambda network, journal: roma.assess(
            network, world.grey(), epsilon=0.3, num_samples=100, estimator="count",
            key=world.KEY, journal=journal,
        ),
    )  # fmt: skip


def while_reading() -> Any:
    """The data end with an error midway; the network is compiled."""
    found = {}
    for name, strategy in (
        ("all", strategies.ASAP(32)),
        ("few", strategies.FewImages(half_width=0.1)),
    ):
        batches = world.Batches()
        data: Any = jaxrob.Dataset.from_batches(batches, world.NAMES, "blocks")
        given = {"threshold": 0.7, "journal": f"{name}.journal", "batch_size": 10}
        given |= {"strategy": strategy}
        said = []
        for last in (2, None):
            batches.last = last
            try:
                result = jaxrob.assess(world.classifier(), data, world.blur(), **given)
            except Exception as error:
                said.append(f"{type(error).__name__}: {error}")
            else:
                said.append("ended")
                found[name] = result
        found[f"{name} said"] = said
    return found


def cut_journals() -> Any:
    """A journal that is cut anywhere, and one of another run."""

    def run(number: int, **settings: Any) -> Any:
        return jaxrob.assess(
            world.classifier(), world.dataset(), (world.blur(), world.fading()), 0.7,
            strategy=strategies.Uniform(5), batch_size=20, journal=f"{number}",
            key=world.KEY, **settings,
        )  # fmt: skip

    found: dict[str, Any] = {"whole": run(0)}
    with open("0", "rb") as file:
        content = file.read()
    for number, share in enumerate((0.2, 0.5, 0.8, 0.999), 1):
        with open(f"{number}", "wb") as file:
            file.write(content[: int(share * len(content))])
        found[f"{share}"] = run(number)
        with open(f"{number}", "rb") as file:
            found[f"{share} is whole again"] = file.read() == content
    other = content.replace(b"answers", b"answerz")
    for name, text in (("no journal", b"text\n"), ("damaged", other)):
        with open("9", "wb") as file:
            file.write(text)
        try:
            run(9)
        except ValueError as error:
            found[name] = f"{error}"
    return found
