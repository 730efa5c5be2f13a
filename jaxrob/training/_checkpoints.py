"""Checkpoints of a training, by orbax."""

import os
import pathlib
from typing import Any, NamedTuple

import jax

from jaxrob.training._step import TrainingState


class Checkpoints(NamedTuple):
    """A folder of checkpoints.

    Attributes:
      path: the folder.
      manager: orbax's `CheckpointManager` of the folder.
      settings: those of the training, as values that JSON can hold. Only a training of
        the same settings goes on from a checkpoint.
    """

    path: str | os.PathLike[str]
    manager: Any
    settings: dict[str, Any]


def open_checkpoints(path: str | os.PathLike[str], **settings: Any) -> Checkpoints:
    """Opens a folder of checkpoints of a training with these settings, or makes it."""
    # Orbax takes seconds to import, so only a training with checkpoints does.
    import orbax.checkpoint as ocp

    options = ocp.CheckpointManagerOptions(
        max_to_keep=1, enable_async_checkpointing=False
    )
    folder = pathlib.Path(path).absolute()
    return Checkpoints(path, ocp.CheckpointManager(folder, options=options), settings)


def save(checkpoints: Checkpoints, count: int, state: TrainingState) -> None:
    """Keeps the state after `count` steps in place of the last one kept."""
    import orbax.checkpoint as ocp

    # Orbax writes under another name, renames when all is written, and only then
    # removes the last checkpoint.
    items = ocp.args.Composite(
        trained=ocp.args.StandardSave(tuple(state)),
        settings=ocp.args.JsonSave(checkpoints.settings),
    )
    checkpoints.manager.save(count, args=items)


def restore(
    checkpoints: Checkpoints, state: TrainingState
) -> tuple[TrainingState, int]:
    """The last state kept, of the structure of `state`, and the steps behind it.

    Where none is kept, `state` itself and 0.

    Raises:
      ValueError: if it is of a training of other settings, or does not fit `state`.
    """
    import orbax.checkpoint as ocp

    path, manager, settings = checkpoints
    count = manager.latest_step()
    if count is None:
        return state, 0
    items = ocp.args.Composite(settings=ocp.args.JsonRestore())
    found = manager.restore(count, args=items)["settings"]
    for name, value in settings.items():
        if found.get(name) != value:
            raise ValueError(
                f"checkpoint {path} is of a training with another {name}: "
                f"{found.get(name)}, not {value}"
            )
    like = jax.tree.map(ocp.utils.to_shape_dtype_struct, tuple(state))
    items = ocp.args.Composite(trained=ocp.args.StandardRestore(like))
    try:
        return TrainingState(*manager.restore(count, args=items)["trained"]), count
    except ValueError as error:
        raise ValueError(
            f"checkpoint {path} does not fit the module and the optimiser: {error}"
        ) from error
