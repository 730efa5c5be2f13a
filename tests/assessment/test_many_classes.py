"""Many classes: counts in place of the confusion above 64, and top-k accuracy."""

import dataclasses
import functools
import json
import re

import jax
import numpy as np
import pytest
import scipy

import jaxrob
from jaxrob import alterations, metrics, reporting, strategies
from jaxrob.metrics import _counts

from .documents import assert_refused, drop, journal_line, put

NUM_CLASSES = 70
NOISE = alterations.gaussian_noise(0.0, 0.2)


def logits(variables, images):
    pixels = images.reshape(len(images), -1)
    return 20 * (pixels @ variables["kernel"] + variables["bias"])


@pytest.fixture(scope="module")
def world():
    """Returns a linear network, and images around its classes' prototypes."""
    rng = np.random.default_rng(0)
    prototypes = rng.random((NUM_CLASSES, 16), np.float32)
    variables = {"kernel": 2 * prototypes.T, "bias": -np.square(prototypes).sum(1)}
    labels = np.arange(300, dtype=np.int32) % NUM_CLASSES
    images = prototypes[labels] + 0.1 * rng.standard_normal((300, 16), np.float32)
    data = jaxrob.Dataset(np.clip(images, 0, 1).reshape(-1, 4, 4, 1), labels)
    return jaxrob.Classifier(logits, variables), data


EVEN = strategies.Uniform(3)


@pytest.fixture(scope="module")
def assess(world):
    @functools.cache
    def call(measure="accuracy", **settings):
        about = {"threshold": 0.7, "measure": measure}
        about |= {"strategy": EVEN, "batch_size": 64} | settings
        return jaxrob.assess(*world, NOISE, key=jax.random.key(0), **about)

    return call


def test_reduced_counts_need_no_confusion(assess, monkeypatch):
    whole = assess()

    def fail(*arguments):
        raise AssertionError("a confusion of 70 classes")

    monkeypatch.setattr(_counts, "counts_of", fail)
    # 300 images in blocks of 64: the counts are sums over blocks.
    reduced = assess(reduced=True)
    assert reduced.curve.counts.confusion is None
    for part, other in zip(reduced.curve.counts[:4], whole.curve.counts):
        np.testing.assert_array_equal(part, other)
    assert reduced.robustness == whole.robustness
    assert reduced.confidence_interval == whole.confidence_interval
    with pytest.raises(ValueError, match="confusion .*reduced=F"):
        _ = reduced.curve.confusion
    with pytest.raises(ValueError, match="confusion"):
        reporting.plot_confusion(reduced, 0.1)
    assert "most frequent wrong" not in reporting.to_markdown([_results(reduced)])


def test_documents_hold_counts(assess):
    whole = assess("f1")
    for answers in (True, False):
        text = whole.to_json(answers=answers)
        document = json.loads(text)
        assert "confusion" not in document
        assert document["counts"] == {
            name: getattr(whole.curve.counts, name).tolist()
            for name in ("correct", "decided", "given", "unknown")
        }
        again = jaxrob.Assessment.from_json(text)
        assert isinstance(again.curve, jaxrob.Curve) == answers
        np.testing.assert_array_equal(
            again.robustness_per_class, whole.robustness_per_class
        )


def test_documents_of_wrong_counts(assess):
    bare, whole = (assess().to_json(answers=answers) for answers in (False, True))
    assert_refused(bare, put("counts", None), "counts must be an object")
    for text in (bare, whole):
        assert_refused(text, drop("counts", "given"), "counts lacks 'given'")


def test_few_images_are_counted_alike(assess):
    whole, few = assess(), assess(strategy=strategies.FewImages(EVEN, half_width=0.0))
    text = few.to_json()
    assert jaxrob.Assessment.from_json(text).to_json() == text
    assert few.robustness == whole.robustness
    counts = few.curve.counts
    assert counts.confusion is None
    np.testing.assert_array_equal(counts.inputs.sum(1), few.sampling.seen)
    all_seen = few.sampling.seen == 300
    np.testing.assert_array_equal(
        counts.given[all_seen], whole.curve.counts.given[all_seen]
    )


def test_reports_show_the_worst_classes(assess):
    whole = assess(measure="recall")
    text = reporting.to_markdown([_results(whole)])
    assert len(reporting.to_html([_results(whole)])) < 200_000
    rows = re.findall(r"^\| class .*%", text, re.MULTILINE)
    # Ten rows, and how many there are.
    assert len(rows) == 10 and "70" in text
    worst = int(np.argmin(whole.values))
    wrong = whole.curve.confusion[worst, :, :-1].copy()
    np.fill_diagonal(wrong, 0)
    label, answer = np.unravel_index(wrong.argmax(), wrong.shape)
    count, total = wrong.max(), whole.curve.counts.inputs[worst, label]
    assert f"“class {label}” taken for “class {answer}” ({count} of {total})" in text
    assert reporting.plot_confusion(whole, 0.1) is not None


