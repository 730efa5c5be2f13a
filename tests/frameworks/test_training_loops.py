"""Training loops of users: new weights compile nothing after the first epoch."""

import numpy as np
import pytest
from common.timing import compilations
from flax import nnx

import jaxrob
from jaxrob import alterations

RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(0, 3, 32)
# Bright in the rows of their class.
IMAGES = 0.8 * RANDOM.random((32, 6, 6, 1), np.float32)
IMAGES[np.arange(32), 2 * LABELS] += np.float32(0.2)


@pytest.mark.slow
def test_flax_nnx():
    class Net(nnx.Module):
        def __init__(self):
            self.kernel = nnx.Param(np.zeros((36, 3), np.float32))

        def __call__(self, images):
            return images.reshape(len(images), -1) @ self.kernel[...]

    flat, net = IMAGES.reshape(len(IMAGES), -1), Net()
    centred = flat - flat.mean(0)
    accuracies, programs = [], []
    for classes in ([1, 0, 0], [1, 1, 1], [1, 1, 0]):
        kernel = centred.T @ (np.eye(3)[LABELS] * classes).astype(np.float32)
        net.kernel[...] = kernel
        with compilations() as compiled:
            found = jaxrob.assess(
                jaxrob.Classifier.from_nnx(net),
                jaxrob.Dataset(IMAGES, LABELS),
                alterations.brightness(-0.4, 0.4),
                threshold=0.1,
                strategy=jaxrob.strategies.Uniform(3),
            )
        right = float(np.mean((flat @ kernel).argmax(1) == LABELS))
        assert found.values[1] == pytest.approx(right, abs=1e-9)
        accuracies.append(right)
        programs.append(len(compiled))
    assert len(set(accuracies)) > 1
    assert programs[0] > 0 and not any(programs[1:])
