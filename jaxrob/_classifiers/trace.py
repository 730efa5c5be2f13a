"""What a trace shows of a classifier, and the classifier in its state at the time."""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxrob._arguments.checks import check_integers
from jaxrob._arguments.texts import warn
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.keras_model import check_layers
from jaxrob._classifiers.network import ROWS, abstract, inputs_of, program_of
from jaxrob._identity.identity import Fingerprinted, digest, traced
from jaxrob._identity.program import Trace, fingerprint_of, has_changed, trace_of

# More constants than this in a function are probably weights.
_MOST_CAPTURED = 1000


def fingerprinted_classifier(
    classifier: Classifier, image_shape: tuple[int, ...]
) -> Classifier:
    # What `apply_fn` captures becomes constants of programs: traced anew at each call.
    function = classifier.apply_fn
    if isinstance(function, Fingerprinted):
        return classifier
    trace, differs = _current_trace(classifier, image_shape)
    program = trace.fingerprint
    _warn_of_captured(program.num_captured, differs)
    own = Fingerprinted(program.digest, function, program.on_host, trace)
    return dataclasses.replace(classifier, apply_fn=own)


class TraceInfo(NamedTuple):
    num_classes: int  # The number of classes, K; 0 for outputs="any"
    num_samples: int  # The number of posterior samples or members, S
    largest_array: int  # Bytes of one image in the largest array computed
    # Multiplications and additions for one image; infinity if a trace cannot tell
    operations: float


def trace_info(classifier: Classifier, image_shape: tuple[int, ...]) -> TraceInfo:
    trace = current_trace(classifier, image_shape)
    images_bytes = 4 * ROWS * math.prod(image_shape)
    num_samples, _, num_classes = getattr(trace.outputs, "shape", (1, ROWS, 0))
    return TraceInfo(
        num_classes=num_classes,
        num_samples=num_samples,
        largest_array=max(images_bytes, trace.largest_array) // ROWS,
        operations=trace.operations / ROWS,
    )


def current_trace(classifier: Classifier, image_shape: tuple[int, ...]) -> Trace:
    if isinstance(classifier.apply_fn, Fingerprinted):
        return classifier.apply_fn.info
    return _current_trace(classifier, image_shape)[0]


def with_gradient(classifier: Classifier, image_shape: tuple[int, ...]) -> Classifier:
    """Fingerprints the gradient too: the rules of derivatives are in no other trace."""

    def total(images: jax.Array, classifier: Classifier, keys: jax.Array) -> jax.Array:
        return classifier.raw_outputs(images, keys).sum()

    images, keys = inputs_of(image_shape)
    own = fingerprinted_classifier(classifier, image_shape).apply_fn
    shapes = jax.tree.map(abstract, classifier)
    program, _ = traced(jax.grad(total), images, shapes, keys)
    assert isinstance(own, Fingerprinted)
    token = digest([own.token, fingerprint_of(program).digest])
    own = dataclasses.replace(own, token=token)
    return dataclasses.replace(classifier, apply_fn=own)


def gradient_obstacle(
    classifier: Classifier, image_shape: tuple[int, ...]
) -> str | None:
    return _gradient_obstacle(structure(classifier), tuple(image_shape))


class Structure(NamedTuple):
    """A classifier without its variables' values: hashable, and enough for a trace."""

    tree: Any  # jax.tree_util.PyTreeDef
    leaves: tuple[jax.ShapeDtypeStruct, ...]


def structure(classifier: Classifier) -> Structure:
    leaves, tree = jax.tree.flatten(classifier)
    return Structure(tree, tuple(map(abstract, leaves)))


def unnamed(classifier: Classifier) -> Classifier:
    """Returns the classifier without its names, which would cause recompilations."""
    return dataclasses.replace(classifier, name=None, class_names=None)


def _warn_of_captured(number: int, differs: bool) -> None:
    if differs:
        warn(
            "what the classifier's apply_fn captures has changed since the last call "
            "with the same apply_fn. These answers are of the new values. Give weights "
            "as the classifier's `variables`, so that new ones need no new compilation"
        )
    if number > _MOST_CAPTURED:
        warn(
            f"the classifier's apply_fn captures {number:,} numbers, which are "
            "constants of the compiled program. If they are weights, give them as the "
            "classifier's `variables`: new ones then need no new compilation"
        )


def _current_trace(
    classifier: Classifier, image_shape: tuple[int, ...]
) -> tuple[Trace, bool]:
    """Also returns whether captured values have changed since the last trace."""
    check_layers(classifier.apply_fn)
    leaves, tree = jax.tree.flatten(classifier.variables)
    for leaf in leaves:
        if isinstance(leaf, np.ndarray):
            check_integers("variables", leaf)
    settings = classifier.outputs, classifier.stochastic, tuple(image_shape)
    way = tree, tuple(map(jax.typeof, leaves)), settings
    trace = trace_of(*program_of(classifier, image_shape))
    return trace, has_changed(classifier.apply_fn, way, trace)


@functools.lru_cache(maxsize=256)
def _gradient_obstacle(of: Structure, image_shape: tuple[int, ...]) -> str | None:
    try:
        with_gradient(jax.tree.unflatten(of.tree, of.leaves), image_shape)
    except Exception as error:  # The user's code may raise anything.
        return str(error)
    return None
