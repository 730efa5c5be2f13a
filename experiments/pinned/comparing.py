"""`compare`, on all images."""

from typing import Any

import numpy as np

import jaxrob
from jaxrob import strategies
from pinned import world


def pairs() -> Any:
    """Another network, the same one, and a nearly equal one, at two levels."""
    first = _of(world.classifier())
    near = world.variables()
    near["weights"] = near["weights"] + np.float32(0.2) * world.variables(5)["weights"]
    others = {
        "other": _of(world.classifier(9)),
        "same": first,
        "near": _of(jaxrob.Classifier(world.linear, near)),
    }
    return {
        f"{name} {level}": jaxrob.compare(first, second, level)
        for name, second in others.items()
        for level in (0.8, 0.95)
    }


def other_levels() -> Any:
    """Two assessments at different levels."""
    first = _of(world.classifier(), strategy=strategies.ASAP(32))
    second = _of(world.classifier(9), strategy=strategies.Uniform(9))
    return [jaxrob.compare(first, second), jaxrob.compare(second, first)]


def measures() -> Any:
    return {
        measure: jaxrob.compare(
            _of(world.classifier(), measure=measure, alpha=alpha),
            _of(world.classifier(9), measure=measure, alpha=alpha),
        )
        for measure, alpha in (("f1", None), ("recall", None), ("effectiveness", 0.5))
    }


def refused() -> Any:
    """Pairs that cannot be compared, with their errors."""
    first = _of(world.classifier())
    others = {
        "threshold": _of(world.classifier(9), threshold=0.5),
        "alteration": _of(world.classifier(9), alteration=world.fading()),
        "counts": _of(world.classifier(9), reduced=True),
        "scores": _of(world.classifier(9), tolerance=jaxrob.Tolerance("linear")),
        "few": _of(
            world.classifier(9),
            strategy=strategies.FewImages(strategies.Uniform(5), 0.2),
        ),
        "labels": _of(world.classifier(9), data=jaxrob.Dataset(world.grey())),
    }
    found = {}
    for name, second in others.items():
        try:
            found[name] = jaxrob.compare(first, second)
        except (TypeError, ValueError) as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def _of(
    classifier: jaxrob.Classifier,
    alteration: Any = None,
    data: Any = None,
    **given: Any,
) -> Any:
    given = {"threshold": 0.7, "strategy": strategies.Uniform(5)} | given
    return jaxrob.assess(
        classifier, data or world.dataset(), alteration or world.blur(), key=world.KEY,
        **given,
    )  # fmt: skip