def test_comparisons_and_reduced_curves_take_counts(assess):
    one = assess()
    found = jaxrob.compare(one, one)
    assert found.difference == 0 and found.p_value == 1
    expected = np.zeros((3, NUM_CLASSES, NUM_CLASSES + 1), np.int64)
    for table, answers in zip(expected, one.curve.predicted):
        np.add.at(table, (one.curve.labels, answers), 1)
    np.testing.assert_array_equal(one.curve.confusion, expected)
    bare = jaxrob.ReducedCurve(one.levels, expected)
    assert bare.counts.confusion is None
    np.testing.assert_array_equal(bare.accuracy, one.values)


def _results(one):
    return reporting.Results("linear", None, (one,))


TWELVE, NUM_IMAGES = 12, 90
RNG = np.random.default_rng(0)
KERNEL = RNG.standard_normal((16, TWELVE)).astype(np.float32)
# The ranked_logits of two classes are always equal.
KERNEL[:, 7] = KERNEL[:, 3]
IMAGES = np.float32(RNG.random((NUM_IMAGES, 4, 4, 1)))
DARKER = alterations.brightness(-0.9, 0.0)
LEVELS = np.array([-0.9, -0.5, 0.0])


def ranked_logits(kernel, images):
    return (images.reshape(len(images), -1) - 0.5) @ kernel


# Half of the labels are the network's own answers.
LABELS = np.where(
    RNG.random(NUM_IMAGES) < 0.5,
    ranked_logits(KERNEL, IMAGES).argmax(1),
    RNG.integers(TWELVE, size=NUM_IMAGES),
).astype(np.int32)
CLASSIFIER = jaxrob.Classifier(ranked_logits, KERNEL)
DATA = jaxrob.Dataset(IMAGES, LABELS)


def ranks_of(scores, labels):
    """Returns each label's place in the stable order of the scores, from 0."""
    return (np.argsort(-scores, axis=-1, kind="stable") == labels[:, None]).argmax(-1)


def scores_at(level):
    return ranked_logits(KERNEL, np.clip(IMAGES * np.float32(1 + level), 0, 1))


@pytest.fixture(scope="module")
def curve():
    return jaxrob.evaluate(CLASSIFIER, DATA, DARKER, LEVELS)


FIVE = strategies.Uniform(5)
FEW = strategies.FewImages(FIVE, half_width=0.0)
CURTAILED = strategies.FewImages(FIVE, curtail=True)


def assess_top_k(measure="top5_accuracy", classifier=CLASSIFIER, **settings):
    settings = {"strategy": FIVE} | settings
    return jaxrob.assess(classifier, DATA, DARKER, 0.4, measure, **settings)


def test_ranks_are_places_in_the_stable_order(curve):
    expected = np.stack([ranks_of(scores_at(level), LABELS) for level in LEVELS])
    np.testing.assert_array_equal(curve.rank, expected)
    assert curve.rank.dtype == curve.predicted.dtype == np.int16
    np.testing.assert_array_equal(curve.rank == 0, curve.predicted == LABELS)


