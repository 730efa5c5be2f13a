"""A network that is split over devices: a check before anything is computed."""

import jax
import jax.numpy as jnp

from jaxrob._arguments.readable import error_text
from jaxrob._classifier import Classifier, structure
from jaxrob._devices.mesh import ImageMesh, on_each_device
from jaxrob._keys import classifier_keys


def check_split_network(
    classifier: Classifier, image_shape: tuple[int, ...], mesh: ImageMesh
) -> None:
    """Rejects a split network that cannot run where images are split too.

    Such a network asks for shardings along the images' axes, or for those that JAX
    allows only on axes of the type Explicit. It is traced, not run.

    Raises:
      ValueError: if the network fails.
    """
    if not mesh.splits_network:
        return

    def outputs(classifier: Classifier, images: jax.Array, key: jax.Array) -> jax.Array:
        index = jnp.arange(len(images), dtype=jnp.uint32)
        keys = classifier_keys(key, index) if classifier.stochastic else None
        return classifier.raw_outputs(images, keys)

    of = structure(classifier)
    images = jax.ShapeDtypeStruct((mesh.size, *image_shape), jnp.float32)
    key = jax.eval_shape(jax.random.key, 0)
    split = on_each_device(outputs, mesh, (False, True, False), joined_along=1)
    try:
        with jax.set_mesh(mesh.mesh):
            jax.eval_shape(split, jax.tree.unflatten(of.tree, of.leaves), images, key)
    except Exception as error:  # The user's code may raise anything.
        own = ", ".join(
            repr(one) for one in mesh.mesh.axis_names if one not in mesh.axes
        )
        over = f"split over {', '.join(map(repr, mesh.axes))}" if mesh.axes else "whole"
        raise ValueError(
            f"the classifier failed with its variables sharded over {own}, where "
            f"images are {over}: {error_text(error)}. In the network, leave shardings "
            "to XLA, or constrain arrays by jax.lax.with_sharding_constraint over "
            f"{own} alone"
        ) from error
