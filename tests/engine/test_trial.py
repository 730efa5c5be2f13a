"""The trial that chooses the number of images in a block."""

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations
from jaxrob._engine import cached_answers, queue, trial
from jaxrob._engine.trial import _best

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 6, 6, 1), np.uint8)
LABELS = np.arange(40) % 4
WEIGHTS = np.random.default_rng(1).normal(size=(36, 4)).astype(np.float32)


def linear(weights, images):
    return images.reshape(len(images), -1) @ weights


def evaluate(**settings):
    return jaxrob.evaluate(
        jaxrob.Classifier(linear, WEIGHTS),
        jaxrob.Dataset(IMAGES, LABELS),
        alterations.gaussian_noise(0.0, 0.5),
        [0.0, 0.1, 0.5],
        key=jax.random.key(0),
        **settings,
    )


@pytest.mark.parametrize("fastest", [1, 2, 4, 16, 64, 128])
def test_the_fastest_size_is_found(fastest):
    tried = []

    def seconds(size):
        tried.append(size)
        return 1 + abs(np.log2(size / fastest))

    assert _best(seconds, 16, 1000, 10_000) == fastest
    assert len(tried) == len(set(tried)) <= 8


def test_no_size_beyond_the_bounds_is_tried():
    assert _best(lambda size: 1 / size, 16, 40, 10_000) == 32
    # Three sizes of 16, 8 and 32 would be too many answers.
    assert _best(lambda size: 1 / size, 16, 1000, 3 * 24) == 16
    assert _best(lambda size: 1 / size, 16, 1000, 3 * 16) == 0


def test_sizes_that_are_alike_are_left_alone():
    assert _best(lambda size: 1 + 0.01 / size, 16, 1000, 10_000) == 16


@pytest.fixture
def tried(monkeypatch):
    """Sizes tried; half of the usual number is the fastest, and each run is long."""
    sizes = []

    def seconds(execution, dtype, alteration, levels, size):
        sizes.append(size)
        return 1.0 if size == 16 else 2.0

    trial._found.cache_clear()
    monkeypatch.setattr(trial, "_FEWEST_OPERATIONS", 0)
    monkeypatch.setattr(trial, "_LARGEST_SHARE", 10.0)
    monkeypatch.setattr(trial, "_seconds", seconds)
    yield sizes
    trial._found.cache_clear()


def blocks_of(monkeypatch):
    found, placed = [], queue.placed_blocks

    def spy(dataset, num_classes, size, *rest):
        found.append(size)
        return placed(dataset, num_classes, size, *rest)

    monkeypatch.setattr(queue, "placed_blocks", spy)
    return found


def test_a_long_run_takes_the_fastest_size_and_remembers_it(tried, monkeypatch):
    blocks = blocks_of(monkeypatch)
    evaluate()
    # Three blocks of 14 images are the fewest of at most 16.
    assert blocks == [14] and 16 in tried
    number = len(tried)
    evaluate()
    assert len(tried) == number and blocks == [14, 14]


@pytest.mark.slow
def test_a_given_batch_size_and_a_short_run_need_no_trial(tried, monkeypatch):
    evaluate(batch_size=14)
    monkeypatch.setattr(trial, "_FEWEST_OPERATIONS", 1e12)
    evaluate()
    assert not tried


def test_a_resumed_run_keeps_the_size_of_its_journal(tried, monkeypatch, tmp_path):
    path = tmp_path / "journal"
    first = evaluate(journal=path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))  # The header, the size, one block.
    trial._found.cache_clear()
    tried.clear()
    blocks = blocks_of(monkeypatch)
    resumed = evaluate(journal=path)
    assert not tried and blocks == [14]
    np.testing.assert_array_equal(resumed.confidence, first.confidence)
    assert path.read_bytes() == b"".join(lines)


def test_batches_of_unknown_number_are_not_tried(tried):
    batches = jaxrob.Dataset.from_batches([(IMAGES, LABELS)])
    classifier = jaxrob.Classifier(linear, WEIGHTS)
    jaxrob.evaluate(classifier, batches, alterations.brightness(), [0.0])
    assert not tried


def test_a_journal_takes_the_largest_size_that_a_trial_may_choose():
    most = _best(lambda size: 1 / size, 1024, trial._MOST_ON_EACH, 1e9)
    # On more devices than any machine of CPUs has.
    assert most == 2**14 and most * 1000 < cached_answers._MOST_ROWS


def test_the_real_step_is_timed(monkeypatch):
    trial._found.cache_clear()
    monkeypatch.setattr(trial, "_FEWEST_OPERATIONS", 0)
    found = evaluate()
    reference = evaluate(batch_size=40)
    np.testing.assert_array_equal(found.predicted, reference.predicted)
    assert trial._found.cache_info().currsize == 1
    trial._found.cache_clear()