@pytest.mark.parametrize("k", [2, 11])
def test_values_are_scikit_learns(curve, k):
    from sklearn.metrics import top_k_accuracy_score

    name = f"top{k}_accuracy"
    found = metrics.top_k_accuracy(curve.counts_for(name), k)
    # Places, since ties are broken otherwise there.
    orders = [np.argsort(-scores_at(level), kind="stable") for level in LEVELS]
    scores = [-np.argsort(order) for order in orders]
    expected = [
        top_k_accuracy_score(LABELS, one, k=k, labels=range(TWELVE)) for one in scores
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    inputs = np.full(3, NUM_IMAGES)
    right = np.round(found * NUM_IMAGES).astype(int)
    np.testing.assert_array_equal(
        metrics.bands(curve.counts_for(name), name), metrics.wilson(right, inputs)
    )


@pytest.mark.slow
def test_samples_are_ranked_by_their_mean_probabilities():
    kernels = np.float32(RNG.standard_normal((3, 16, TWELVE)))

    def sampled(kernels, images):
        return images.reshape(len(images), -1) @ kernels

    (ranks,) = jaxrob.evaluate(
        jaxrob.Classifier(sampled, kernels), DATA, DARKER, [0.0]
    ).rank
    mean = scipy.special.softmax(sampled(kernels, IMAGES), axis=-1).mean(0)
    np.testing.assert_array_equal(ranks, ranks_of(mean, LABELS))


@pytest.mark.slow
def test_no_class_is_before_itself():
    """XLA computes such logits twice, with other roundings of the right class's."""

    def standardised(kernel, images):
        z = images.reshape(len(images), -1) @ kernel
        return (z - z.mean(-1, keepdims=True)) / z.var(-1, keepdims=True) ** 0.5

    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (300, 6, 6, 1), np.uint8)
    kernel = rng.normal(size=(36, 100)).astype(np.float32)
    labels = rng.integers(0, 100, len(images))
    scores = standardised(kernel, images / np.float32(255))
    classifier = jaxrob.Classifier(standardised, kernel)
    found = jaxrob.evaluate(classifier, jaxrob.Dataset(images, labels), DARKER, [0.0])
    own = np.take_along_axis(scores, labels[:, None], 1)
    # Other classes whose scores are as near as rounding may lie on either side.
    is_near = (np.abs(scores - own) < 1e-4).sum(1) > 1
    assert is_near.mean() < 0.05
    np.testing.assert_array_equal(
        found.rank[0][~is_near], ranks_of(scores, labels)[~is_near]
    )


def test_a_network_on_the_host_has_the_same_ranks(curve):
    host = jaxrob.Classifier.from_host(
        lambda images: ranked_logits(KERNEL, np.asarray(images)), TWELVE
    )
    found = jaxrob.evaluate(host, DATA, DARKER, LEVELS)
    np.testing.assert_array_equal(found.rank, curve.rank)


def test_unknown_answers_count_as_for_accuracy(curve):
    careful = curve.with_unknown(0.2)
    unknown = careful.unknown
    assert 0 < unknown.sum() < unknown.size
    found = metrics.measures["accuracy"](careful.counts)
    top = metrics.top_k_accuracy(careful.counts, 3)
    for row in range(len(LEVELS)):
        decided = ~unknown[row]
        right = (careful.rank[row] < 3) & decided
        assert top[row] == (right.sum() / decided.sum() if decided.any() else 1)
    assert (top >= found).all()
    none = curve.with_unknown(1.0)
    np.testing.assert_array_equal(metrics.top_k_accuracy(none.counts, 3), 1)


def test_every_search_finds_the_same():
    whole = assess_top_k()
    expected = [
        np.mean(ranks_of(scores_at(level), LABELS) < 5) for level in whole.levels
    ]
    np.testing.assert_array_equal(whole.values, expected)
    few, certain = assess_top_k(strategy=FEW), assess_top_k(strategy=CURTAILED)
    assert few.robustness == whole.robustness
    np.testing.assert_array_equal(certain.sampling.sides, few.sampling.sides)
    for one in (whole, few, certain):
        text = one.to_json()
        assert jaxrob.Assessment.from_json(text).to_json() == text


def test_reduced_curves_and_documents_keep_ten_ranks():
    # Of blocks whose counts are sums.
    whole, reduced = assess_top_k(), assess_top_k(reduced=True, batch_size=40)
    np.testing.assert_array_equal(reduced.values, whole.values)
    np.testing.assert_array_equal(reduced.curve.confusion, whole.curve.confusion)
    assert reduced.confidence_interval == whole.confidence_interval
    np.testing.assert_array_equal(
        reduced.robustness_per_class, whole.robustness_per_class
    )
    assert reduced.curve.counts.ranks.shape == (5, TWELVE, 10)
    for one in (whole, reduced, assess_top_k("top11_accuracy")):
        text = one.to_json(answers=False)
        again = jaxrob.Assessment.from_json(text)
        np.testing.assert_array_equal(again.values, one.values)
        assert again.to_json() == text
    document = json.loads(whole.to_json())
    assert "ranks" not in document and "rank" in document["answers"]
    again = jaxrob.Assessment.from_json(whole.to_json())
    np.testing.assert_array_equal(again.curve.rank, whole.curve.rank)


def test_a_journal_keeps_the_ranks(tmp_path, curve):
    path = tmp_path / "journal"
    for _ in range(2):
        found = jaxrob.evaluate(CLASSIFIER, DATA, DARKER, LEVELS, journal=path)
        np.testing.assert_array_equal(found.rank, curve.rank)
        assert len(path.read_bytes().splitlines()) == 2
    older = path.read_bytes().replace(b"jaxrob journal 2", b"jaxrob journal 1")
    first, *rest = older.splitlines(keepends=True)
    text = first.split(b" ", 1)[1].rstrip(b"\n")
    path.write_bytes(journal_line(text) + b"".join(rest))
    before = path.read_bytes()
    with pytest.raises(ValueError, match="jaxrob journal 1"):
        jaxrob.evaluate(CLASSIFIER, DATA, DARKER, LEVELS, journal=path)
    assert path.read_bytes() == before


