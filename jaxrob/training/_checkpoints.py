"""Training checkpoints by orbax."""

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
    """A folder of checkpoints."""

    path: str | os.PathLike[str]  # the folder
    manager: Any  # orbax's `CheckpointManager` of the folder
    # Those of the training, as JSON values. Only a training with the same settings can
    # resume a checkpoint.
    settings: dict[str, Any]


def open_checkpoints(path: str | os.PathLike[str], **settings: Any) -> Checkpoints:
    # Orbax takes seconds to import, so only a training with checkpoints imports it.
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
    import orbax.checkpoint as ocp

    # Orbax writes under a temporary name, renames the finished checkpoint, and only
    # then removes the previous one.
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
    """Restores the last state, with the structure of `state`, and its number of steps.

    Returns `state` itself and 0 if there is no checkpoint.
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
    # Orbax detects most damage, but not changed numbers.
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
    """Turns every exception inside into a ValueError that names the folder."""
    try:
        yield
    # Damaged files raise errors of all kinds in orbax: KeyError, TypeError, those of
    # JSON, and a plain Exception of its storage.
    except Exception as error:
        raise ValueError(
            f"checkpoint {path} is damaged, or does not fit the module and the "
            f"optimiser: {type(error).__name__}: {error}"
        ) from error
