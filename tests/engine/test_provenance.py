"""The provenance of a result, and what a call does before it computes."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import Classifier, Dataset, RobustnessWarning
from jaxrob._arguments.texts import warn
from jaxrob._classifiers.trace import fingerprinted_classifier
from jaxrob._engine.evaluate import Arguments, checked, prepare_run, source_ahead
from jaxrob._engine.provenance import (
    _fingerprint,
    classifier_fingerprint,
    dataset_fingerprint,
    provenance,
)

IMAGES = np.random.default_rng(0).random((7, 3, 3, 1), np.float32)
LABELS = np.arange(7) % 2


def linear(weights, images, scale=1.0):
    return images.reshape(len(images), -1) @ weights * scale


def classifier(apply_fn=linear, value=1.0):
    return Classifier(apply_fn, np.full((9, 2), value, np.float32))


def fingerprint(classifier, image_shape=(3, 3, 1)):
    return classifier_fingerprint(fingerprinted_classifier(classifier, image_shape))


def test_any_callable_has_a_fingerprint():
    class Callable:
        def __call__(self, weights, images):
            return linear(weights, images)

    same = (linear, Callable(), lambda weights, images: linear(weights, images))
    others = (functools.partial(linear, scale=2.0), jax.jit(linear))
    found = [fingerprint(classifier(function)) for function in (*same, *others)]
    assert all(len(one) == 32 for one in found)
    # By what they compute, whatever they are called.
    assert len(set(found[:3])) == 1 and len(set(found)) == 3


def test_other_variables_are_another_classifier():
    one = fingerprint(classifier())
    assert fingerprint(classifier()) == one
    assert fingerprint(classifier(value=2.0)) != one
    assert fingerprint(Classifier(linear, classifier().variables, "sigmoid")) != one


def test_a_data_set_is_the_same_in_any_batches():
    whole = dataset_fingerprint(Dataset(IMAGES, LABELS))
    for size in (1, 3, 7):
        batches = [
            (IMAGES[i : i + size], LABELS[i : i + size]) for i in range(0, 7, size)
        ]
        assert dataset_fingerprint(Dataset.from_batches(batches)) == whole
    assert dataset_fingerprint(Dataset(jnp.asarray(IMAGES), LABELS)) == whole
    assert dataset_fingerprint(Dataset(IMAGES, 1 - LABELS)) != whole
    assert dataset_fingerprint(Dataset(IMAGES[::-1], LABELS)) != whole
    assert dataset_fingerprint(Dataset(IMAGES.reshape(7, 1, 9, 1), LABELS)) != whole


def test_it_is_json_and_holds_the_key():
    dataset = Dataset(IMAGES, LABELS, name="some")
    for key in (jax.random.key(3), jax.random.PRNGKey(3)):
        found = provenance(classifier(), dataset, key)
        assert found["key"] == [0, 3]
        assert found["dataset"]["name"] == "some"
        assert found["versions"]["jax"] == jax.__version__
        assert json.loads(json.dumps(found)) == found
    assert provenance(classifier(), dataset)["key"] is None


def test_functions_without_variables_are_distinguished_by_code_and_constants():
    table = np.zeros((9, 2000), np.float32)
    other = table.copy()
    other[4, 1000] = 1  # in the middle, which a repr leaves out

    def by(array, factor=1.0):
        return fingerprint(
            Classifier(lambda _, x: factor * x.reshape(len(x), -1) @ array)
        )

    with pytest.warns(RobustnessWarning, match="18,000 numbers"):
        found = [by(table), by(other), by(table, 2.0), by(table.copy())]
    assert len(set(found)) == 3 and found[0] == found[3]


RUN_IMAGES = np.random.default_rng(0).random((6, 4, 4, 1), np.float32)
RUN_LABELS = np.arange(6) % 3
KERNEL = np.ones((16, 3), np.float32)
KERNEL[0] = 0
BRIGHTNESS = jaxrob.alterations.brightness(-0.5, 0.5)
TWICE = jaxrob.Alteration("twice", lambda image, level: image * (1 + level), 0.0, 1.0)


def arguments(function=None, labels=RUN_LABELS, alterations=(BRIGHTNESS,), **given):
    def apply(variables, images):
        return images.reshape(len(images), -1) @ variables

    classifier = jaxrob.Classifier(function or apply, KERNEL)
    data = jaxrob.Dataset(RUN_IMAGES, labels)
    given = {"key": None, "mesh": None} | given
    return checked(Arguments(classifier, data, list(alterations), **given))


def test_arguments_are_checked_without_a_trace():
    def apply(variables, images):
        raise AssertionError("traced")

    arguments(apply)
    with pytest.raises(ValueError, match="batch_size"):
        arguments(apply, batch_size=0)
    with pytest.raises(TypeError, match="alteration"):
        arguments(apply, alterations=[BRIGHTNESS, "blur"])


def test_the_key_is_threefry_and_the_devices_are_chosen():
    found = arguments(key=jax.random.key(1, impl="rbg"))
    assert str(jax.random.key_impl(found.key)) == "threefry2x32"
    assert found.mesh.devices == jax.local_devices()


@pytest.mark.slow
def test_a_run_has_labels_and_classes():
    with prepare_run(arguments(labels=None)) as run:
        assert run.execution.info.num_classes == 3 and run.dataset.labels.shape == (6,)
        assert run.source()["dataset"]["labels"] == "own answers"
        np.testing.assert_array_equal(run.image, RUN_IMAGES[0])


def test_data_are_read_for_the_provenance_once_and_only_if_it_is_asked_for(
    tmp_path, monkeypatch
):
    found = []
    read = _fingerprint
    monkeypatch.setattr(
        "jaxrob._engine.provenance._fingerprint",
        lambda data: found.append(1) or read(data),
    )
    with prepare_run(arguments()):
        pass
    assert not found
    with prepare_run(arguments(journal=tmp_path / "journal")) as run:
        assert run.source() == run.source()
    assert len(found) == 1


def test_journal_and_bar_are_closed_whatever_happens(tmp_path, capsys):
    given = arguments(journal=tmp_path / "journal", progress=True)
    with pytest.raises(RuntimeError), prepare_run(given) as run:
        raise RuntimeError
    assert run.execution.bar.disable  # as tqdm says of a closed one
    assert run.execution.cached._journal._file.closed
    assert "brightness" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::jaxrob.RobustnessWarning")
def test_warnings_are_of_all_or_of_one_alteration():
    with prepare_run(arguments(alterations=[BRIGHTNESS, TWICE])) as run:
        assert [bool(one) for one in run.warned_of_each] == [False, True]
        assert run.warned == []
        warn("said while it runs")
    warn("said after it")
    assert run.warned == ["said while it runs"]


@pytest.mark.parametrize("at_least", [0, 2**24], ids=["on a thread", "at once"])
def test_the_provenance_is_found_ahead(at_least, monkeypatch):
    monkeypatch.setattr("jaxrob._engine.evaluate._BYTES_FOR_A_THREAD", at_least)
    with prepare_run(arguments()) as run, source_ahead(run) as ahead:
        given = arguments()
        assert ahead.source() == jaxrob.provenance(given.classifier, given.dataset)
    assert ahead.source() is ahead.source()


@pytest.mark.slow
def test_the_thread_of_the_provenance_raises_its_error(monkeypatch):
    monkeypatch.setattr("jaxrob._engine.evaluate._BYTES_FOR_A_THREAD", 0)

    def fails(data):
        raise MemoryError("no room")

    monkeypatch.setattr("jaxrob._engine.provenance._fingerprint", fails)
    with prepare_run(arguments()) as run, source_ahead(run) as ahead:
        with pytest.raises(MemoryError, match="no room"):
            ahead.source()
    with pytest.raises(MemoryError, match="no room"):
        jaxrob.assess(*arguments()[:2], BRIGHTNESS, threshold=0.3)
