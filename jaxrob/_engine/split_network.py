"""A network that is split over devices: a check before anything is computed."""

import functools

import jax
import jax.numpy as jnp

from jaxrob._arguments.readable import error_text
from jaxrob._classifier import Classifier, Structure, structure
from jaxrob._devices.mesh import ImageMesh, on_each_device
from jaxrob._keys import classifier_keys


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
