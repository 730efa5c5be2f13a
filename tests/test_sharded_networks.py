"""Networks whose variables are sharded, on eight devices and on one."""

import math
import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrob
from jaxrob import alterations
from jaxrob._devices.blocks import _slices
from jaxrob._devices.mesh import checked_mesh

SCRIPT = pathlib.Path(__file__).with_name("sharded_networks.py")


@pytest.mark.slow
def test_on_eight_devices(tmp_path):
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": "8",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, SCRIPT, tmp_path]
    done = subprocess.run(
        command, env=environment, stderr=subprocess.PIPE, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3, 5)])
@pytest.mark.parametrize("most", [1, 4, 11, 1000])
def test_pieces_are_in_order(shape, most):
    values = np.arange(math.prod(shape)).reshape(shape)
    pieces = [values[piece] for piece in _slices(shape, most)]
    assert max(piece.size for piece in pieces) <= most
    joined = np.concatenate([piece.ravel() for piece in pieces])
    np.testing.assert_array_equal(joined, values.ravel())


def test_an_axis_of_size_one_may_be_named():
    mesh = Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))
    weights = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)

    def apply(variables, images):
        return images.reshape(len(images), -1) @ variables

    images = np.random.default_rng(1).random((6, 4, 4, 1), np.float32)
    data = jaxrob.Dataset(images, np.arange(6) % 3)
    placed = jax.device_put(weights, NamedSharding(mesh, P("model")))
    bright = alterations.brightness()
    right = apply(weights, np.clip(images * 1.5, 0, 1)).argmax(1)
    for over in (None, mesh):
        classifier = jaxrob.Classifier(apply, placed)
        found = jaxrob.evaluate(classifier, data, bright, [0.5], mesh=over)
        np.testing.assert_array_equal(found.predicted[0], right)


def test_variables_that_are_not_split_leave_all_axes_to_the_images():
    mesh = Mesh(np.array(jax.devices()[:1]), ("a",))
    placed = jax.device_put(jnp.ones(3), NamedSharding(mesh, P()))
    assert checked_mesh(mesh, [placed, np.ones(2)]).axes == ("a",)
    assert checked_mesh(None, [placed]).axes == ("images",)
