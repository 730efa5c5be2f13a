"""Checkpoints of a training, by orbax."""

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

from jaxrob._identity.digest import digest, host_array
from jaxrob.training._step import TrainingState

_DIGEST = "digest"


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
    """Opens a folder of checkpoints of a training with these settings, or makes it.

    Raises:
      ValueError: if something else is there, or the folder cannot be read.
    """
    # Orbax takes seconds to import, so only a training with checkpoints does.
    import orbax.checkpoint as ocp

    options = ocp.CheckpointManagerOptions(
        max_to_keep=1, enable_async_checkpointing=False
    )
    folder = pathlib.Path(path).absolute()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"checkpoint {path} is no folder")
    with _named(path):
        manager = ocp.CheckpointManager(folder, options=options)
    return Checkpoints(path, manager, settings)


def save(checkpoints: Checkpoints, count: int, state: TrainingState) -> None:
    """Keeps the state after `count` steps in place of the last one kept."""
    import orbax.checkpoint as ocp

    # Orbax writes under another name, renames when all is written, and only then
    # removes the last checkpoint.
    items = ocp.args.Composite(
        trained=ocp.args.StandardSave(tuple(state)),
        settings=ocp.args.JsonSave(
            checkpoints.settings | {_DIGEST: _digest(count, state)}
        ),
    )
    checkpoints.manager.save(count, args=items)


def restore(
    checkpoints: Checkpoints, state: TrainingState
) -> tuple[TrainingState, int]:
    """The last state kept, of the structure of `state`, and the steps behind it.

    Where none is kept, `state` itself and 0.

    Raises:
      ValueError: if it is of a training of other settings, does not fit `state`, or is
        not what was kept; the message names the folder.
    """
    import orbax.checkpoint as ocp

    path, manager, settings = checkpoints
    with _named(path):
        count = manager.latest_step()
    if count is None:
        return state, 0
    items = ocp.args.Composite(settings=ocp.args.JsonRestore())
    with _named(path):
        found = dict(manager.restore(count, args=items)["settings"])
    for name, value in settings.items():
        if found.get(name) != value:
            raise ValueError(
                f"checkpoint {path} is of a training with another {name}: "
                f"{found.get(name)}, not {value}"
            )
    like = jax.tree.map(ocp.utils.to_shape_dtype_struct, tuple(state))
    items = ocp.args.Composite(trained=ocp.args.StandardRestore(like))
    with _named(path):
        restored = TrainingState(*manager.restore(count, args=items)["trained"])
    # Orbax finds most damage, but not that of the numbers themselves.
    if found.get(_DIGEST) != _digest(count, restored):
        raise ValueError(
            f"checkpoint {path} is damaged: its numbers are not those that were kept "
            f"after {count} steps; move it away to start anew"
        )
    return restored, count


def _digest(count: int, state: TrainingState) -> str:
    leaves = jax.tree_util.tree_leaves_with_path(tuple(state))
    parts = [
        part
        for path, leaf in leaves
        for part in (jax.tree_util.keystr(path), host_array(leaf))
    ]
    return digest([str(count), *parts])


@contextlib.contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors inside become one that names the folder."""
    try:
        yield
    # Damaged files lead orbax to errors of all kinds: KeyError, TypeError, those of
    # JSON, and a plain Exception of its storage.
    except Exception as error:
        raise ValueError(
            f"checkpoint {path} is damaged, or does not fit the module and the "
            f"optimiser: {type(error).__name__}: {error}"
        ) from error
