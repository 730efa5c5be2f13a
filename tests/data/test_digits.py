import numpy as np
import pytest
from sklearn.datasets import load_digits

from jaxrob.data import digits


@pytest.mark.slow
def test_the_splits_partition_the_originals():
    original = load_digits()
    test, train = digits("test", size=8), digits("train", size=8)
    assert test.images.shape == (500, 8, 8, 1)
    assert train.images.shape == (1297, 8, 8, 1)
    ours = np.concatenate([test.images, train.images])[..., 0]
    labels = np.concatenate([test.labels, train.labels])

    def rows(images, labels):
        values = np.round(images.reshape(1797, 64) * (16 / images.max())).astype(int)
        return sorted(map(tuple, np.column_stack([values, labels])))

    assert rows(ours.astype(float), labels) == rows(original.images, original.target)


def test_stratified_and_the_same_every_time():
    total = np.bincount(load_digits().target)
    dataset = digits("test", size=8)
    assert list(dataset.labels[:10]) == [1, 2, 4, 5, 6, 9, 4, 7, 8, 9]
    found = np.bincount(dataset.labels)
    assert np.abs(found - total * 500 / 1797).max() < 1


def test_enlarged():
    dataset = digits()
    assert dataset.images.shape == (500, 28, 28, 1)
    assert dataset.images.dtype == np.uint8
    assert dataset.class_names == tuple("0123456789")
    small = digits("test", size=8).images.astype(float)
    # Enlarging keeps the overall brightness, and does not flip or rotate.
    np.testing.assert_allclose(dataset.images.mean(), small.mean(), rtol=0.03)
    assert (
        np.corrcoef(
            dataset.images[:, 2::4, 2::4].mean(0).ravel(),
            small[:, :7, :7].mean(0).ravel(),
        )[0, 1]
        > 0.5
    )


def test_wrong_arguments():
    with pytest.raises(ValueError, match="split"):
        digits("validation")
    for wrong in (0, 1025):
        with pytest.raises(ValueError, match="size"):
            digits(size=wrong)
