"""MAITE's own evaluation, checks and types.

tests/maite has what needs neither.
"""

import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations, data, maite

generic = pytest.importorskip("maite.protocols.generic", reason="needs maite")
ic = pytest.importorskip("maite.protocols.image_classification", reason="needs maite")
tasks = pytest.importorskip("maite.tasks", reason="needs maite")

DIGITS = data.digits("test")[:120]
BLUR = alterations.gaussian_blur(0.0, 8.0)
NOISE = alterations.gaussian_noise(0.0, 0.8)
KEY = jax.random.key(0)


class Digits:
    """A data set as MAITE has them."""

    def __init__(self, images):
        self.images = np.moveaxis(images, -1, 1)
        names = dict(enumerate(DIGITS.class_names))
        self.metadata = {"id": "digits", "index2label": names}

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], np.eye(10)[DIGITS.labels[index]], {"id": index}


class Nearest:
    """The nearest mean, in torch where it is there, of bytes or of pixels in [0, 1]."""

    def __init__(self, weights, divisor):
        self.weights, self.divisor = weights, divisor
        names = dict(enumerate(DIGITS.class_names))
        self.metadata = {"id": "nearest mean", "index2label": names}

    def __call__(self, batch):
        images = np.stack([np.asarray(one) for one in batch]) / np.float32(self.divisor)
        found = images.reshape(len(images), -1) @ self.weights["kernel"]
        return [*(found + self.weights["bias"])]


UNIT = np.float32(DIGITS.images) / np.float32(255)


@pytest.mark.parametrize("alteration", [BLUR, NOISE], ids=lambda one: one.name)
def test_an_evaluation_of_maite_is_an_assessment(weights, alteration):
    model, source = Nearest(weights, 1), Digits(UNIT)
    levels = np.linspace(alteration.lower, alteration.upper, 9)
    found, _, _ = tasks.evaluate(
        model=model,
        dataset=source,
        batch_size=50,
        augmentation=maite.Augmentation(alteration, levels, KEY),
        metric=maite.Robustness(alteration, 0.85),
    )
    expected = jaxrob.assess(
        maite.classifier(model, "logits", "unit"),
        maite.dataset(source),
        alteration,
        0.85,
        strategy=jaxrob.strategies.Uniform(9),
        rule="linear",
        key=KEY,
    )
    np.testing.assert_array_equal(found["values"], expected.values)
    assert found["robustness"] == expected.robustness
    assert 0 < found["robustness"] < 1
    assert found["confidence_interval"] == expected.confidence_interval


def test_data_and_models_of_maite_are_as_arrays(weights):
    """Bytes too, and what is assessed has the answers of the model itself."""
    source, model = Digits(DIGITS.images), Nearest(weights, 255)
    dataset = maite.dataset(source)
    np.testing.assert_array_equal(dataset.images, DIGITS.images)
    np.testing.assert_array_equal(dataset.labels, DIGITS.labels)
    assert dataset.class_names == DIGITS.class_names
    classifier = maite.classifier(model, "logits", "bytes")
    curve = jaxrob.evaluate(classifier, dataset, BLUR, [0.0, 1.0, 2.0])
    predictions, _ = tasks.predict(model=model, dataset=source, batch_size=7)
    answers = [np.argmax(one) for batch in predictions for one in batch]
    np.testing.assert_array_equal(curve.predicted[0], answers)
    # The bytes that the model gets are those of the augmentation.
    for level, answered in zip([1.0, 2.0], curve.predicted[1:]):
        augmentation = maite.Augmentation(BLUR, level)
        predictions, batches = tasks.predict(
            model=model,
            dataset=source,
            batch_size=40,
            augmentation=augmentation,
            return_augmented_data=True,
        )
        answers = [np.argmax(one) for batch in predictions for one in batch]
        np.testing.assert_array_equal(answered, answers)
        assert batches[0][0][0].dtype == np.uint8


def test_objects_are_of_the_protocols():
    augmentation, metric = maite.Augmentation(BLUR, [0.0]), maite.Robustness(BLUR)
    for module in (ic, generic):
        assert isinstance(augmentation, module.Augmentation)
        assert isinstance(metric, module.Metric)
        assert not isinstance(augmentation, module.Metric)
        assert not isinstance(metric, module.Dataset)


def test_maites_spotcheck_finds_nothing(weights):
    pytest.importorskip("beartype", reason="needs maite[experimental]")
    from maite.spotcheck import spotcheck_component

    augmentation = maite.Augmentation(BLUR, [0.0, 4.0, 8.0])
    found, _, _ = tasks.evaluate(
        model=spotcheck_component(ic.Model)(Nearest(weights, 1)),
        dataset=spotcheck_component(ic.Dataset)(Digits(UNIT)),
        batch_size=60,
        augmentation=spotcheck_component(ic.Augmentation)(augmentation),
        metric=spotcheck_component(ic.Metric)(maite.Robustness(BLUR)),
    )
    assert 0 < found["robustness"] < 1


TYPES = """
from maite.protocols import image_classification as ic
from maite.tasks import evaluate

import jaxrob

blur = jaxrob.alterations.gaussian_blur(0.0, 2.0)
augmentation: ic.Augmentation = jaxrob.maite.Augmentation(blur, [0.0, 2.0])
metric: ic.Metric = jaxrob.maite.Robustness(blur)


def run(model: ic.Model, dataset: ic.Dataset) -> None:
    ours = {"model": jaxrob.maite.classifier(model, "logits", "bytes")}
    both = jaxrob.maite.Augmentation(blur, 0.5), jaxrob.maite.Robustness(blur)
    evaluate(model=model, dataset=dataset, augmentation=both[0], metric=both[1])
    jaxrob.evaluate(ours["model"], jaxrob.maite.dataset(dataset), blur, [0.0])
"""
WRONG = "\nwrong: ic.Augmentation = jaxrob.maite.Robustness(blur)\n"


@pytest.mark.slow
@pytest.mark.parametrize(("program", "errors"), [(TYPES, 0), (TYPES + WRONG, 1)])
def test_types_are_those_of_the_protocols(program, errors, tmp_path):
    """By pyright, which MAITE checks its own implementations with."""
    pytest.importorskip("pyright", reason="needs pyright")
    (tmp_path / "program.py").write_text(program)
    package = str(pathlib.Path(jaxrob.__file__).parents[1])
    settings = {"extraPaths": [package], "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath"]
        + [sys.executable, "-p", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    messages = [one["message"] for one in found["generalDiagnostics"]]
    assert len(messages) == errors, messages
