"""Other steps of the library: RoMA's, and a Bayesian classifier's."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

import jaxrob
from accelerators.networks import Network
from accelerators.programs import Program, rows_at_once, step
from jaxrob import roma
from jaxrob._classifiers.trace import fingerprinted_classifier
from jaxrob._devices.blocks import Call, shapes_of, shapes_whole
from jaxrob._devices.mesh import mesh_for, sharded
from jaxrob.alterations import Alteration
from jaxrob.roma._algorithm1 import NORMALITY
from jaxrob.roma._draws import HITS, SPLITTING, Inputs, Pairs, Statistic, Work, drawing
from jaxrob.roma._perturbation import fingerprinted_perturbation
from jaxrob.roma._rare import _particles, _splitting

_INPUTS, _SAMPLES = 64, 1000


def roma_draws(network: Network, mesh: Mesh) -> Program:
    """Algorithm 1 of 64 inputs with 1,000 draws each, statistics included."""
    return _drawn("RoMA draws", NORMALITY, network, mesh)


def roma_count(network: Network, mesh: Mesh) -> Program:
    """The same draws, counted: what the statistics add is the difference."""
    return _drawn("RoMA count", HITS, network, mesh)


def roma_splitting(network: Network, mesh: Mesh) -> Program:
    """A level of splitting, with as many inputs as rows allow."""
    work, particles = _work(network, mesh), _splitting.NUM_PARTICLES
    most = _rows(network, mesh) * mesh.size // particles
    number = _splitting.num_slots(_INPUTS * mesh.size, most, mesh.size)
    image = jax.ShapeDtypeStruct(network.image_shape, jnp.float32)
    systems = jax.eval_shape(
        lambda: _particles.empty_systems(work.perturbation, image, number, particles)
    )
    split = sharded(work.mesh)
    active = jax.ShapeDtypeStruct((number,), bool, sharding=split)
    given = shapes_of(systems, split), _pairs(work, network, number), active
    call = _particles.stepping(work, *given, SPLITTING, particles)
    moves = _particles.num_moves(work.perturbation, math.prod(network.image_shape))
    # Fewer turns where all inputs are new: the loop's bound is known when it runs.
    return _program("RoMA splitting", call, number * particles * moves, moves)


def bayesian(
    network: Network, alteration: Alteration, samples: int, mesh: Mesh
) -> Program:
    """A step of `evaluate` for a classifier with T sets of weights."""
    module, outputs = network.module(), network.outputs
    classifier = jax.eval_shape(
        lambda members: jaxrob.bayes.ensemble(module, members, outputs),
        [network.variables()] * samples,
    )
    found = step(network, alteration, mesh, classifier)
    return found._replace(name=f"Bayesian, T = {samples}")


def _drawn(name: str, statistic: Statistic, network: Network, mesh: Mesh) -> Program:
    work, number = _work(network, mesh), _INPUTS * mesh.size
    pairs = _pairs(work, network, number)
    block = Inputs(pairs.images, pairs.indices, pairs.excluded)
    call = drawing(work, block, _SAMPLES, _rows(network, mesh), statistic)
    return _program(name, call, number * _SAMPLES)


def _program(name: str, call: Call, passes: int, turns: int = 1) -> Program:
    return Program(name, call.lower, call.args, passes, turns)


def _rows(network: Network, mesh: Mesh) -> int:
    return math.ceil(rows_at_once(network, mesh) / mesh.size)


def _work(network: Network, mesh: Mesh) -> Work:
    """RoMA's parts as shapes, which its entry points don't take."""
    classifier = network.classifier(network.variables())
    over = mesh_for(mesh, classifier.variables)
    classifier = fingerprinted_classifier(classifier, network.image_shape)
    ball = fingerprinted_perturbation(roma.ball("linf", 0.04), network.image_shape)
    logit_delta: Any = jax.ShapeDtypeStruct((), jnp.float32)
    key = jax.eval_shape(jax.random.key, 0)
    return shapes_whole(Work(classifier, ball, logit_delta, key, over), over)


def _pairs(work: Work, network: Network, number: int) -> Pairs[Any]:
    split = sharded(work.mesh)

    def array(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((number, *shape), dtype, sharding=split)

    return Pairs(
        images=array(jnp.float32, *network.image_shape),
        indices=array(jnp.uint32),
        classes=array(jnp.int32),
        excluded=array(jnp.int32),
    )
