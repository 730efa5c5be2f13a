"""A training that is killed goes on as if nothing had happened."""

import pathlib
import random
import signal
import subprocess
import sys
import time

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
        epochs=30,
        **settings,
    )


@pytest.mark.slow
def test_a_killed_training_resumes_bit_for_bit(tmp_path):
    folder = tmp_path / "checkpoints"
    with subprocess.Popen([sys.executable, __file__, folder]) as process:
        while not list(folder.glob("*")):
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(random.uniform(0.0, 0.5))
        process.kill()
    assert process.returncode == -signal.SIGKILL
    kept = {path.name for path in folder.glob("*") if path.name.isdigit()}
    assert len(kept) <= 2
    resumed = []
    whole = train()
    after = train(
        checkpoint=folder,
        checkpoint_every=100,
        on_epoch=lambda epoch, classifier: resumed.append(epoch),
    )
    steps = 200 // 16
    # Some steps were saved, and only what followed was done again.
    if kept:
        assert resumed[0] >= max(map(int, kept)) // steps
        assert resumed[0] > 1 or max(map(int, kept)) < steps
    assert resumed[-1] == 30
    leaves = jax.tree.leaves(whole.variables), jax.tree.leaves(after.variables)
    for one, other in zip(*leaves):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    # The finished training is only read.
    again = train(checkpoint=folder)
    for one, other in zip(leaves[0], jax.tree.leaves(again.variables)):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


if __name__ == "__main__":
    train(checkpoint=pathlib.Path(sys.argv[1]), checkpoint_every=3)
