"""Keras models: inside the step on JAX, on the host elsewhere; files of strangers."""

import io
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras", reason="needs the extra jaxrob[keras]")

import h5py  # noqa: E402  # Keras needs it.

import jaxrob  # noqa: E402
from jaxrob import alterations  # noqa: E402

layers = keras.layers
RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (20, 8, 8, 3), dtype=np.uint8)
DATA = jaxrob.Dataset(IMAGES, RANDOM.integers(0, 4, 20), name="random")
BRIGHTNESS = alterations.brightness()

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="Keras is on another backend here"
)


def model(activation=None, seed=0):
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3, activation="tanh"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(4, activation=activation),
        ]
    )


def answers(net):
    return np.asarray(net.predict(IMAGES / np.float32(255), verbose=0))


def evaluated(classifier, data=DATA, level=0.0):
    if not isinstance(classifier, jaxrob.Classifier):
        classifier = jaxrob.Classifier.from_keras(classifier)
    return jaxrob.evaluate(classifier, data, BRIGHTNESS, [level])


def test_answers_are_those_of_the_model(tmp_path):
    net = model("softmax")
    net.save(tmp_path / "net.keras")
    for given in (net, tmp_path / "net.keras"):
        curve = evaluated(jaxrob.Classifier.from_keras(given))
        np.testing.assert_array_equal(curve.predicted[0], answers(net).argmax(1))
        np.testing.assert_allclose(curve.confidence[0], answers(net).max(1), atol=1e-5)


def test_the_classifier_is_a_snapshot_and_compiles_once():
    from jaxrob._engine import step

    net = model()
    classifier = jaxrob.Classifier.from_keras(net)
    before = evaluated(classifier, level=0.3)
    compiled = step.answer_at_levels._cache_size()
    net.set_weights([2 * weight for weight in net.get_weights()])
    net.layers[0].trainable = False
    after = evaluated(classifier, level=0.3)
    np.testing.assert_array_equal(before.confidence, after.confidence)
    assert (evaluated(net, level=0.3).confidence != before.confidence).any()
    assert step.answer_at_levels._cache_size() == compiled


def test_gradients_are_finite_differences(check_gradients):
    check_gradients(jaxrob.Classifier.from_keras(model("softmax")), IMAGES[:3])


def test_outputs_are_read_from_the_last_layer():
    kinds = {"softmax": "probabilities", "sigmoid": "sigmoid", None: "logits"}
    for activation, outputs in kinds.items():
        assert jaxrob.Classifier.from_keras(model(activation)).outputs == outputs


