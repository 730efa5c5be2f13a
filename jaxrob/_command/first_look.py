"""A check of the network's outputs on a few unaltered pictures, before the work."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxrob
from jaxrob._command.refused import Refused
from jaxrob._command.subject import Subject
from jaxrob._devices.host_function import own_errors
from jaxrob._log_probabilities import log_normalised
from jaxrob._pixels import as_floats

_FEW = 16


def check(subject: Subject, seed: int) -> None:
    """Rejects a network whose outputs are NaN, or not what `--outputs` declares."""
    classifier, dataset = subject
    images = as_floats(jnp.asarray(dataset.images[:_FEW]))
    keys = None
    if classifier.stochastic:
        keys = jax.random.split(jax.random.key(seed), len(images))
    with own_errors():
        rows = np.asarray(_outputs(classifier, images, keys))
    # Infinite scores can be compared; infinite logits have no softmax.
    known = ~np.isnan(rows) if classifier.outputs == "scores" else np.isfinite(rows)
    number = int((~known.all(axis=(0, 2))).sum())
    if number:
        raise FloatingPointError(
            f"{subject.name} returned NaN or infinity for {number} of the first "
            f"{len(images)} images, unaltered. Look at the network, and at what it "
            "expects (--scale, --mean, --std)"
        )
    if classifier.outputs not in ("probabilities", "sigmoid"):
        return
    if np.isnan(log_normalised(jnp.asarray(rows), classifier.outputs)).any():
        wanted = "lie in [0, 1]"
        if classifier.outputs == "probabilities":
            wanted += " and sum to 1"
        raise Refused(
            f"--outputs={classifier.outputs}: these {wanted}, but on the first "
            f"{len(images)} images, unaltered, {subject.name} returns values from "
            f"{rows.min():.4g} to {rows.max():.4g} with sums from "
            f"{rows.sum(-1).min():.4g} to {rows.sum(-1).max():.4g}. "
            "Say --outputs=logits, or --outputs=scores"
        )


@jax.jit
def _outputs(
    classifier: jaxrob.Classifier, images: jax.Array, keys: jax.Array | None
) -> jax.Array:
    """Returns the raw outputs, `[S, B, K]`."""
    return classifier.raw_outputs(images, keys)