def test_a_paired_comparison_is_of_the_images_within_k():
    noise = np.random.default_rng(1).standard_normal(KERNEL.shape)
    other = jaxrob.Classifier(ranked_logits, KERNEL + 0.3 * np.float32(noise))
    ones = [assess_top_k(), assess_top_k(classifier=other)]
    found = jaxrob.compare(*ones)
    np.testing.assert_allclose(found.level_difference, ones[0].values - ones[1].values)
    # As of the accuracy of networks whose answers are right within k.
    right = [np.where(one.curve.rank < 5, LABELS, (LABELS + 1) % 12) for one in ones]
    accurate = [
        dataclasses.replace(
            one,
            measure="accuracy",
            curve=dataclasses.replace(
                one.curve, predicted=predicted.astype(np.int16), rank=None
            ),
        )
        for one, predicted in zip(ones, right)
    ]
    expected = jaxrob.compare(*accurate)
    for name in ("difference", "p_value", "mean_difference", "mean_p_value"):
        assert getattr(found, name) == getattr(expected, name)
    about = CLASSIFIER, other, DATA, DARKER, 0.4, "top5_accuracy"
    few = strategies.FewImages(half_width=0.1)
    low, high = jaxrob.compare_sequentially(*about, strategy=few).dataset_interval
    assert low <= ones[0].robustness - ones[1].robustness <= high or high - low <= 0.2


def test_reports_say_it_in_words():
    one = assess_top_k()
    results = reporting.Results("net", None, (one,))
    for text in (
        reporting.to_markdown([results]),
        reporting.to_html([results]).partition("<script")[0],
        reporting.table([one]),
        reporting.plot(one).get_ylabel(),
    ):
        assert "top-5 accuracy" in text and "top5_accuracy" not in text


def scores_only():
    return jaxrob.Classifier(ranked_logits, KERNEL, outputs="scores")


WRONG = [
    ({"measure": "top12_accuracy"}, "fewer ranks .* 12"),
    ({"measure": "top12_accuracy", "strategy": FEW}, "fewer ranks"),
    ({"measure": "top1_accuracy"}, "measure"),
    ({"measure": "top05_accuracy"}, "measure"),
    # Other digits; a line's end.
    ({"measure": "top٥_accuracy"}, "measure"),
    ({"measure": "top5_accuracy\n"}, "measure"),
    ({"measure": 5}, "measure"),
    ({"classifier": scores_only()}, "outputs"),
    ({"measure": "top11_accuracy", "reduced": True}, "reduced"),
]


@pytest.mark.parametrize(("given", "named"), WRONG)
def test_wrong_requests(given, named):
    with pytest.raises((TypeError, ValueError), match=named):
        assess_top_k(**given)


def test_scores_have_no_ranks():
    curve = jaxrob.evaluate(scores_only(), DATA, DARKER, LEVELS)
    assert curve.rank is None and curve.counts.ranks is None
    with pytest.raises(ValueError, match="these have none"):
        metrics.top_k_accuracy(curve.counts, 2)


def test_wrong_ranks(curve):
    for rank, message in (
        (curve.rank * 0, "rank must be 0"),
        (curve.rank % 11 + 1, "rank must be 0"),
        (np.where(curve.rank == 11, 12, curve.rank), r"rank must lie in \[0, 11\]"),
        (curve.rank[:2], "rank must have the shape"),
        (curve.rank / 1, "rank must be an array"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            dataclasses.replace(curve, rank=rank)
    counts = curve.counts
    for ranks, message in (
        (counts.ranks[..., 1:], "at rank 0"),
        (counts.ranks[:, :, :, None], "counts.ranks must have the shape"),
        (np.concatenate([counts.ranks] * 2, -1), "must not add up"),
        (-counts.ranks, "counts.ranks must be at least 0"),
        (np.pad(counts.ranks, ((0, 0), (0, 0), (0, 2))), "fewer ranks than 12"),
    ):
        with pytest.raises(ValueError, match=message):
            metrics.top_k_accuracy(counts._replace(ranks=ranks), 2)
    with pytest.raises(ValueError, match="k must be at least 1"):
        metrics.top_k_accuracy(counts, 0)
    with pytest.raises(ValueError, match="top2_accuracy needs counts by the first 2"):
        metrics.top_k_accuracy(curve.confusion, 2)