class Own(keras.Model):
    """A model without a configuration of its own."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(4)

    def call(self, images):
        return self.dense(keras.ops.reshape(images, (len(images), -1)))


class WithSpare(Own):
    """Its softmax is for predictions, and comes last among its layers."""

    def __init__(self):
        super().__init__()
        self.softmax = layers.Softmax()


def test_the_last_layer_only_says_the_default():
    net = WithSpare()
    net(np.zeros((1, 8, 8, 3), np.float32))
    curve = evaluated(jaxrob.Classifier.from_keras(net, "logits"))
    np.testing.assert_array_equal(curve.predicted[0], answers(net).argmax(1))
    default = jaxrob.Classifier.from_keras(net)
    assert default.outputs == "probabilities"
    with pytest.raises(ValueError, match="outputs="):
        evaluated(default)


def set_otherwise(net):
    net.layers[0].activation = keras.activations.relu


@pytest.mark.parametrize(
    "change",
    [lambda net: net.add(layers.Activation("relu")), set_otherwise],
    ids=["another layer", "another activation"],
)
def test_a_model_whose_layers_change_is_refused(change):
    net = model()
    classifier = jaxrob.Classifier.from_keras(net)
    net.compile("sgd", "sparse_categorical_crossentropy")
    net.fit(IMAGES / 255, DATA.labels, verbose=0)
    net.trainable = False
    evaluated(classifier)
    change(net)
    with pytest.raises(ValueError, match="model sequential.* was changed after it was"):
        evaluated(classifier)
    jaxrob.Classifier.from_keras(net).num_classes((8, 8, 3))


def bright():
    """Two classes: dark images and bright ones."""
    labels = np.arange(40) % 2
    images = RANDOM.random((40, 8, 8, 3)) * 0.3 + 0.6 * labels[:, None, None, None]
    return np.float32(images), labels


@pytest.mark.parametrize(
    "first",
    [
        [layers.RandomFlip(), layers.Rescaling(1 / 255)],
        [layers.Normalization(mean=127.0, variance=3600.0)],
    ],
    ids=["augmentation", "normalization"],
)
def test_a_model_of_bytes_is_seen_wherever_it_divides(first):
    keras.utils.set_random_seed(0)
    last = layers.Dense(2)
    net = keras.Sequential([keras.Input((8, 8, 3)), *first, layers.Flatten(), last])
    weights = np.ones((192, 1), np.float32) * [[-1, 1]] / 20
    middle = 0.6 if net.layers[0].name.startswith("norm") else 8.6 * 0.5
    last.set_weights([weights, np.float32([middle, -middle])])
    images, labels = bright()
    data = jaxrob.Dataset(images, labels)
    given = jaxrob.Preprocessing(scale=255)
    right = jaxrob.Classifier.from_keras(net, preprocessing=given)
    assert evaluated(right, data).accuracy[0] > 0.9
    with pytest.warns(jaxrob.RobustnessWarning, match="scale=255"):
        evaluated(net, data)


def test_models_of_other_floating_types():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        net = model()
    finally:
        keras.config.set_dtype_policy("float32")
    net.set_weights(model().get_weights())
    found, plain = (evaluated(one, level=0.3) for one in (net, model()))
    np.testing.assert_allclose(found.confidence, plain.confidence, atol=0.02)


def test_models_that_are_refused():
    with pytest.raises(ValueError, match="model must be built"):
        jaxrob.Classifier.from_keras(Own())
    with pytest.raises(TypeError, match="model must be a keras.Model or the path"):
        jaxrob.Classifier.from_keras(print)


@pytest.mark.parametrize("name", ["net.h5", "net.pkl"])
def test_other_files_are_refused_before_they_are_opened(name):
    with pytest.raises(ValueError, match="only .keras files are read"):
        jaxrob.Classifier.from_keras(name)


def test_code_in_a_file_is_not_run(tmp_path):
    path = tmp_path / "net.keras"
    source = keras.Input((8, 8, 3))
    made = layers.Lambda(lambda x: 2 * x, output_shape=(8, 8, 3))(source)
    keras.Model(source, layers.Dense(4)(layers.Flatten()(made))).save(path)
    with pytest.raises(ValueError, match="net.keras: Keras cannot read it safely"):
        jaxrob.Classifier.from_keras(path)


def test_an_old_keras_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "net.keras"
    model().save(path)
    monkeypatch.setattr(keras, "__version__", "3.11.2")
    with pytest.raises(ValueError, match="3.11.3 and later do not: pip install"):
        jaxrob.Classifier.from_keras(path)


def rewritten(path, change):
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def bomb(parts):
    parts["assets/bomb"] = bytes(300 << 20)


def without_weights(parts):
    del parts["model.weights.h5"]


def huge(parts):
    """Weights that claim 4 TiB."""
    data = io.BytesIO(parts["model.weights.h5"])
    with h5py.File(data, "r+") as file:
        file.create_dataset("more", (1 << 40,), "f4", chunks=(1 << 20,))
    parts["model.weights.h5"] = data.getvalue()


def linked(parts):
    data = io.BytesIO()
    with h5py.File(data, "w") as file:
        file["layers"] = h5py.ExternalLink("/etc/hostname", "/secret")
    parts["model.weights.h5"] = data.getvalue()


@pytest.mark.parametrize(
    "change, message",
    [
        (bomb, "claims to unpack to"),
        (without_weights, "not a .keras file"),
        (linked, "its weights hold a link"),
        (huge, "its weights claim to have 4398"),
    ],
)
def test_files_of_strangers(tmp_path, change, message):
    path = tmp_path / "net.keras"
    model().save(path)
    rewritten(path, change)
    with pytest.raises(ValueError, match=message):
        jaxrob.Classifier.from_keras(path)


def test_a_file_cut_short_is_refused_in_words(tmp_path):
    whole, path = tmp_path / "whole.keras", tmp_path / "net.keras"
    model().save(whole)
    content = whole.read_bytes()
    for length in range(0, len(content), len(content) // 5):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="net.keras"):
            jaxrob.Classifier.from_keras(path)


ON_THE_HOST = """
import warnings, numpy as np, jaxrob
warnings.simplefilter("ignore")
classifier = jaxrob.Classifier.from_keras({path!r})
data = jaxrob.Dataset(images := np.load({images!r}), np.zeros(len(images), int))
asked = classifier, data, jaxrob.alterations.brightness(), [0.0]
curve = jaxrob.evaluate(*asked)
import keras
if keras.backend.backend() == "torch":
    import torch
    with torch.autocast("cpu", torch.bfloat16):
        assert (jaxrob.evaluate(*asked).confidence == curve.confidence).all()
print(keras.backend.backend(), *curve.predicted[0])
"""


@pytest.mark.parametrize("backend", ["torch", ""])
def test_another_backend_gives_the_same_answers(tmp_path, backend):
    """Without a backend in the environment it is JAX."""
    if backend:
        pytest.importorskip(backend)
    net, path = model("softmax"), tmp_path / "net.keras"
    net.save(path)
    np.save(tmp_path / "images.npy", IMAGES)
    code = ON_THE_HOST.format(path=str(path), images=str(tmp_path / "images.npy"))
    environment = {**os.environ, "KERAS_BACKEND": backend}
    if not backend:
        del environment["KERAS_BACKEND"]
    asked = [sys.executable, "-c", code]
    found = subprocess.run(asked, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    name, *predicted = found.stdout.split()[-21:]
    assert name == (backend or "jax")
    assert list(map(int, predicted)) == answers(net).argmax(1).tolist()
