"""A training that is interrupted goes on as if nothing had happened."""

import jax
import numpy as np
import pytest
from flax import linen as nn

from jaxrob import Dataset, alterations
from jaxrob.retraining import data_augmentation

KEY = jax.random.key(5)


class Network(nn.Module):
    """With everything that has a state: dropout's keys, batch statistics."""

    @nn.compact
    def __call__(self, x, train: bool = False):
        x = nn.Dense(16)(x.reshape(len(x), -1))
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.Dropout(0.3, deterministic=not train)(nn.relu(x))
        return nn.Dense(3)(x)


def train(**settings):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50, 4, 4, 1)).astype(np.uint8)
    return data_augmentation(
        Network(),
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
