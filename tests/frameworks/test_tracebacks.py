"""An error in a user's network: what is printed begins with the user's frames."""

import os
import traceback

import jax
import numpy as np
import pytest
from flax import linen

import jaxrob
from jaxrob import alterations

IMAGES = np.random.default_rng(0).random((8, 6, 6, 3)).astype(np.float32)
DATA = jaxrob.Dataset(IMAGES, np.arange(8) % 2)


def functions(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def own_code(images):
    raise LookupError("no such layer")


@pytest.mark.parametrize(
    "run",
    [
        lambda one: jaxrob.evaluate(one, DATA, alterations.brightness(), [0.0]),
        lambda one: jaxrob.roma.assess(one, IMAGES[:3], key=jax.random.key(0)),
    ],
)
def test_what_is_printed_of_an_error_on_the_host(run):
    with pytest.raises(LookupError) as caught:
        run(jaxrob.Classifier.from_host(own_code, 2))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].name == "own_code"
    assert sum(frame.filename != __file__ for frame in frames) <= 3
    printed = "".join(traceback.format_exception(caught.value))
    assert "pure_callback failed" not in printed
    assert "raised by the host function on a batch of the shape" in printed


def of_linen():
    class Net(linen.Module):
        @linen.compact
        def __call__(self, images):
            return own_code(images)

    return jaxrob.Classifier.from_linen(Net(), {})


def of_torch():
    torch = pytest.importorskip("torch", reason="needs the extra jaxrob[torch]")

    class Net(torch.nn.Module):
        def forward(self, images):
            return own_code(images)

    return jaxrob.Classifier.from_torch(torch.nn.Sequential(Net()))


def of_keras():
    os.environ.setdefault("KERAS_BACKEND", "jax")
    keras = pytest.importorskip("keras", reason="needs the extra jaxrob[keras]")

    class Net(keras.Model):
        def call(self, images):
            return own_code(images)

    net = Net()
    net.built = True
    return jaxrob.Classifier.from_keras(net)


def of_equinox():
    equinox = pytest.importorskip("equinox", reason="needs the extra jaxrob[equinox]")

    class Net(equinox.Module):
        def __call__(self, image):
            return own_code(image)

    return jaxrob.Classifier.from_equinox(Net())


@pytest.mark.parametrize("make", [of_linen, of_torch, of_keras, of_equinox])
def test_the_cause_begins_with_the_users_code(make):
    classifier = make()
    with pytest.raises(
        ValueError, match="(?s)failed on images.*no such layer"
    ) as caught:
        jaxrob.evaluate(classifier, DATA, alterations.brightness(), [0.0])
    assert functions(caught.value.__cause__)[1:] == ["own_code"]


def test_frameworks_layers_alone():
    """There is no code of the user's to begin with."""
    torch = pytest.importorskip("torch", reason="needs the extra jaxrob[torch]")
    classifier = jaxrob.Classifier.from_torch(torch.nn.Linear(5, 2))
    with pytest.raises(ValueError, match="failed on images") as caught:
        jaxrob.evaluate(classifier, DATA, alterations.brightness(), [0.0])
    assert functions(caught.value.__cause__)[-1] == "forward"
    assert functions(caught.value.__cause__)[0] != "_program"


def test_errors_of_our_own_stay_whole():
    classifier = jaxrob.Classifier.from_host(lambda images: images[:, :2], 2)
    with pytest.raises(ValueError, match="host function must return") as caught:
        jaxrob.evaluate(classifier, DATA, alterations.brightness(), [0.0])
    assert functions(caught.value)[-1] == "_check"


def test_a_setting_of_jax_keeps_all_frames():
    classifier = jaxrob.Classifier.from_host(own_code, 2)
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        with pytest.raises(LookupError) as caught:
            jaxrob.evaluate(classifier, DATA, alterations.brightness(), [0.0])
    finally:
        jax.config.update("jax_traceback_filtering", before)
    assert "evaluate_queue" in functions(caught.value)
