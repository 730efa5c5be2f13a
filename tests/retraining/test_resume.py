"""A training that is interrupted goes on as if nothing had happened."""

import jax
import numpy as np
import pytest

from jaxrob import Dataset, alterations
from jaxrob.retraining import data_augmentation

from ..on_devices import Network

KEY = jax.random.key(5)


def train(**settings):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50, 4, 4, 1)).astype(np.uint8)
    return data_augmentation(
        # It has everything that has a state: dropout's keys, batch statistics.
        Network(3),
        Dataset(images, np.arange(50) % 3),
        # Noise and levels are drawn in each step.
        [alterations.gaussian_noise(0.0, 0.1), alterations.brightness(-0.9, 0.9)],
        key=KEY,
        batch_size=16,
        epochs=4,
        **settings,
    )


@pytest.mark.slow
def test_a_training_that_was_interrupted_resumes_bit_for_bit(tmp_path):

    def stop(epoch, classifier):
        if epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(checkpoint=tmp_path / "folder", checkpoint_every=5, on_epoch=stop)
    resumed = []
    whole = train()
    after = train(
        checkpoint=tmp_path / "folder",
        checkpoint_every=100,
        on_epoch=lambda epoch, classifier: resumed.append(epoch),
    )
    # Some steps were saved, and only what followed was done again.
    assert resumed[0] > 1 and resumed[-1] == 4
    leaves = jax.tree.leaves(whole.variables), jax.tree.leaves(after.variables)
    for one, other in zip(*leaves):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
