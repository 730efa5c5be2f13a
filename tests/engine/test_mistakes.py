"""Mistakes in how a classifier is given, which its answers show."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common.timing import compilations

import jaxrob
from jaxrob import RobustnessWarning, adversarial, alterations, roma, strategies

RANDOM = np.random.default_rng(0)
# Four classes, each bright in a quarter of its own.
LABELS = np.arange(64) % 4
IMAGES = np.float32(RANDOM.random((64, 8, 8, 1)) * 0.2)
for image, label in zip(IMAGES, LABELS):
    image[2 * label : 2 * label + 2] += 0.6
DATA = jaxrob.Dataset(IMAGES, LABELS)
BRIGHTNESS = alterations.brightness()


def logits(scale, images):
    quarters = images.reshape(len(images), 4, 16).mean(axis=2)
    return scale * (quarters - quarters.mean(axis=1, keepdims=True))


def probabilities(scale, images):
    return jax.nn.softmax(logits(scale, images))


def one_hot(scale, images):
    return jax.nn.one_hot(logits(scale, images).argmax(axis=1), 4)


def constant(scale, images):
    return jnp.tile(jnp.float32([0.3, 0.1, -0.2, 0.0]), (len(images), 1))


def by_evaluate(classifier, dataset=DATA):
    jaxrob.evaluate(classifier, dataset, BRIGHTNESS, [-0.5, 0, 0.5])


def by_assess(classifier, dataset=DATA):
    few = strategies.Uniform(3)
    return jaxrob.assess(classifier, dataset, BRIGHTNESS, 0.0, strategy=few).warnings


def by_roma(classifier, dataset=DATA):
    few = {"num_samples": 8, "estimator": "count", "key": jax.random.key(0)}
    return roma.assess(classifier, dataset.images, **few).warnings


def check_warned(call, classifier, text):
    """The text is in a warning and, where the call has a result, in its warnings."""
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", RobustnessWarning)
        kept = call(classifier)
    messages = [str(one.message) for one in raised]
    assert sum(text in message for message in messages) == 1, messages
    assert kept is None or any(text in message for message in kept)


class TestLogitsThatAreNone:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "function, text",
        [
            (probabilities, 'outputs="probabilities"'),
            (one_hot, 'outputs="scores"'),
            (lambda *of: 100 * probabilities(*of), "add up to 100, as percent"),
            (lambda *of: jax.nn.sigmoid(logits(*of)), 'outputs="sigmoid"'),
            (constant, "the same for every image"),
        ],
    )
    def test_are_seen(self, function, text):
        check_warned(by_evaluate, jaxrob.Classifier(function, 20.0), text)

    @pytest.mark.parametrize(
        "call", [by_assess, pytest.param(by_roma, marks=pytest.mark.slow)]
    )
    def test_are_seen_in_every_call(self, call):
        classifier = jaxrob.Classifier(probabilities, 20.0)
        check_warned(call, classifier, 'outputs="probabilities"')

    def test_half_precision_samples_and_batches(self):
        def samples(scale, images):
            rows = probabilities(scale / 4, images).astype(jnp.bfloat16)
            return jnp.stack([rows, rows[:, ::-1]])

        batches = [(IMAGES[:10], LABELS[:10]), (IMAGES[10:], LABELS[10:])]
        data = jaxrob.Dataset.from_batches(batches)
        given = jaxrob.Classifier(samples, 20.0), data, BRIGHTNESS, [0]
        for reduced in (False, True):
            with pytest.warns(RobustnessWarning, match='outputs="probabilities"'):
                jaxrob.evaluate(*given, reduced=reduced)

    @pytest.mark.slow
    @pytest.mark.parametrize("scale", [1e-3, 20.0])
    def test_flat_logits_are_logits(self, scale):
        for outputs in ("logits", "scores"):
            by_evaluate(on_host(logits, scale, outputs))

    def test_one_column_in_the_unit_interval(self):
        share = jaxrob.Classifier(lambda scale, images: images[:, 2, :1, 0], None)
        data = jaxrob.Dataset(IMAGES, np.int32(LABELS == 1))
        few = np.linspace(0, 63, 16).astype(int)
        is_1, found = LABELS[few] == 1, IMAGES[few, 2, 0, 0]
        right = [f"{((found > at) == is_1).mean():.0%}" for at in (0, 0.5)]
        text = "So {} of these are right, and {} as such".format(*right)
        check_warned(lambda one: by_assess(one, data), share, text)
        # Without labels nothing is right or wrong, and it is said once.
        bare = jaxrob.Dataset(IMAGES, None)
        with pytest.warns(RobustnessWarning, match="class 1") as raised:
            by_evaluate(share, bare)
        assert len(raised) == 1 and "right" not in str(raised[0].message)
        # And under the other name.
        low = jaxrob.Classifier(lambda _, images: images[:, 2, :1, 0] / 9, 1, "sigmoid")
        ones = jaxrob.Dataset(IMAGES, np.ones(len(IMAGES), np.int32))
        text = f"So 0% of these are right, and {(found > 0).mean():.0%} as logits"
        check_warned(lambda one: by_evaluate(one, ones), low, text)
        by_evaluate(low, jaxrob.Dataset(IMAGES, 0 * LABELS))

    @pytest.mark.parametrize(
        "of, text", [(lambda p: 100 * p, "percent"), (jnp.log, "log-prob")]
    )
    def test_one_column_that_is_no_logit(self, of, text):
        column = jaxrob.Classifier(lambda _, images: of(images[:, 2, :1, 0]), None)
        data = jaxrob.Dataset(IMAGES, np.int32(LABELS == 1))
        check_warned(lambda one: by_evaluate(one, data), column, text)
        if text == "percent":  # No logits are as large, whatever the labels.
            ones = jaxrob.Dataset(IMAGES, np.ones(len(IMAGES), np.int32))
            check_warned(lambda one: by_evaluate(one, ones), column, text)
            column = jaxrob.Classifier(lambda _, images: -images[:, 2, :1, 0] / 2, None)
            by_evaluate(column, ones)

    @pytest.mark.slow
    def test_declared_as_they_are(self):
        by_evaluate(jaxrob.Classifier(probabilities, 20.0, "probabilities"))
        by_evaluate(jaxrob.Classifier(one_hot, 20.0, "scores"))

    def test_answers_of_a_journal_tell_as_well(self, tmp_path):
        classifier = jaxrob.Classifier(probabilities, 20.0)
        for _ in range(2):
            with pytest.warns(RobustnessWarning, match='outputs="probabilities"'):
                jaxrob.evaluate(
                    classifier, DATA, BRIGHTNESS, [0], journal=tmp_path / "kept"
                )


def of_bytes(scale, images):
    """In [0, 1] all is black to it."""
    return logits(0.05 * scale, images.clip(100) - 100)


def on_host(function, scale=1.0, outputs="logits"):
    return jaxrob.Classifier.from_host(
        lambda images: np.asarray(function(scale, images)), 4, outputs
    )


OF_BYTES = {
    "function": lambda: jaxrob.Classifier(of_bytes, 1.0),
    "scores": lambda: jaxrob.Classifier(of_bytes, 1.0, "scores"),
    "host": lambda: on_host(of_bytes),
}


def by_attack(classifier):
    adversarial.fgsm(classifier, IMAGES, LABELS, epsilon=0.1)


DEAR = by_attack, by_roma


class TestPixelsOfBytes:
    @pytest.mark.parametrize("kind", OF_BYTES)
    def test_is_seen_of_every_kind(self, kind):
        classifier = OF_BYTES[kind]()
        text = "right for 25% of them, and for 100% times 255"
        check_warned(by_evaluate, classifier, text)

    @pytest.mark.parametrize(
        "call", [by_assess, *(pytest.param(by, marks=pytest.mark.slow) for by in DEAR)]
    )
    def test_is_seen_in_every_call(self, call):
        for _ in range(2):
            check_warned(call, OF_BYTES["function"](), "0 to 255")

    def test_without_labels(self):
        data = jaxrob.Dataset(np.uint8(255 * IMAGES), None)
        with pytest.warns(RobustnessWarning, match="answers nearly the same"):
            by_evaluate(OF_BYTES["host"](), data)

    @pytest.mark.slow
    def test_networks_that_are_silent(self):
        weights = np.random.default_rng(2).normal(size=(64, 4))

        def rightly_scaled(scale, images):
            return of_bytes(scale, 255 * images)

        def of_any_scale(scale, images):
            return logits(scale, images / images.max(axis=(1, 2, 3), keepdims=True))

        def untrained(bias, images):
            return (images.reshape(len(images), -1) - 0.5) @ weights + bias

        unlabelled = jaxrob.Dataset(IMAGES, None)
        for function in (rightly_scaled, logits, of_any_scale, untrained):
            for data in (DATA, unlabelled):
                by_evaluate(on_host(function), data)

    @pytest.mark.slow
    def test_a_network_is_asked_once_and_about_few_images(self):
        sizes = []

        def counted(images):
            sizes.append(len(images))
            return np.asarray(logits(20.0, images))

        many = jaxrob.Dataset(np.tile(IMAGES, (4, 1, 1, 1)), np.tile(LABELS, 4))
        classifier = jaxrob.Classifier.from_host(counted, 4)
        jaxrob.evaluate(classifier, many, BRIGHTNESS, [0.0])
        assert sizes == [64, 128, 64, 256]  # Alone, in company, as bytes; the answers.
        jaxrob.evaluate(classifier, many, BRIGHTNESS, [0.0])
        assert sizes[4:] == [256]


def dropped(scale, images):
    rows = logits(scale, images)
    return rows * jax.random.bernoulli(jax.random.key(1), 0.5, rows.shape)


def whitened(scale, images):
    rows = logits(scale, images)
    return rows - rows.mean(axis=0)


class TestTrainingMode:
    @pytest.mark.parametrize(
        "left_on", [whitened, pytest.param(dropped, marks=pytest.mark.slow)]
    )
    def test_is_seen(self, left_on):
        classifier = jaxrob.Classifier(left_on, 20.0)
        for call in (by_evaluate, by_evaluate, by_assess):
            check_warned(call, classifier, "left in training mode")

    def test_is_seen_in_a_function_on_the_host(self):
        with pytest.warns(RobustnessWarning, match=r"model\.eval\(\)"):
            by_evaluate(on_host(whitened, 20.0))

    @pytest.mark.parametrize("outputs", ["probabilities", "scores"])
    def test_classes_tell_where_confidences_cannot(self, outputs):
        """One answer in eight or so depends on the others, with a confidence of 1."""

        def saturated(scale, images):
            rows = logits(scale, images)
            rows = rows.at[:, 0].add((images.mean() - 0.25) / 2)
            if outputs == "probabilities":
                return jax.nn.one_hot(rows.argmax(axis=1), 4)
            return rows * 1e6

        images = np.float32(np.random.default_rng(1).random((200, 8, 8, 1)))
        images[0] = 1
        data = jaxrob.Dataset(images, np.arange(200) % 4)
        with pytest.warns(RobustnessWarning, match="left in training mode"):
            by_evaluate(jaxrob.Classifier(saturated, 1.0, outputs), data)

    @pytest.mark.parametrize("number", [1, 64])
    def test_a_network_that_keeps_a_state(self, number):
        calls = []

        def rolled(images):
            calls.append(len(images))
            rows = np.eye(4)[logits(20.0, images).argmax(axis=1)]
            return np.roll(rows, len(calls), axis=1)

        classifier = jaxrob.Classifier.from_host(rolled, 4, "probabilities")
        text = f"{number} of {number} images differently when it is asked the same"
        with pytest.warns(RobustnessWarning, match=text):
            jaxrob.evaluate(classifier, DATA[:number], BRIGHTNESS, [0])

    @pytest.mark.slow
    def test_what_rounding_decides_is_no_mistake(self):
        def tied(scale, images):
            rows = logits(scale, images)
            rows = rows.at[:, 1].set(rows[:, 0])
            # As much as another order of a sum makes.
            return rows.at[:, 0].multiply(1 + 1e-6 * jnp.sign(images.mean() - 0.3))

        def low_precision(scale, images):
            return logits(scale, images.astype(jnp.bfloat16)).astype(jnp.bfloat16)

        def drawn(scale, images, keys):
            noise = jax.vmap(lambda key: jax.random.normal(key, (4,)))(keys)
            return logits(scale, images) + 30 * noise

        bright = jaxrob.Dataset(np.float32(RANDOM.random((64, 8, 8, 1))), LABELS)
        for data in (DATA, bright):
            for function in (tied, low_precision):
                by_evaluate(jaxrob.Classifier(function, 20.0), data)
        stochastic = jaxrob.Classifier(drawn, 20.0, stochastic=True)
        jaxrob.evaluate(stochastic, DATA, BRIGHTNESS, [0], key=jax.random.key(0))

    def test_one_image_has_no_company(self):
        by_evaluate(on_host(whitened, 20.0, "scores"), DATA[:1])

    @pytest.mark.slow
    def test_no_program_is_compiled_for_it(self, monkeypatch):
        def of(scale):
            return jaxrob.Classifier(lambda _, images: logits(scale, images))

        by_evaluate(of(1.0))  # JAX's own small programs, of the first call alone.
        with compilations() as with_check:
            by_evaluate(of(2.0))
        monkeypatch.setattr("jaxrob._engine.mistakes.is_worthwhile", lambda *_: False)
        with compilations() as without:
            by_evaluate(of(3.0))
        assert len(with_check) == len(without) > 0
