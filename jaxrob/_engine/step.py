"""A step: a block of images altered at a few levels and classified, or scored."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import OnHost, Preprocessing, on_host
from jaxrob._classifiers.trace import TraceInfo
from jaxrob._devices.blocks import Call, is_best_with_few_rows
from jaxrob._devices.mesh import ImageMesh, gathered, on_each_device, platform
from jaxrob._domain import AnyAlteration
from jaxrob._engine.answers import Answers, answer, no_answers
from jaxrob._engine.blocks import PlacedBlock
from jaxrob._engine.scores import Scored, ScoreRule, Unscored, score_block
from jaxrob._identity.program import operations
from jaxrob._keys import alteration_keys, classifier_keys
from jaxrob._numbers import as_floats
from jaxrob.alterations import Alteration


def _as_it_is(image: jax.Array, level: jax.Array) -> jax.Array:
    del level
    return image


def _chosen(first: jax.Array, place: jax.Array, *others: jax.Array) -> jax.Array:
    choices = [lambda *images, at=at: images[at] for at in range(1 + len(others))]
    return jax.lax.switch(place.astype(jnp.int32), choices, first, *others)


#: An alteration that leaves every image as it is.
UNALTERED = Alteration("unaltered", _as_it_is, 0.0, 1.0)
#: One of images that are altered already; the level is its place among them.
CHOSEN = Alteration("chosen", _chosen, 0.0, 1.0)
_NO_PREPROCESSING = Preprocessing()
# Operations of a network for one image; of a level of a block; of an alteration's
# first round, about a second; and answers of such a round: see `is_apart`.
_FEWEST_FOR_AN_IMAGE = 2**20
_MANY_FOR_A_LEVEL = 2**33
_FEW_FOR_A_ROUND = 2**36
_FEW_ANSWERS = 2**13


def is_apart(info: TraceInfo, images: int, number: float, mesh: ImageMesh) -> bool:
    """Whether a network and what alters its images are compiled as two programs."""
    # All alterations then share the network's, the longest to compile. But images go
    # through memory, 1 to 10 us each: long runs, and perceptrons, have one for both.
    operations = info.operations
    has_few = number <= _FEW_ANSWERS
    is_short = operations < _FEW_FOR_A_ROUND / max(number, 1)
    return platform(mesh) == "cpu" and (
        operations * images >= _MANY_FOR_A_LEVEL
        or (is_short and (has_few or operations >= _FEWEST_FOR_AN_IMAGE))
    )


@functools.partial(jax.jit, static_argnames=("alteration", "mesh"))
def prepare(
    images: jax.Array,
    index: jax.Array,
    key: jax.Array,
    *,
    alteration: AnyAlteration,
    mesh: ImageMesh,
) -> Any:
    def local(images: jax.Array, index: jax.Array, key: jax.Array) -> Any:
        images = as_floats(images)
        if not alteration.stochastic:
            return jax.vmap(alteration.prepared)(images)
        return jax.vmap(alteration.prepared)(images, alteration_keys(key, index))

    return on_each_device(local, mesh, split=(True, True, False))(images, index, key)


@functools.partial(jax.jit, static_argnames=("alteration", "mesh"))
def answer_at_levels(
    classifier: Classifier,
    prepared: Any,
    index: jax.Array,
    labels: jax.Array,
    key: jax.Array,
    levels: jax.Array,
    num_levels: jax.Array,
    scale: jax.Array,
    *,
    alteration: AnyAlteration,
    mesh: ImageMesh,
) -> Answers:
    # The devices do not communicate, except within a network that is split over them.

    def local(
        classifier: Classifier,
        prepared: Any,
        index: jax.Array,
        labels: jax.Array,
        key: jax.Array,
        levels: jax.Array,
        num_levels: jax.Array,
        scale: jax.Array,
    ) -> Answers:
        keys = classifier_keys(key, index) if classifier.stochastic else None

        # The vmap over images is inside: what depends on the level alone is computed
        # once per level.
        def images_at(level: jax.Array) -> jax.Array:
            return jax.vmap(lambda image: alteration.at_level(image, level))(prepared)

        def altered(level: jax.Array) -> jax.Array:
            images = images_at(level)
            if written_apart:
                images = jax.lax.optimization_barrier(images)
            return images * scale.astype(images.dtype)

        def at_level(level: jax.Array) -> Answers:
            return answer(classifier, altered(level), labels, keys)

        # A TPU writes products of matrices in the first convolution's layout, unless
        # their scale is multiplied in between (zoom: 5.8 ms for 8.8, v5e's compiler).
        written_apart = platform(mesh) == "tpu" and (
            operations(jax.make_jaxpr(images_at)(levels[0]).jaxpr) > 0
        )
        shape = len(levels), len(index)
        if platform(mesh) == "cpu" or levels_are_sequential(
            jax.eval_shape(altered, levels[0]).shape[1:], mesh
        ):

            def add(place: jax.Array, found: Answers) -> Answers:
                part = at_level(levels[place])
                return jax.tree.map(lambda x, y: x.at[place].set(y), found, part)

            return jax.lax.fori_loop(0, num_levels, add, no_answers(shape))
        if len(levels) == 1:
            # A vmap over one level would turn plain gathers into batched ones.
            return jax.tree.map(lambda part: part[None], at_level(levels[0]))
        images = jax.vmap(altered)(levels)
        images = images.reshape(-1, *images.shape[2:])
        if keys is not None:
            keys = jnp.tile(keys, len(levels))
        answers = answer(classifier, images, jnp.tile(labels, len(levels)), keys)
        return jax.tree.map(lambda part: part.reshape(shape), answers)

    split = (False, True, True, True, False, False, False, False)
    per_device = on_each_device(local, mesh, split, joined_along=1)
    return per_device(
        classifier, prepared, index, labels, key, levels, num_levels, scale
    )


def levels_are_sequential(image_shape: tuple[int, ...], mesh: ImageMesh) -> bool:
    """Whether a step takes its levels sequentially, not batched."""
    # One level keeps a CPU or most TPUs busy, and reuses the caches of that before: a
    # TPU's compiler estimates a third of the cycles of batched levels (MNIST CNN).
    return is_best_with_few_rows(image_shape, mesh)


def preparing(
    images: Any, index: Any, key: Any, alteration: AnyAlteration, mesh: ImageMesh
) -> Call:
    if alteration.prepare is None and not alteration.stochastic:
        alteration = UNALTERED  # So that all of these share a program.
    static = {"alteration": alteration, "mesh": mesh}
    return Call(prepare, (images, index, key), static, mesh)


@functools.partial(jax.jit, static_argnames=("alteration", "mesh"))
def outputs_at_level(
    classifier: Classifier,
    prepared: Any,
    index: jax.Array,
    key: jax.Array,
    level: jax.Array,
    *,
    alteration: AnyAlteration,
    mesh: ImageMesh,
) -> Any:
    # Of outputs="any" what the network returns, `[B, ...]`. The arguments are those of
    # `answer_at_levels`.
    is_any = classifier.outputs == "any"

    def local(
        classifier: Classifier,
        prepared: Any,
        index: jax.Array,
        key: jax.Array,
        level: jax.Array,
    ) -> Any:
        keys = classifier_keys(key, index) if classifier.stochastic else None
        images = jax.vmap(lambda image: alteration.at_level(image, level))(prepared)
        outputs = classifier.returned if is_any else classifier.raw_outputs
        return outputs(images, keys)

    split = (False, True, True, False, False)
    per_device = on_each_device(local, mesh, split, joined_along=0 if is_any else 1)
    return per_device(classifier, prepared, index, key, level)


class Ask(NamedTuple):
    """A block of images at a few levels of an alteration."""

    placed: PlacedBlock  # the block
    prepared: Any  # what `step.prepare` made of its images
    alteration: AnyAlteration  # the alteration
    levels: np.ndarray  # float32 `[l]`, of a domain `[l, d]`
    num_levels: int  # how many of them are wanted; the others are padding
    scale: float = 1.0  # multiplies the altered images


def altered(ask: Ask, mesh: ImageMesh) -> Ask:
    """Alters a block's images; the network of `CHOSEN` takes what is returned."""
    places = np.arange(len(ask.levels))
    levels = ask.levels[: ask.num_levels]
    images = [_altered_for(level, ask, mesh) for level in levels]
    images += images[-1:] * (len(places) - len(levels))
    return ask._replace(
        prepared=tuple(images), alteration=CHOSEN, levels=places, scale=1.0
    )


