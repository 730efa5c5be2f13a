"""An error in a user's network: what is printed begins with the user's frames."""

import os
import runpy
import traceback

import jax
import numpy as np
import pytest
from flax import linen

import jaxrob
from jaxrob import alterations

IMAGES = np.random.default_rng(0).random((8, 6, 6, 3)).astype(np.float32)
DATA = jaxrob.Dataset(IMAGES, np.arange(8) % 2)

PROGRAM = """
import sys, traceback
import jax
import numpy as np
import jaxrob

def helper(images):
    return images @ np.zeros((5, 2), np.float32)

def apply_fn(variables, images):
    return helper(images)

def predict(images):
    return helper(images)

images = np.random.default_rng(0).random((3, 4, 4, 3), np.float32)
data = jaxrob.Dataset(images, np.arange(3) % 2)

def in_jax():
    assess(jaxrob.Classifier(apply_fn))

def on_host():
    assess(jaxrob.Classifier.from_host(predict, 2))

def assess(classifier):
    jaxrob.assess(classifier, data, jaxrob.alterations.brightness())

def sampled():
    host = jaxrob.Classifier.from_host(predict, 2)
    jaxrob.roma.assess(host, images, key=jax.random.key(0))

for run in (in_jax, on_host, sampled):
    print("=== next", file=sys.stderr)
    try:
        run()
    except Exception:
        traceback.print_exc()
"""


def printed_frames(printed):
    """The file and the function of each frame, in order."""
    lines = [line.split(", ") for line in printed.splitlines() if '  File "' in line]
    return [(one[0].split("/")[-1].strip('"'), one[2][3:]) for one in lines]


@pytest.mark.slow
def test_what_is_printed(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text(PROGRAM)
    runpy.run_path(str(path))
    in_jax, *on_host = capsys.readouterr().err.split("=== next\n")[1:]
    frames = printed_frames(in_jax)
    assert frames[:2] == [("mine.py", "apply_fn"), ("mine.py", "helper")], in_jax
    assert "ValueError: the classifier failed on images of the shape" in in_jax
    for printed in on_host:
        frames = printed_frames(printed)
        assert frames[0][0] == "mine.py", printed
        assert frames[-2:] == [("mine.py", "predict"), ("mine.py", "helper")], printed
        assert sum(file != "mine.py" for file, _ in frames) <= 3, printed
        assert "pure_callback failed" not in printed
        assert "raised by the host function on a batch of the shape" in printed


def functions(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def own_code(images):
    raise LookupError("no such layer")


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
