"""Who answers on a block of altered images: compiled networks, host networks, scores.

A network or a score on the host is called between compiled programs, at one level at a
time. So it may be any function, its exceptions propagate unchanged, and the devices
alter images to the next level meanwhile.

Each `dispatch` starts what the devices compute, and keeps no images of the block. Each
`finish` returns answers `[l, B]`; on the host it may run on the first `number` images
alone, and a step has one level.
"""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrob._adapters.network import OnHost, Preprocessing, on_host
from jaxrob._classifier import Classifier
from jaxrob._devices.hosts import gathered
from jaxrob._devices.mesh import ImageMesh, on_each_device
from jaxrob._engine.answers import Answers, answer
from jaxrob._engine.blocks import PlacedBlock
from jaxrob._engine.scores import Scored, ScoreRule, Unscored, score_block
from jaxrob._engine.step import answering, outputs_at_level
from jaxrob.alterations import Alteration


class Ask(NamedTuple):
    """A block of images at a few levels of an alteration."""

    placed: PlacedBlock  # the block
    prepared: Any  # what `step.prepare` made of its images
    alteration: Alteration  # the alteration
    levels: np.ndarray  # float32 `[l]`
    num_levels: int  # how many of them are wanted; the others are padding
    scale: float = 1.0  # multiplies the altered images


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

    def dispatch(self, ask: Ask) -> Answers[jax.Array]:
        call = answering(
            self.classifier,
            ask.prepared,
            ask.placed.indices,
            ask.placed.labels,
            self.key,
            ask.levels,
            ask.num_levels,
            ask.alteration,
            self.mesh,
            ask.scale,
        )
        return gathered(call.run())

    def finish(self, pending: Any, number: int | None = None) -> Answers[jax.Array]:
        del number
        return pending

    def outputs(self, ask: Ask) -> Any:
        """Computes raw outputs at the first level."""
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
        return _altered_for(self.network, ask, self.compiled.mesh), ask.placed.labels

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
            outputs = _altered_for(self.network, ask, self.compiled.mesh)
        return Unscored(outputs, ask.placed.block.labels, ask.alteration, ask.levels[0])

    def finish(self, pending: Any, number: int | None = None) -> Scored:
        del number
        return score_block(self.rule, self.network, self.compiled.classifier, pending)


Answerer = Compiled | Hosted | Scoring


def _altered_for(network: OnHost, ask: Ask, mesh: ImageMesh) -> jax.Array:
    return _altered(
        ask.prepared,
        ask.levels[0],
        np.float32(ask.scale),
        alteration=ask.alteration,
        preprocessing=network.preprocessing,
        mesh=mesh,
    )


@functools.partial(jax.jit, static_argnames=("alteration", "preprocessing", "mesh"))
def _altered(
    prepared: Any,
    level: jax.Array,
    scale: jax.Array,
    *,
    alteration: Alteration,
    preprocessing: Preprocessing,
    mesh: ImageMesh,
) -> jax.Array:
    """Returns a block altered to one level and preprocessed for the network."""

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
