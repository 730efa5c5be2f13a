"""The other steps of the library: RoMA's, a Bayesian classifier's, attack, training."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

import jaxrob
from accelerators import shapes
from accelerators.networks import Network
from accelerators.programs import Program, step
from jaxrob import roma
from jaxrob._devices.mesh import along_images
from jaxrob._engine.sizes import levels_are_sequential
from jaxrob.adversarial._lbfgs import _advance
from jaxrob.adversarial._search import new_search
from jaxrob.alterations import Alteration
from jaxrob.bayes._classifier import from_draws
from jaxrob.bayes._head import Head
from jaxrob.bayes._network import params_apply_fn
from jaxrob.retraining._mixture import _draw, _layout, _make
from jaxrob.retraining._parts import Part, on_half, originals
from jaxrob.roma._algorithm1 import examine_normality, observe_hic
from jaxrob.roma._draws import _step as plain_draws
from jaxrob.roma._mixture import DRAWS
from jaxrob.roma._mixture import _draw as tilted_draws
from jaxrob.roma._pairs import Pairs
from jaxrob.roma._particles import ParticleSystems, num_moves
from jaxrob.roma._particles import step as splitting_step
from jaxrob.roma._tilt import TILTED_BALLS
from jaxrob.roma._work import Work
from jaxrob.training._batches import Batches, every_image
from jaxrob.training._network import network_of
from jaxrob.training._step import TrainingState, compiled_step

_INPUTS, _SAMPLES = 64, 1000
_PARTICLES = 1000
_COMPONENTS = 4
_BATCH = 128


def roma_draws(network: Network, mesh: Mesh) -> Program:
    """Algorithm 1 of 64 inputs with 1,000 draws each, statistics included."""
    shape = (_INPUTS, *network.image_shape)
    args = (
        _work(network, mesh),
        shapes.array(shape, jnp.float32, mesh, split=True),
        shapes.array((_INPUTS,), jnp.uint32, mesh, split=True),
        shapes.array((_INPUTS,), jnp.int32, mesh, split=True),
    )
    static = {
        "num_samples": _SAMPLES,
        "rows": _rows(network, mesh),
        "observe": observe_hic,
        "summarise": examine_normality,
    }
    return Program("RoMA draws", plain_draws, args, static, _INPUTS * _SAMPLES)


def roma_statistics(network: Network, mesh: Mesh) -> Program:
    """The statistics of these draws alone."""
    classes = jax.ShapeDtypeStruct((_SAMPLES, network.num_classes), jnp.float32)
    one = jax.ShapeDtypeStruct((), jnp.int32)
    bar = jax.ShapeDtypeStruct((), jnp.float32)
    observed = jax.eval_shape(observe_hic, classes, one, bar)
    many = jax.tree.map(
        lambda leaf: shapes.array((_INPUTS, *leaf.shape), leaf.dtype, mesh, True),
        observed,
    )
    return Program("RoMA statistics", jax.jit(examine_normality), (many,), {}, 0)


def roma_tilts(network: Network, mesh: Mesh) -> Program:
    """Draws from mixtures of three tilts and the plain distribution, of four inputs."""
    number = max(4, mesh.size)
    image = jax.ShapeDtypeStruct(network.image_shape, jnp.float32)
    none = jax.eval_shape(TILTED_BALLS["linf"].none, image)
    tilts = jax.tree.map(
        lambda leaf: shapes.array(
            (number, _COMPONENTS, *leaf.shape), leaf.dtype, mesh, split=True
        ),
        none,
    )
    args = (
        _work(network, mesh),
        _pairs(network, number, mesh),
        tilts,
        shapes.array((number,), jnp.uint32, mesh, split=True),
        shapes.array((number, DRAWS), jnp.int32, mesh, split=True),
        shapes.array((), jnp.uint32, mesh),
    )
    static = {"rows": _rows(network, mesh)}
    which = np.arange(number * DRAWS, dtype=np.int32) % _COMPONENTS
    return Program(
        "RoMA tilts",
        tilted_draws,
        args,
        static,
        number * DRAWS,
        values={4: which.reshape(number, DRAWS)},
    )


def roma_splitting(network: Network, mesh: Mesh) -> Program:
    """A level of splitting, of as many pairs as a step's rows are particles."""
    slots = max(_rows(network, mesh) // _PARTICLES, 1) * mesh.size
    work = _work(network, mesh)
    image = jax.ShapeDtypeStruct(network.image_shape, jnp.float32)
    latent = jax.eval_shape(work.perturbation.draw, jax.random.key(0), image)

    def particles(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        return shapes.array((slots, *shape), dtype, mesh, split=True)

    systems = ParticleSystems(
        latents=jax.tree.map(
            lambda leaf: particles((_PARTICLES, *leaf.shape), leaf.dtype), latent
        ),
        margins=particles((_PARTICLES,), jnp.float32),
        ancestors=particles((_PARTICLES,), jnp.int32),
        level=particles((), jnp.float32),
        log_share=particles((), jnp.float32),
        number=particles((), jnp.uint32),
        invalid=particles((), bool),
    )
    args = (
        work,
        systems,
        _pairs(network, slots, mesh),
        particles((), bool),
        shapes.array((), jnp.uint32, mesh),
    )
    moves = num_moves(work.perturbation, int(np.prod(network.image_shape)))
    return Program(
        "RoMA splitting",
        splitting_step,
        args,
        {"num_particles": _PARTICLES},
        slots * _PARTICLES * moves,
        # Fewer where all pairs are new: the loop's bound is known when it runs.
        turns=moves,
        values={3: np.zeros(slots, bool)},
    )


def bayesian(
    network: Network, alteration: Alteration, samples: int, mesh: Mesh
) -> Program:
    """A step of a Bayesian classifier with T draws of its weights."""
    fixed = dict(shapes.whole(network.variables(), mesh))
    params = jax.tree.map(
        lambda leaf: shapes.array((samples, *leaf.shape), leaf.dtype, mesh),
        fixed.pop("params"),
    )
    classifier = from_draws(
        {"params": params, "fixed": fixed},
        params_apply_fn(network.module()),
        Head("plain", 1),
    )
    found = step(network, alteration, mesh, classifier)
    return found._replace(
        name=f"Bayesian, T = {samples}", passes=found.passes * samples
    )


def gradient(network: Network, rows: int, mesh: Mesh) -> Program:
    """The bare gradient of a class's log-probability with respect to the images."""

    def total(classifier: jaxrob.Classifier, images: jax.Array) -> jax.Array:
        return classifier.log_probabilities(images)[0, :, 0].sum()

    classifier = network.classifier(shapes.whole(network.variables(), mesh))
    images = shapes.array((rows, *network.image_shape), jnp.float32, mesh, split=True)
    function = jax.jit(jax.grad(total, argnums=1))
    return Program("gradient", function, (classifier, images), {}, rows)


def lbfgs(network: Network, mesh: Mesh) -> Program:
    """One evaluation of as many searches as a block has images."""
    number = network.num_images
    one = jax.ShapeDtypeStruct((number, *network.image_shape), jnp.float32)
    images = shapes.split(one, mesh)
    searches = shapes.split(jax.eval_shape(jax.vmap(new_search), one), mesh)
    classifier = network.classifier(shapes.whole(network.variables(), mesh))
    targets = shapes.array((number,), jnp.int32, mesh, split=True)
    args = (
        (classifier, shapes.array((), jnp.float32, mesh)),
        (searches, images, targets, None),
    )
    # What `by_image` has compiled.
    function = _advance.__wrapped__
    return Program("L-BFGS", function, args, {"mesh": mesh}, number)


def training(
    network: Network, altered: list[Alteration], name: str, mesh: Mesh
) -> Program:
    """A step of training with Adam, by data augmentation if there are alterations."""
    mesh = along_images(mesh)
    batch = min(_BATCH, network.num_images)
    images = np.zeros((8 * batch, *network.image_shape), np.uint8)
    dataset = jaxrob.Dataset(images, np.zeros(len(images), np.int32))
    key = jax.random.key(0)
    batches = every_image(len(images))(batch)
    if altered:
        batches = _mixed(originals(dataset) + on_half(dataset, altered, key), batch)
    module, optimizer = network_of(network.module()), optax.adam(1e-3)
    others = dict(network.variables())
    params = others.pop("params")
    state = TrainingState(params, others, jax.eval_shape(optimizer.init, params))
    function = compiled_step(
        module, network.outputs, optimizer, batches.make, key, key, mesh
    )
    drawn = {
        rows: array[0] for rows, array in batches.draw(np.random.default_rng(0)).items()
    }
    read = len(drawn.pop("index"))
    drawn = {rows: array.astype(np.int32) for rows, array in drawn.items()}
    args = (
        shapes.whole(state, mesh),
        shapes.array((read, *network.image_shape), jnp.uint8, mesh, split=True),
        shapes.array((read,), jnp.int32, mesh),
        shapes.whole(drawn, mesh),
        shapes.array((), jnp.uint32, mesh),
    )
    values = {2: np.zeros(read, np.int32), 3: drawn}
    return Program(name, function, args, {}, batch, values=values)


def _mixed(parts: list[Part], batch: int) -> Batches:
    """What `mixture` makes, without the description, which needs jaxrob installed."""
    size = sum(part.size for part in parts)
    layout = _layout(parts, size // batch, batch)
    make = functools.partial(
        _make, parts, layout.num_read, levels="random", candidates=1
    )
    return Batches(size, functools.partial(_draw, parts, layout), make, "")


def _rows(network: Network, mesh: Mesh) -> int:
    """Images that are classified at once: on a TPU, those of one level."""
    return (
        network.num_images
        if levels_are_sequential(network.image_shape, mesh)
        else network.rows
    )


def _work(network: Network, mesh: Mesh) -> Work:
    perturbation = dataclasses.replace(
        roma.ball("linf", 0.04), size=shapes.array((), jnp.float32, mesh)
    )
    classifier = network.classifier(shapes.whole(network.variables(), mesh))
    logit_delta = shapes.array((), jnp.float32, mesh)
    return Work(classifier, perturbation, logit_delta, shapes.key(mesh), mesh)


def _pairs(network: Network, number: int, mesh: Mesh) -> Pairs:
    def each(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        return shapes.array((number, *shape), dtype, mesh, split=True)

    return Pairs(
        images=each(network.image_shape, jnp.float32),
        indices=each((), jnp.uint32),
        classes=each((), jnp.int32),
        excluded=each((), jnp.int32),
    )
