"""`assess` and `compare_sequentially` from few images."""

from typing import Any

import jax

import jaxrob
from jaxrob import strategies
from pinned import world
from pinned.limits import NUM_IMAGES, assessed, classifier, dataset, dim, few, lift


def half_width() -> Any:
    return {at: assessed(strategy=few(half_width=at)) for at in (0.1, 0.03, 0)}


def budget() -> Any:
    return {most: assessed(strategy=few(budget=most)) for most in (1200, 3000)}


def both() -> Any:
    return assessed(strategy=few(half_width=0.02, budget=2500))


def curtail() -> Any:
    return {
        "alone": assessed(strategy=few(curtail=True)),
        "with half width": assessed(strategy=few(curtail=True, half_width=0.05)),
    }


def required() -> Any:
    return {
        at: assessed(strategy=few(required=at, half_width=0.02), confidence_level=0.99)
        for at in (0.2, 0.39, 0.8)
    }


def uniform() -> Any:
    return assessed(strategy=strategies.FewImages(strategies.Uniform(17), 0.08))


def measures() -> Any:
    return {
        measure: assessed(measure=measure, alpha=0.3, strategy=few(half_width=0.1))
        for measure in ("accuracy", "recall", "effectiveness", "decided_ratio")
    }


def several() -> Any:
    """Several alterations share the looks, and the budget."""
    both = (dim, lift)
    return {
        "half_width": assessed(both, strategy=few(half_width=0.05)),
        "budget": assessed(both, strategy=few(budget=4000)),
        "required": assessed(
            both, strategy=few(half_width=0.03, required=0.5, curtail=True)
        ),
    }


def of_batches() -> Any:
    class Batches:
        def __iter__(self) -> Any:
            for start in range(0, NUM_IMAGES, 250):
                part = dataset()[start : start + 250]
                yield part.images, part.labels

    data = jaxrob.Dataset.from_batches(Batches(), channels_first=False)
    return assessed(data=data, strategy=few(half_width=0.05))


def random_noise() -> Any:
    return jaxrob.assess(
        world.classifier(), world.dataset(), world.noise(), 0.7,
        strategy=strategies.FewImages(half_width=0.1), key=world.KEY, batch_size=16,
    )  # fmt: skip


def other_orders() -> Any:
    return {
        seed: assessed(
            key=jax.random.key(seed), strategy=few(half_width=0.05), batch_size=64
        )
        for seed in (1, 2)
    }


def two_networks() -> Any:
    """Which of two networks is more robust: close, far apart, and the same."""
    return {
        share: jaxrob.compare_sequentially(
            classifier(), classifier(share), dataset(), dim, 0.7,
            strategy=strategies.FewImages(half_width=0.04), key=world.KEY,
        )
        for share in (0.6, 0.97, 1.0)
    }  # fmt: skip


def two_networks_uniform() -> Any:
    return jaxrob.compare_sequentially(
        classifier(), classifier(0.9), dataset(), dim, 0.6, "effectiveness",
        strategy=strategies.FewImages(strategies.Uniform(9), half_width=0.1), alpha=0.4,
        key=world.KEY,
    )  # fmt: skip