def answerer_for(
    classifier: Classifier, key: jax.Array, mesh: ImageMesh, rule: ScoreRule | None
) -> "Answerer":
    """Returns who answers for a placed classifier, or scores its outputs."""
    compiled = Compiled(classifier, key, mesh)
    # Processes of one mesh call a network on their hosts from within the step.
    network = None if mesh.is_multi_process else on_host(classifier.apply_fn)
    if rule is not None:
        return Scoring(compiled, network, rule)
    return compiled if network is None else Hosted(compiled, network)


class Compiled(NamedTuple):
    """A network that the compiled step runs."""

    classifier: Classifier
    key: jax.Array
    mesh: ImageMesh
    is_on_host: bool = False

    def call(self, ask: Ask) -> Call:
        """The step; of shapes in place of the block's arrays it can be lowered."""
        levels, scale = ask.levels.astype(np.float32), np.float32(ask.scale)
        numbers = levels, np.int32(ask.num_levels), scale
        index, labels = ask.placed.indices, ask.placed.labels
        args = self.classifier, ask.prepared, index, labels, self.key, *numbers
        static = {"alteration": ask.alteration, "mesh": self.mesh}
        return Call(answer_at_levels, args, static, self.mesh)

    def dispatch(self, ask: Ask) -> Answers[jax.Array]:
        return gathered(self.call(ask).run())

    def finish(self, pending: Any, number: int | None = None) -> Answers[jax.Array]:
        del number
        return pending

    def outputs(self, ask: Ask) -> Any:
        return outputs_at_level(
            self.classifier,
            ask.prepared,
            ask.placed.indices,
            self.key,
            ask.levels[0],
            alteration=ask.alteration,
            mesh=self.mesh,
        )


