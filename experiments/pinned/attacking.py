"""Adversarial attacks and adversariability."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxrob import adversarial
from pinned import world

NUM = 10


def fgsm() -> Any:
    return {norm: _attacked("fgsm", norm=norm, epsilon=0.3) for norm in ("linf", "l2")}


def pgd() -> Any:
    return {
        "plain": _attacked("pgd", epsilon=0.1, steps=5),
        "l2": _attacked("pgd", epsilon=0.8, norm="l2", steps=5, step_size=0.2),
        "random start": _attacked("pgd", epsilon=0.1, steps=3, key=world.KEY),
    }


def lbfgs() -> Any:
    return {
        "runner-up": _attacked("lbfgs"),
        "surer": _attacked("lbfgs", target_confidence=0.9, batch_size=4),
        "given": _attacked("lbfgs", targets=(world.labels()[:NUM] + 1) % 3),
    }


def of_pictures() -> Any:
    """Bytes in colour, and the best of several attacks."""
    some = world.pictures()[:6]
    given = world.small_cnn(), some.images, some.labels
    found = [
        adversarial.fgsm(*given, epsilon=0.2),
        adversarial.pgd(*given, epsilon=0.1, steps=4),
    ]
    return {"each": found, "best": adversarial.most_adversarial(found)}


def adversariability() -> Any:
    given = world.classifier(), world.grey()[:NUM], world.labels()[:NUM]
    fast = functools.partial(adversarial.fgsm, epsilon=0.3)
    slow = functools.partial(adversarial.pgd, epsilon=0.2, steps=4)
    return {
        "default": adversarial.adversariability(*given),
        "several": adversarial.adversariability(*given, attack=[fast, slow]),
    }


def similarity() -> Any:
    pair = jnp.float32(world.coloured()[:3]) / 255, jnp.float32(world.coloured()[3:6])
    return {
        "global": adversarial.structural_similarity(pair[0], pair[1] / 255),
        "windowed": adversarial.windowed_similarity(pair[0], pair[1] / 255),
        "same": adversarial.structural_similarity(pair[0], pair[0]),
    }


def read_again() -> Any:
    found = _attacked("fgsm", epsilon=0.3)
    read = adversarial.Attack.from_json(found.to_json())
    return {"read": read, "same": np.array_equal(read.success, found.success)}


def _attacked(name: str, **settings: Any) -> Any:
    attack = getattr(adversarial, name)
    images, labels = world.grey()[:NUM], world.labels()[:NUM]
    return attack(world.classifier(), images, labels, **settings)
