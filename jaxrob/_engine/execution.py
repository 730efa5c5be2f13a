"""What all steps of a run share: state on the devices, sizes, the progress bar."""

import collections
import dataclasses
import functools
import math
import sys
import threading
import time
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from tqdm.auto import tqdm

from jaxrob._arguments.texts import error_text
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import on_host
from jaxrob._classifiers.trace import (
    Structure,
    TraceInfo,
    structure,
    trace_info,
    unnamed,
)
from jaxrob._devices.blocks import Kept, bucket, bytes_to_keep, rows_that_fit
from jaxrob._devices.mesh import (
    ImageMesh,
    check_same,
    is_first,
    on_each_device,
    platform,
    put_whole,
)
from jaxrob._engine.answers import Kind, OfClasses, OfScores
from jaxrob._engine.journal import CachedAnswers
from jaxrob._engine.provenance import arguments_digest
from jaxrob._engine.scores import ScoreRule
from jaxrob._engine.step import Answerer, answerer_for, levels_are_sequential
from jaxrob._identity.identity import digest, text
from jaxrob._keys import classifier_keys

# Shorter runs need no word.
_LEAST_SECONDS = 10.0


# Measured so long, a pace is known.
_ENOUGH_SECONDS = 0.5
# The bar's clock goes on at least so often.
_TICK_SECONDS = 2.0


