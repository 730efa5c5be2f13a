"""Training, and each way of retraining, for a round or two."""

from typing import Any

import jax
import optax
from flax import linen, nnx

import jaxrob
from jaxrob import alterations, networks, retraining, training
from pinned import world

SETTINGS = {"key": world.KEY, "epochs": 2, "batch_size": 16}


def fitted() -> Any:
    """Linen and NNX, and the state after each epoch."""
    epochs = []
    return {
        "linen": training.fit(
            _module(), world.dataset(), **SETTINGS,
            on_epoch=lambda number, one: epochs.append([number, one]),
        ),
        "epochs": epochs,
        "adam": training.fit(
            _module(), world.dataset(), key=world.KEY, images_seen=100,
            batch_size=16, optimizer=optax.adam(0.01),
        ),
        "nnx": training.fit(_Plain(nnx.Rngs(0)), world.dataset(), **SETTINGS),
    }  # fmt: skip


class _Plain(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.layer = nnx.Linear(64, 3, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        return self.layer(images.reshape(len(images), -1))


class _Statistics(linen.Module):
    """A network with batch statistics and dropout."""

    @linen.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        x = linen.Dense(6)(x.reshape(len(x), -1))
        x = linen.BatchNorm(use_running_average=not train)(x)
        return linen.Dense(3)(linen.Dropout(0.3, deterministic=not train)(x))


def _stop(number: int, _: Any) -> None:
    if number == 1:
        raise RuntimeError("the machine is taken away")


def resumed() -> Any:
    """Training stopped after an epoch, and resumed from a checkpoint."""
    found = []
    for on_epoch, folder in ((None, None), (_stop, "here"), (None, "here")):
        settings = SETTINGS | {"epochs": 3, "on_epoch": on_epoch, "checkpoint": folder}
        try:
            found.append(training.fit(_Statistics(), world.dataset(), **settings))
        except RuntimeError as error:
            found.append(str(error))
    return found


def data_augmentation() -> Any:
    return {
        levels: retraining.data_augmentation(
            _module(), world.dataset(), _alterations(), levels=levels, **SETTINGS
        )
        for levels in ("random", "grid")
    }


def limited_data_augmentation() -> Any:
    return retraining.limited_data_augmentation(
        _module(), world.dataset(), _alterations(), threshold=0.9,
        classifier=world.classifier(), validation=world.dataset()[:30], **SETTINGS,
    )  # fmt: skip


def network_parallelization() -> Any:
    made = retraining.network_parallelization(
        _module(), world.dataset(), _alterations(), classifier=world.classifier(),
        **SETTINGS,
    )  # fmt: skip
    return {
        "made": made,
        "curve": jaxrob.evaluate(made, world.dataset(), world.blur(), [0.0, 2.0]),
    }


def limited_network_parallelization() -> Any:
    return retraining.limited_network_parallelization(
        _module(), world.dataset(), _alterations(), classifier=world.classifier(),
        robustness=[0.3, 0.9], levels="grid", **SETTINGS,
    )  # fmt: skip


def worst_level() -> Any:
    return retraining.worst_level(
        _module(), world.dataset(), _alterations(), candidates=2, **SETTINGS
    )


def what_is_weak() -> Any:
    some = _alterations()
    weak = retraining.weak_alterations(
        world.classifier(), world.dataset(), some, key=world.KEY, threshold=0.8,
        levels=5,
    )  # fmt: skip
    first, second = world.classifier(), world.classifier(9)
    together = retraining.parallel(first, second)
    return {
        "weak": [one.name for one in weak],
        "sizes": retraining.input_sizes(100, some, weak),
        "copies": [retraining.copies(one) for one in alterations.presets.cnn_2020()],
        "parallel": jaxrob.evaluate(together, world.dataset(), world.blur(), [0, 1]),
    }


def _module() -> linen.Module:
    return networks.MLP((4,), 3)


def _alterations() -> list[jaxrob.Alteration]:
    return [world.blur(), world.noise()]
