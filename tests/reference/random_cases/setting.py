"""One case's network, data and arguments."""

import dataclasses
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from random_cases import draw


@dataclasses.dataclass
class Setting:
    """What a case asks about, and in words what it drew (`notes`)."""

    structure: draw.Structure
    classifier: Any
    dataset: Any
    truth: draw.Truth
    arguments: dict[str, Any]
    notes: list[str]

    def note(self, *words):
        self.notes.extend(str(word) for word in words)

    def random_alpha(self, rng):
        """None, or a confidence level; scores have no uncertainty."""
        if self.structure.outputs == "scores" or rng.random() < 0.5:
            return None
        return float(rng.choice([0.0, 0.2, 0.5, 0.8, round(rng.random(), 3)]))


def setting_of(number, rng, folder):
    """The setting of a case."""
    structure = draw.structure_of(number)
    weights, classifier = draw.random_network(rng, structure)
    key = jax.random.key(int(rng.integers(1000)))
    batch_size = structure.batch_size if rng.random() < 0.6 else None
    dataset, truth, what = draw.random_data(
        rng, structure, weights, key, batch_size, folder
    )
    arguments = {"key": key, "batch_size": batch_size, "mesh": random_mesh(number)}
    notes = [
        f"{structure.framework} {structure.outputs} S={structure.samples} "
        f"K={structure.num_classes} {structure.shape} filters {structure.filters} "
        f"hidden {structure.hidden}",
        what,
        f"batch_size {batch_size}",
    ]
    return Setting(structure, classifier, dataset, truth, arguments, notes)


def random_mesh(number):
    """All devices without a word, or some of them in one or two axes."""
    # Programs are compiled for a mesh: one for cases of the same structure.
    rng = np.random.default_rng([draw.SEED, 2, number // draw.CASES_ALIKE])
    devices = jax.devices()
    if rng.random() < 0.4:
        return None
    some = np.array(devices[: rng.integers(1, len(devices) + 1)])
    if len(some) % 2 == 0 and rng.random() < 0.5:
        return Mesh(some.reshape(2, -1), ("a", "b"))
    return Mesh(some, ("images",))