class Bar(tqdm):
    """A progress bar that says how long the rest takes; its total may still grow."""

    _asked = 0
    _first: tuple[float, float] | None = None
    _is_said = False
    _compiles = False

    def __init__(self, **about: Any) -> None:
        super().__init__(**about)
        self._ended = threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)
        if not self.disable:
            self._clock.start()

    def _tick(self) -> None:
        """Draws the bar again: a program may take many seconds to compile."""
        while not self._ended.wait(_TICK_SECONDS):
            self.refresh()

    def compile(self, which: str = "") -> None:
        """Says that a program is compiled, until the next answers are counted."""
        self._compiles = True
        if not self.disable:
            self.set_postfix_str(f"compiling {which}".strip())

    def update(self, n: float | None = 1) -> bool | None:
        """Counts computed answers, or what costs as much."""
        if self._compiles and not self.disable:
            self._compiles = False
            self.set_postfix_str("", refresh=False)
        shown = super().update(n)
        if self.disable or self._is_said:
            return shown
        now = time.perf_counter()
        if self._first is None:
            # The first step compiles, so the pace is that of those after it.
            self._first = now, self.n
            return shown
        since, number = now - self._first[0], self.n - self._first[1]
        left = (self.total or 0) - self.n
        if since >= _ENOUGH_SECONDS and left * since >= _LEAST_SECONDS * number:
            self._is_said = True
            line = f"jaxrob: {left:,} {self.unit}s are left, about "
            with tqdm.external_write_mode(file=sys.stderr):
                print(line + _duration(left * since / number), file=sys.stderr)
        return shown

    def ask(self, number: int) -> None:
        """Takes notice of answers that are asked for: the total is at least these."""
        self._asked += number
        self.total = max(self.total or 0, self._asked)
        self.refresh()

    def skip(self, number: int) -> None:
        super().update(number)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Closes the bar, which is full if there was no error."""
        if error is None and self.total:
            self.total = self.n
        self._ended.set()
        if self._clock.is_alive():
            self._clock.join()
        self.close()


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
    # Names of the checks for mistakes already made in this call, and what is compiled
    checked: set[Any] = dataclasses.field(default_factory=set)
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
    digest_of = functools.partial(arguments_digest, classifier, key)
    check_same("classifier and key", digest_of, mesh)
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
    what = "levels and number of images"
    check_same(what, lambda: digest([text(asked)]), execution.mesh)


def progress_bar(name: str, progress: bool, unit: str = "image", total: int = 0) -> Bar:
    shown = progress and is_first()
    bar = Bar(desc=name, unit=unit, unit_scale=True, disable=not shown, total=total)
    bar.compile()
    return bar


@functools.lru_cache(maxsize=512)
def noted(*about: Hashable) -> collections.deque[Any]:
    """Returns the last that was found out about such classifiers, if anything."""
    del about
    return collections.deque(maxlen=1)


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


# The most levels in a step on CPUs and most TPUs, where levels are sequential. A CPU's
# has fewer beyond so many operations: a second, after which answers are journaled.
_MAX_SEQUENTIAL_LEVELS = 16
_MAX_OPERATIONS_CPU = 2**36
# The levels of a step elsewhere, where all are batched: the most of which at least this
# share is not padding, if a device gets at least so many images.
_BATCHED_LEVELS = (16, 4, 1)
_LEAST_FILLED = 0.9
_LEAST_IMAGES = 128
# The first block arrives before anything is computed, so it has at most these bytes,
# unless its step had fewer operations, about 10 ms of them: dispatching takes 2 ms.
_UPLOADED_BYTES = 2**24
_LEAST_OPERATIONS = 2**40


def rows_for(
    classifier: Classifier, image_shape: tuple[int, ...], mesh: ImageMesh
) -> int:
    largest_array = trace_info(classifier, image_shape).largest_array
    rows = rows_that_fit(largest_array, image_shape, mesh)
    return whole_batches(classifier, rows // mesh.size) * mesh.size


def rows_of_a_level(
    rows: int,
    info: TraceInfo,
    image_shape: tuple[int, ...],
    levels: Sequence[int],
    mesh: ImageMesh,
) -> int:
    """Returns the most images of a block, of which a step has several levels."""
    # Where levels are batched, few images at many levels are as fast as many at one,
    # and are uploaded while the devices compute those before (H100: 0.8 ms beside 3).
    if levels_are_sequential(image_shape, mesh):
        return rows

    def filled(each: int) -> float:
        steps = sum(math.ceil(number / each) for number in levels)
        return sum(levels) / (steps * each)

    each = next(n for n in _BATCHED_LEVELS if filled(n) >= _LEAST_FILLED)
    on_each = rows // mesh.size // each
    if on_each < _LEAST_IMAGES:
        on_each = rows // mesh.size
    busy = int(_LEAST_OPERATIONS / max(1, info.operations * each))
    uploaded = _UPLOADED_BYTES // math.prod(image_shape)
    return min(on_each, max(busy, uploaded, 1)) * mesh.size


def whole_batches(classifier: Classifier, rows: int) -> int:
    """Rounds rows down to full batches of a network on the host, but at least one."""
    batch_size = batch_size_of(classifier)
    return max(batch_size, rows // batch_size * batch_size)


def batch_size_of(classifier: Classifier) -> int:
    network = on_host(classifier.apply_fn)
    return network.function.batch_size or 1 if network is not None else 1


def images_in_block(
    classifier: Classifier,
    rows: int,
    length: int | None,
    batch_size: int | None,
    mesh: ImageMesh,
) -> int:
    if batch_size is not None:
        images = batch_size
    elif length is None:
        images = rows
    else:
        # Blocks of equal size keep the padding of the last one small.
        images = math.ceil(length / math.ceil(length / rows))
        images = math.ceil(images / batch_size_of(classifier))
        images *= batch_size_of(classifier)
    return math.ceil(images / mesh.size) * mesh.size


def levels_in_step(
    info: TraceInfo,
    image_shape: tuple[int, ...],
    rows: int,
    images: int,
    num_levels: int,
    mesh: ImageMesh,
) -> int:
    if levels_are_sequential(image_shape, mesh):
        if platform(mesh) == "tpu":
            return _MAX_SEQUENTIAL_LEVELS
        most = int(_MAX_OPERATIONS_CPU / max(1, info.operations * images))
        return min(max(1, most), _MAX_SEQUENTIAL_LEVELS)
    # Each size is compiled, so there are only a few, none far above `num_levels`.
    fitting = bucket(rows // images + 1, 4) // 4
    return max(1, min(fitting, bucket(num_levels, 4)))


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
