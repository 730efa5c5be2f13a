"""The state on the devices that all queues of one run share."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxrob._arguments.texts import error_text
from jaxrob._classifier import (
    Classifier,
    Structure,
    TraceInfo,
    structure,
    trace_info,
    unnamed,
)
from jaxrob._devices.hosts import check_same, is_first, put_whole
from jaxrob._devices.memory import Kept, bytes_to_keep
from jaxrob._devices.mesh import ImageMesh, on_each_device
from jaxrob._engine.answerer import Answerer, answerer_for
from jaxrob._engine.answers import Kind, OfClasses, OfScores
from jaxrob._engine.bar import Bar
from jaxrob._engine.cached_answers import CachedAnswers
from jaxrob._engine.provenance import arguments_digest
from jaxrob._engine.scores import ScoreRule
from jaxrob._engine.sizes import rows_for
from jaxrob._identity.digest import digest
from jaxrob._identity.identity import text
from jaxrob._keys import classifier_keys


@dataclasses.dataclass(frozen=True, eq=False)
class Execution:
    """A classifier on the devices, and how levels are evaluated."""

    classifier: Classifier  # replicated, or split as it was given, without its names
    key: jax.Array  # the random key, replicated
    mesh: ImageMesh  # the devices over which images are sharded
    bar: Bar  # the progress bar
    info: TraceInfo  # facts about the classifier, from a trace
    answerer: Answerer  # answers on blocks of images
    kind: Kind  # what the answers are
    image_shape: tuple[int, ...]  # the shape of one image
    rows: int  # the most images that fit in a step
    batch_size: int | None  # images in a block; None: as many as fit in memory
    reduced: bool = False  # whether only counts by class are kept
    # Finds journaled answers and adds new ones; None without a journal
    cached: CachedAnswers | None = None
    # Names of the checks for mistakes already made in this call
    checked: set[str] = dataclasses.field(default_factory=set)
    # Images that stay on the devices for the next levels
    kept: Kept = dataclasses.field(default_factory=lambda: Kept(0))


def set_up(
    classifier: Classifier,
    image_shape: tuple[int, ...],
    key: jax.Array | None,
    mesh: ImageMesh,
    bar: Bar,
    batch_size: int | None = None,
    rule: ScoreRule | None = None,
) -> Execution:
    """Replicates a classifier and the key over the devices; a split network stays."""
    check_split_network(classifier, image_shape, mesh)
    key = _no_key() if key is None else key
    given = classifier, key
    check_same("classifier and key", lambda: arguments_digest(*given), mesh)
    placed, key_there = put_whole((unnamed(classifier), key), mesh)
    info = trace_info(classifier, image_shape)
    kind = OfClasses(placed, info.num_classes) if rule is None else OfScores(rule)
    return Execution(
        placed,
        key_there,
        mesh,
        bar,
        info,
        answerer_for(placed, key_there, mesh, rule),
        kind,
        image_shape,
        rows_for(classifier, image_shape, mesh),
        batch_size,
        kept=Kept(bytes_to_keep(mesh)),
    )


def check_same_request(execution: Execution, *asked: Any) -> None:
    """Rejects requests that differ between processes."""
    what = "levels and number of images"
    check_same(what, lambda: digest([text(asked)]), execution.mesh)


def progress_bar(name: str, progress: bool, unit: str = "image", total: int = 0) -> Bar:
    """Returns a progress bar. The total grows if queues ask for more."""
    shown = progress and is_first()
    return Bar(desc=name, unit=unit, unit_scale=True, disable=not shown, total=total)


@functools.cache
def _no_key() -> jax.Array:
    """Returns the key that stands in where nothing is random."""
    return jax.random.key(0)


def check_split_network(
    classifier: Classifier, image_shape: tuple[int, ...], mesh: ImageMesh
) -> None:
    """Rejects a split network that cannot run where images are split too."""
    # Such a network asks for shardings along the images' axes, or for those that JAX
    # allows only on axes of the type Explicit. It is lowered, not compiled or run.
    if not mesh.splits_network:
        return
    obstacle = _obstacle(structure(classifier), tuple(image_shape), mesh)
    if obstacle is None:
        return
    others = [name for name in mesh.mesh.axis_names if name not in mesh.axes]
    own, axes = ", ".join(map(repr, others)), ", ".join(map(repr, mesh.axes))
    where = f"images are split along {axes}" if axes else "no axis splits images"
    raise ValueError(
        f"classifier must run with its variables sharded along {own}, where {where}; "
        f"got: {obstacle.rstrip('.')}. In the network, leave shardings to XLA, or "
        f"constrain arrays by jax.lax.with_sharding_constraint along {own} alone"
    )


# One entry for each structure of a network, shape of images and mesh.
@functools.lru_cache(maxsize=256)
def _obstacle(
    of: Structure, image_shape: tuple[int, ...], mesh: ImageMesh
) -> str | None:
    """Returns JAX's message if the split network fails, or None."""

    def outputs(classifier: Classifier, images: jax.Array, key: jax.Array) -> jax.Array:
        index = jnp.arange(len(images), dtype=jnp.uint32)
        keys = classifier_keys(key, index) if classifier.stochastic else None
        return classifier.raw_outputs(images, keys)

    split = on_each_device(outputs, mesh, (False, True, False), joined_along=1)
    classifier = jax.tree.unflatten(of.tree, of.leaves)
    images = jax.ShapeDtypeStruct((mesh.size, *image_shape), jnp.float32)
    key = jax.eval_shape(jax.random.key, 0)
    try:
        with jax.set_mesh(mesh.mesh):
            # Some errors come from the lowering, not from the trace.
            jax.jit(split).lower(classifier, images, key)
    except Exception as error:  # The user's code may raise anything.
        return error_text(error)
    return None
