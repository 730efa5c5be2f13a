"""What a call does before it computes."""

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob._arguments.warnings import warn
from jaxrob._engine import provenance
from jaxrob._run import prepare
from jaxrob._run.prepare import Arguments, checked, prepare_run, source_ahead

IMAGES = np.random.default_rng(0).random((6, 4, 4, 1), np.float32)
LABELS = np.arange(6) % 3
KERNEL = np.ones((16, 3), np.float32)
KERNEL[0] = 0
BRIGHTNESS = jaxrob.alterations.brightness(-0.5, 0.5)
TWICE = jaxrob.Alteration("twice", lambda image, level: image * (1 + level), 0.0, 1.0)


def arguments(function=None, labels=LABELS, alterations=(BRIGHTNESS,), **given):
    def apply(variables, images):
        return images.reshape(len(images), -1) @ variables

    classifier = jaxrob.Classifier(function or apply, KERNEL)
    data = jaxrob.Dataset(IMAGES, labels)
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
        np.testing.assert_array_equal(run.image, IMAGES[0])


def test_data_are_read_for_the_provenance_once_and_only_if_it_is_asked_for(
    tmp_path, monkeypatch
):
    found = []
    read = provenance.dataset_fingerprint
    monkeypatch.setattr(
        provenance, "dataset_fingerprint", lambda data: found.append(1) or read(data)
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
    monkeypatch.setattr(prepare, "_BYTES_FOR_A_THREAD", at_least)
    with prepare_run(arguments()) as run, source_ahead(run) as ahead:
        given = arguments()
        assert ahead.source() == jaxrob.provenance(given.classifier, given.dataset)
    assert ahead.source() is ahead.source()


@pytest.mark.slow
def test_the_thread_of_the_provenance_raises_its_error(monkeypatch):
    monkeypatch.setattr(prepare, "_BYTES_FOR_A_THREAD", 0)

    def fails(data):
        raise MemoryError("no room")

    monkeypatch.setattr(provenance, "dataset_fingerprint", fails)
    with prepare_run(arguments()) as run, source_ahead(run) as ahead:
        with pytest.raises(MemoryError, match="no room"):
            ahead.source()
    with pytest.raises(MemoryError, match="no room"):
        jaxrob.assess(*arguments()[:2], BRIGHTNESS, threshold=0.3)
