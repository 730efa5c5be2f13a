"""Parts of the images, in a random order, have the answers of `evaluate`."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.timing import compilations
from scipy import stats

import jaxrob
from jaxrob import alterations
from jaxrob._devices.mesh import checked_mesh
from jaxrob._engine import queue
from jaxrob._engine.answers import OfClasses
from jaxrob._engine.blocks import counted
from jaxrob._engine.evaluate import fingerprint_inputs
from jaxrob._engine.execution import noted, progress_bar, set_up
from jaxrob._engine.journal import cached_answers_in
from jaxrob._engine.provenance import provenance
from jaxrob._engine.queue import _best, answer_parts, random_order
from jaxrob.strategies._drive import Span
from jaxrob.strategies._strategy import BLOCK

from ..assessment.documents import journal_line
from ..linear import linear
from . import interrupted

NUM_IMAGES = 2 * BLOCK + 88
KEY = jax.random.key(7)
RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (NUM_IMAGES, 8, 8, 1), dtype=np.uint8)
DATASET = jaxrob.Dataset(IMAGES, RANDOM.integers(0, 4, NUM_IMAGES))
WEIGHTS = np.float32(RANDOM.normal(size=(64, 4)))
NOISE = alterations.gaussian_noise(0.0, 0.2)
BRIGHTNESS = alterations.brightness(-0.5, 0.5)
# Within a block, over several, the padded end; twice the same level.
PARTS = [
    Span(NOISE, 0.1, 0, BLOCK),
    Span(BRIGHTNESS, 0.25, 0, NUM_IMAGES),
    Span(NOISE, 0.0, 40, 2 * BLOCK + 10),
    Span(NOISE, 0.1, BLOCK, 2 * BLOCK),
    Span(BRIGHTNESS, -0.5, 2 * BLOCK, NUM_IMAGES),
]


def drawn(weights, images, keys):
    noise = jax.vmap(lambda key: jax.random.normal(key, (3, 4)))(keys)
    return linear(weights, images) + jnp.swapaxes(noise, 0, 1)


def on_host(images):
    return np.asarray(images).reshape(len(images), -1) @ WEIGHTS


CLASSIFIERS = {
    "plain": lambda: jaxrob.Classifier(linear, WEIGHTS),
    "stochastic": lambda: jaxrob.Classifier(drawn, WEIGHTS, stochastic=True),
    "in batches of 100": lambda: jaxrob.Classifier.from_host(
        on_host, 4, batch_size=100
    ),
}


def answered(parts, classifier=None, dataset=DATASET, **execution):
    classifier = classifier or CLASSIFIERS["plain"]()
    names = list(dict.fromkeys(part.alteration for part in parts))
    classifier, fingerprinted = fingerprint_inputs(classifier, names, IMAGES[0])
    parts = [
        part._replace(alteration=fingerprinted[names.index(part[0])]) for part in parts
    ]
    order = random_order(KEY, NUM_IMAGES)
    with progress_bar("parts", False) as bar:
        given = set_up(classifier, IMAGES.shape[1:], KEY, checked_mesh(None), bar, None)
        given = dataclasses.replace(given, **execution)
        return order, answer_parts(given, dataset, parts, order)


def assert_answers_of_evaluate(parts, order, answers, classifier):
    for part, found in zip(parts, answers, strict=True):
        curve = jaxrob.evaluate(
            classifier, DATASET, part.alteration, [part.level], key=KEY
        )
        images = order[part.start : part.stop]
        np.testing.assert_array_equal(found.predicted, curve.predicted[0, images])
        for name in ("confidence", "uncertainty"):
            expected = getattr(curve, name)[0, images]
            np.testing.assert_allclose(getattr(found, name), expected, atol=1e-5)


@pytest.mark.parametrize(
    "kind", ["stochastic", pytest.param("in batches of 100", marks=pytest.mark.slow)]
)
def test_answers_are_those_of_evaluate(kind):
    classifier = CLASSIFIERS[kind]()
    parts = [part for part in PARTS if part.alteration is NOISE]
    found = answered(parts, classifier)
    assert_answers_of_evaluate(parts, *found, classifier)


class Batches:
    """The images in batches that fit no block; counts the passes over them."""

    def __init__(self, images=IMAGES, labels=DATASET.labels):
        self.images, self.labels, self.passes = images, labels, 0

    def __iter__(self):
        self.passes += 1
        for first in range(0, len(self.images), 77):
            yield self.images[first : first + 77], self.labels[first : first + 77]


def assert_same(one, other):
    for first, second in zip(one, other, strict=True):
        for part in zip(first, second):
            np.testing.assert_array_equal(*part)


class TestData:
    @pytest.mark.parametrize("in_memory", [NUM_IMAGES, 2 * BLOCK, 100])
    def test_batches(self, in_memory, monkeypatch):
        monkeypatch.setattr(
            "jaxrob._engine.blocks._MAX_BYTES", in_memory * IMAGES[0].nbytes
        )
        batches = Batches()
        data = counted(jaxrob.Dataset.from_batches(batches))
        np.testing.assert_array_equal(data.labels, DATASET.labels)
        order, expected = answered(PARTS)
        assert_same(answered(PARTS, dataset=data)[1], expected)
        # Once to count, once to keep the first ones, and those behind, block by block.
        blocks = {100: 3, 2 * BLOCK: 1, NUM_IMAGES: 0}
        assert batches.passes == 2 + blocks[in_memory]
        if in_memory > BLOCK:
            few = [Span(NOISE, 0.15, 0, BLOCK)]
            assert_same(answered(few, dataset=data)[1], answered(few)[1])
            assert batches.passes == 2 + blocks[in_memory]

    def test_batches_that_come_in_another_order_are_refused(self):
        batches = Batches()
        data = counted(jaxrob.Dataset.from_batches(batches))
        batches.images, batches.labels = IMAGES[::-1], DATASET.labels[::-1]
        with pytest.raises(ValueError, match="must be the same"):
            answered(PARTS, dataset=data)
        batches.images, batches.labels = IMAGES[:-100], DATASET.labels[:-100]
        with pytest.raises(ValueError, match="batch [0-9]+"):
            answered(PARTS, dataset=data)

    def test_a_memory_map_is_checked_where_it_is_read(self, tmp_path):
        order = random_order(KEY, NUM_IMAGES)
        mapped = np.memmap(tmp_path / "images", np.float32, "w+", shape=IMAGES.shape)
        mapped[order[BLOCK + 44], 2, 3] = np.nan
        data = jaxrob.Dataset(mapped, DATASET.labels)
        answered([Span(BRIGHTNESS, 0.1, 0, BLOCK)], dataset=data)
        with pytest.raises(ValueError, match="finite"):
            answered([Span(BRIGHTNESS, 0.1, BLOCK, 2 * BLOCK)], dataset=data)

    def test_a_label_that_is_no_class_is_refused(self):
        labels = np.full(NUM_IMAGES, 4)
        with pytest.raises(ValueError, match="labels"):
            answered(PARTS, dataset=jaxrob.Dataset(IMAGES, labels))


def test_nan_is_refused_where_it_was_asked_for():
    order = random_order(KEY, NUM_IMAGES)
    images = IMAGES.copy()
    images[:, 0, 0] = 0
    images[order[300], 0, 0] = 255

    def broken(weights, images):
        outputs = linear(weights, images)
        return jnp.where(images[:, :1, 0, 0] > 0.4, jnp.nan, outputs)

    classifier = jaxrob.Classifier(broken, WEIGHTS)
    data = jaxrob.Dataset(images, DATASET.labels)
    answered([Span(BRIGHTNESS, -0.25, 0, 300)], classifier, data)
    with pytest.raises(ValueError, match="NaN.* for 1 of 1 images.*level -0.25"):
        answered([Span(BRIGHTNESS, -0.25, 300, 301)], classifier, data)


def test_progress_bar_counts_what_was_asked_for():
    with progress_bar("parts", True) as bar:
        answered(PARTS, bar=bar)
        assert bar.n == bar.total == sum(part.stop - part.start for part in PARTS)


class TestJournal:
    def run(self, path, parts=PARTS, classifier=None):
        """The answers, with a journal; `provenance` is the same for all runs."""
        classifier = classifier or CLASSIFIERS["plain"]()
        names = list(dict.fromkeys(part.alteration for part in parts))
        classifier, fingerprinted = fingerprint_inputs(classifier, names, IMAGES[0])
        mesh = checked_mesh(None)
        source = functools.partial(provenance, classifier, DATASET, KEY, mesh.mesh)
        read = OfClasses(classifier, 4).read
        with cached_answers_in(
            path, classifier, fingerprinted, source, mesh, read, None
        ) as cached:
            return answered(parts, classifier, cached=cached)[1]

    def test_whatever_is_known_of_a_part_is_taken(self, tmp_path):
        path = tmp_path / "journal"
        self.run(path, [Span(NOISE, 0.1, 0, BLOCK + 40)])
        self.run(path, [Span(NOISE, 0.1, 0, 100), Span(NOISE, 0.1, 40, BLOCK + 40)])
        assert len(interrupted.steps(path)) == 2
        self.run(path, [Span(NOISE, 0.1, 0, NUM_IMAGES)])
        # What was known of a block in part is computed again, in the whole block.
        starts = [at for *_, at in interrupted.steps(path)]
        assert starts == [0, BLOCK, BLOCK, 2 * BLOCK]

    def test_the_two_orders_do_not_mix(self, tmp_path):
        path = tmp_path / "journal"
        given = CLASSIFIERS["plain"](), DATASET, BRIGHTNESS, [0.25]

        def curve(journal):
            return jaxrob.evaluate(*given, key=KEY, journal=journal, batch_size=BLOCK)

        parts = [Span(BRIGHTNESS, 0.25, 0, NUM_IMAGES)]
        expected, plain = answered(parts)[1], curve(None)
        assert_same(self.run(path, parts), expected)
        np.testing.assert_array_equal(curve(path).confidence, plain.confidence)
        assert_same(self.run(path, parts), expected)
        assert len(interrupted.steps(path)) == 6

    def test_another_word_for_the_order_is_refused(self, tmp_path):
        path = tmp_path / "journal"
        self.run(path)
        lines = path.read_bytes().splitlines(keepends=True)
        text = lines[1].partition(b" ")[2].strip().replace(b'"random"', b'"sorted"')
        lines[1] = journal_line(text)
        path.write_bytes(b"".join(lines))
        with pytest.raises(ValueError, match="record 1 is wrong: 'order' must be"):
            self.run(path)


class TestOrder:
    def test_each_index_once_and_the_same_for_the_same_key(self):
        order = random_order(KEY, 1000)
        np.testing.assert_array_equal(np.sort(order), np.arange(1000))
        np.testing.assert_array_equal(order, random_order(jax.random.key(7), 1000))
        assert (order != random_order(jax.random.key(8), 1000)).any()
        np.testing.assert_array_equal(random_order(None, 1), [0])

    def test_does_not_change_with_versions(self):
        # Drawn once: a journal of an earlier version must stay good.
        order = random_order(jax.random.key(0), 10)
        np.testing.assert_array_equal(order, [7, 0, 4, 6, 3, 8, 9, 2, 5, 1])

    def test_an_images_place_says_nothing_of_its_index(self):
        order = random_order(KEY, 20_000)
        assert stats.spearmanr(order, np.arange(20_000)).pvalue > 1e-3
        assert stats.kstest(order[:500] / 20_000, "uniform").pvalue > 1e-3


FORTY = DATASET[:40]


def evaluate(data=FORTY, levels=(0.0, 0.1, 0.5), **settings):
    return jaxrob.evaluate(CLASSIFIERS["plain"](), data, BRIGHTNESS, levels, **settings)


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
    # Sizes that are alike are left alone.
    assert _best(lambda size: 1 + 0.01 / size, 16, 1000, 10_000) == 16


@pytest.fixture
def tried(monkeypatch):
    """Sizes tried; half of the usual number is the fastest, and each run is long."""
    sizes = []

    def seconds(execution, dtype, spans, size):
        sizes.append(size)
        return 1.0 if size == 16 else 2.0

    noted.cache_clear()
    monkeypatch.setattr(queue, "_FEWEST_OPERATIONS", 0)
    monkeypatch.setattr(queue, "_LARGEST_SHARE", 10.0)
    monkeypatch.setattr(queue, "_seconds", seconds)
    yield sizes
    noted.cache_clear()


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
    monkeypatch.setattr(queue, "_FEWEST_OPERATIONS", 1e12)
    evaluate()
    assert not tried


def test_a_resumed_run_keeps_the_size_of_its_journal(tried, monkeypatch, tmp_path):
    path = tmp_path / "journal"
    first = evaluate(journal=path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))  # The header, the size, one block.
    noted.cache_clear()
    tried.clear()
    blocks = blocks_of(monkeypatch)
    resumed = evaluate(journal=path)
    assert not tried and blocks == [14]
    np.testing.assert_array_equal(resumed.confidence, first.confidence)
    assert path.read_bytes() == b"".join(lines)


def test_batches_of_unknown_number_are_not_tried(tried):
    evaluate(jaxrob.Dataset.from_batches([(FORTY.images, FORTY.labels)]), [0.0])
    assert not tried


def test_the_real_step_is_timed(monkeypatch):
    noted.cache_clear()
    timed, timed_once = [], queue._timed
    monkeypatch.setattr(queue, "_FEWEST_OPERATIONS", 0)
    monkeypatch.setattr(queue, "_LARGEST_SHARE", 10.0)
    monkeypatch.setattr(queue, "_timed", lambda run: timed.append(1) or timed_once(run))
    found = evaluate()
    np.testing.assert_array_equal(found.predicted, evaluate(batch_size=40).predicted)
    assert timed
    noted.cache_clear()


def test_a_networks_program_is_shared_with_the_answers_of_one_for_each(monkeypatch):
    classifier = CLASSIFIERS["stochastic"]()

    def answers(alteration):
        levels = np.linspace(alteration.lower, alteration.upper, 3)
        curve = jaxrob.evaluate(classifier, DATASET, alteration, levels, key=KEY)
        return curve.predicted, curve.rank, curve.confidence, curve.uncertainty

    fused = [*map(answers, (BRIGHTNESS, NOISE))]
    monkeypatch.setattr("jaxrob._engine.step._FEWEST_FOR_AN_IMAGE", 0)
    for one, alteration in zip(fused, (BRIGHTNESS, NOISE)):
        for wanted, found in zip(one, answers(alteration)):
            np.testing.assert_allclose(found, wanted, atol=1e-6)
    with compilations() as compiled:
        answers(alterations.brightness(-0.25, 0.25))
    assert len(compiled) == 1