class Hosted(NamedTuple):
    """A network on the host, whose images are altered on the devices."""

    compiled: Compiled
    network: OnHost
    is_on_host: bool = True

    def dispatch(self, ask: Ask) -> tuple[jax.Array, jax.Array]:
        images = _altered_for(
            ask.levels[0], ask, self.compiled.mesh, self.network.preprocessing
        )
        return images, ask.placed.labels

    def finish(self, pending: Any, number: int | None = None) -> Answers[jax.Array]:
        images, labels = map(np.asarray, pending)
        outputs = self.network.function(images[:number])
        # Keeps the shape for which `_answers` is compiled.
        outputs = np.pad(outputs, [(0, len(images) - len(outputs)), (0, 0)])
        return _answers(outputs, labels, kind=self.compiled.classifier.outputs)


class Scoring(NamedTuple):
    """A score of a network's outputs, in place of answers."""

    compiled: Compiled
    network: OnHost | None
    rule: ScoreRule
    is_on_host: bool = True

    def dispatch(self, ask: Ask) -> Unscored:
        if self.network is None:
            outputs = self.compiled.outputs(ask)
        else:
            outputs = _altered_for(
                ask.levels[0], ask, self.compiled.mesh, self.network.preprocessing
            )
        return Unscored(outputs, ask.placed.block.labels, ask.alteration, ask.levels[0])

    def finish(self, pending: Any, number: int | None = None) -> Scored:
        del number
        return score_block(self.rule, self.network, self.compiled.classifier, pending)


Answerer = Compiled | Hosted | Scoring


def _altered_for(
    level: np.ndarray,
    ask: Ask,
    mesh: ImageMesh,
    preprocessing: Preprocessing = _NO_PREPROCESSING,
) -> jax.Array:
    static = {"alteration": ask.alteration, "preprocessing": preprocessing}
    args = ask.prepared, level, np.float32(ask.scale)
    return Call(_altered, args, static | {"mesh": mesh}, mesh).run()


@functools.partial(jax.jit, static_argnames=("alteration", "preprocessing", "mesh"))
def _altered(
    prepared: Any,
    level: jax.Array,
    scale: jax.Array,
    *,
    alteration: AnyAlteration,
    preprocessing: Preprocessing,
    mesh: ImageMesh,
) -> jax.Array:
    def local(prepared: Any, level: jax.Array, scale: jax.Array) -> jax.Array:
        images = jax.vmap(lambda image: alteration.at_level(image, level))(prepared)
        return preprocessing(images * scale.astype(images.dtype))

    split = (True, False, False)
    return on_each_device(local, mesh, split)(prepared, level, scale)


@functools.partial(jax.jit, static_argnames="kind")
def _answers(outputs: jax.Array, labels: jax.Array, *, kind: str) -> Answers:
    # The network has run already, so its outputs take the place of the images.
    returned = Classifier(lambda variables, images: images, None, kind)
    return jax.tree.map(lambda part: part[None], answer(returned, outputs, labels))
