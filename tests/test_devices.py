"""One device, eight, and two processes of two devices give the same results."""

import os
import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

import jaxrob
from jaxrob import adversarial, alterations

from . import on_devices as script


def start(folder, num_devices, num_processes=1, process=0, port=0):
    # Most of the time is compilation; HLO, which holds the communication, is the same.
    environment = {
        "JAX_NUM_CPU_DEVICES": str(num_devices),
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }
    arguments = [str(part) for part in (folder, num_processes, process, port)]
    return subprocess.Popen(
        [sys.executable, script.__file__, *arguments],
        env=os.environ | environment,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(processes):
    try:
        for process in processes:
            _, error = process.communicate(timeout=400)
            assert process.returncode == 0, error
    finally:
        for process in processes:
            process.kill()


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory):
    """Results on "one" device, "all" eight, and by two processes, "0" and "1"."""
    folder = tmp_path_factory.mktemp("devices")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    end([start(folder, 2, 2, process, port) for process in range(2)])
    end([start(folder, 8)])
    return {found.stem: dict(np.load(found)) for found in folder.glob("*.npz")}


@pytest.fixture(scope="module")
def one(everywhere):
    return everywhere["one"]


@pytest.fixture(scope="module")
def found(everywhere):
    found = {where: found for where, found in everywhere.items() if where != "one"}
    assert found.keys() == {"all", "0", "1"}
    return found


def near_ties():
    """Returns bool `[L, N]`: whether the best two classes are within 1e-5."""
    data, classifier = script.make_data(), script.make_classifier()
    index = jnp.arange(len(data), dtype=jnp.uint32)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(7), index)
    ties = []
    for level in script.LEVELS:
        images = jnp.asarray(data.images, jnp.float32) / 255
        altered = jax.vmap(script.NOISE, (0, None, 0))(images, jnp.float32(level), keys)
        best = np.sort(np.exp(classifier.log_probabilities(altered)[0]))
        ties.append(best[:, -1] - best[:, -2] < 1e-5)
    return np.stack(ties)


@pytest.mark.slow
def test_same_answers(one, found):
    ties = near_ties()
    assert ties.mean() < 0.01, "too many near-ties for a test of anything"
    reference = [one[f"curve whole {part}"] for part in ("predicted", "confidence")]
    for device, arrays in ({"one": one} | found).items():
        for way in ("whole", "batches", "domain"):
            predicted = arrays[f"curve {way} predicted"]
            assert not ((predicted != reference[0]) & ~ties).any(), (device, way)
            confidence = arrays[f"curve {way} confidence"]
            np.testing.assert_allclose(confidence, reference[1], atol=1e-5)
            uncertainty = arrays[f"curve {way} uncertainty"]
            expected = one["curve whole uncertainty"]
            np.testing.assert_allclose(uncertainty, expected, atol=1e-5)
        difference = arrays["reduced confusion"] - one["reduced confusion"]
        assert np.abs(difference).sum() <= 2 * ties.sum()
        assert arrays["reduced confusion"].sum() == ties.size


@pytest.mark.slow
def test_same_answers_of_a_sharded_network(one, found):
    ties = near_ties()
    for arrays in found.values():
        for name in (
            f"split {axis} {run}" for axis in "ab" for run in ("first", "resumed")
        ):
            different = arrays[f"{name} predicted"] != one["curve whole predicted"]
            assert not (different & ~ties).any()
            confidence = arrays[f"{name} confidence"]
            expected = one["curve whole confidence"]
            np.testing.assert_allclose(confidence, expected, atol=1e-5)


@pytest.mark.slow
def test_same_scores(one, everywhere):
    for arrays in (one, everywhere["all"]):
        for way in ("whole", "batches", "on the host"):
            scores, expected = arrays[f"scores {way}"], one["scores whole"]
            np.testing.assert_allclose(scores, expected, atol=1e-5)
        # The first level is the identity, which `LEVELS` begins with, too.
        some = arrays["scores of some"]
        seen = ~np.isnan(some)
        assert seen.any()
        np.testing.assert_allclose(some[seen], expected[0][seen], atol=1e-5)


@pytest.mark.slow
def test_same_answers_on_parts(one, found):
    for arrays in ({"one": one} | found).values():
        np.testing.assert_array_equal(arrays["parts order"], one["parts order"])
        for way in ("whole", "batches"):
            predicted = arrays[f"parts {way} predicted"]
            np.testing.assert_array_equal(predicted, one["parts whole predicted"])
            for part in ("confidence", "uncertainty"):
                found_there, expected = (
                    arrays[f"parts {way} {part}"],
                    one[f"parts whole {part}"],
                )
                np.testing.assert_allclose(found_there, expected, atol=1e-6)


@pytest.mark.slow
def test_same_robustness_also_from_a_journal(one, found):
    for arrays in found.values():
        for run in ("first", "resumed"):
            for name in ("levels", "robustness"):
                np.testing.assert_array_equal(
                    arrays[f"{name} {run}"], one[f"{name} first"]
                )


@pytest.mark.slow
def test_same_local_robustness(one, found):
    for arrays in found.values():
        np.testing.assert_array_equal(arrays["roma status"], one["roma status"])
        np.testing.assert_array_equal(arrays["roma hits"], one["roma hits"])
        np.testing.assert_allclose(arrays["roma plr"], one["roma plr"], atol=1e-6)
        assert np.isfinite(one["roma plr"]).any() and one["roma hits"].any()


@pytest.mark.slow
def test_same_adversarial_examples(one, found):
    for where, arrays in found.items():
        for attack in ("pgd", "lbfgs") if where == "all" else ("pgd",):
            name = f"{attack} success"
            np.testing.assert_array_equal(arrays[name], one[name])
            assert one[name].any()
            # Kinks magnify rounding.
            name = f"{attack} distance"
            np.testing.assert_allclose(arrays[name], one[name], rtol=2e-2)


@pytest.mark.slow
def test_same_training(one, found):
    for where, arrays in found.items():
        for name in ("fitted", "posterior") if where == "all" else ("fitted",):
            variables = arrays[f"variables {name}"]
            np.testing.assert_allclose(variables, one[f"variables {name}"], atol=2e-4)
            # Far less than the difference to detect.
            assert np.ptp(variables) > 0.5


@pytest.mark.slow
def test_all_processes_find_the_very_same(found):
    first, second = found["0"], found["1"]
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


def test_what_is_no_mesh_is_refused():
    data, blur = script.make_data(), alterations.gaussian_blur()
    classifier = jaxrob.Classifier(lambda _, images: images[:, 0, :, 0])
    with pytest.raises(TypeError, match="mesh"):
        jaxrob.evaluate(classifier, data, blur, [0.5], mesh=jax.devices())
    with pytest.raises(TypeError, match="mesh"):
        adversarial.lbfgs(classifier, data.images, data.labels, mesh="all")


@pytest.mark.slow
def test_attacks_run_on_their_own_mesh_whatever_surrounds_them():
    data, classifier = script.make_data()[:2], script.make_classifier()
    with jax.set_mesh(Mesh(np.array(jax.devices()), ("other",))):
        adversarial.pgd(classifier, data.images, data.labels, epsilon=0.1, steps=2)
