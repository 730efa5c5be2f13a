"""Functions of the user's that differ never share answers, and equal ones do."""

import dataclasses
import functools
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import alterations, roma, strategies
from jaxrob.alterations._moves import fingerprinted_alteration
from jaxrob.roma._perturbation import fingerprinted_perturbation

from ..linear import linear

RANDOM = np.random.default_rng(0)
IMAGES = np.float32(RANDOM.random((30, 6, 6, 1)))
WEIGHTS = np.float32(RANDOM.normal(size=(36, 3)))
LABELS = (IMAGES.reshape(30, 36) @ WEIGHTS).argmax(1)
DATA = jaxrob.Dataset(IMAGES, LABELS)
KEY = jax.random.key(0)


CLASSIFIER = jaxrob.Classifier(linear, WEIGHTS)


def towards(image, level, texture):
    return (1 - level) * image + level * texture


class Towards:
    """A callable object, whose name is the same whatever it holds."""

    def __init__(self, texture):
        self.texture = texture

    def __call__(self, image, level):
        return towards(image, level, self.texture)


def closure(texture):
    return lambda image, level: towards(image, level, texture)


def partial(texture):
    """Over an array so large that its repr leaves out where the textures differ."""
    return functools.partial(towards_middle, large=np.pad(texture[..., 0], 50))


def towards_middle(image, level, large):
    return towards(image, level, large[50:-50, 50:-50, None])


MAKERS = [closure, Towards, partial]
FIRST, SECOND = (np.zeros((6, 6, 1), np.float32) for _ in range(2))
SECOND[:3] = 1


def named(fn, **settings):
    return jaxrob.Alteration("own", fn, 0.0, 1.0, **settings)


def noise_of(size):
    def fn(image, level, key, size=size):
        return (image + level * size * jax.random.uniform(key, image.shape)).clip(0, 1)

    return named(fn, stochastic=True)


def prepared(texture):
    def fn(pair, level):
        return towards(pair[0], level, pair[1])

    prepare = functools.partial(lambda texture, image: (image, texture), texture)
    return named(fn, prepare=prepare)


def in_steps(n):
    return named(closure(FIRST), representative=lambda levels: np.round(levels * n) / n)


def pairs():
    """Two alterations of the same name and range, made in several ways."""
    for maker in MAKERS:
        yield maker.__name__, [named(maker(one)) for one in (FIRST, SECOND)]
    own = [named(closure(one)) for one in (FIRST, SECOND)]
    makers = alterations.gaussian_blur, alterations.defocus_blur
    yield "bound method", [named(maker(0.0, 1.0).__call__) for maker in makers]
    yield "compose", [alterations.compose([one], name="own") for one in own]
    yield "rescale", [alterations.rescale(one, 0.0, 1.0) for one in own]
    yield "prepare", [prepared(one) for one in (FIRST, SECOND)]
    yield "random", [noise_of(size) for size in (0.1, 0.2)]
    # A function on the host, identified by its effect.
    yield "representative", [in_steps(n) for n in (4, 5)]


PAIRS = dict(pairs())


def assess(alteration, journal=None, classifier=CLASSIFIER):
    return jaxrob.assess(
        classifier,
        DATA,
        alteration,
        strategy=strategies.Uniform(5),
        key=KEY,
        journal=journal,
    )


def answers(assessments):
    return [one.curve.confidence for one in assessments]


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_alterations_that_differ_have_another_identity(pair):
    first, again, second = (
        fingerprinted_alteration(one, (6, 6, 1)) for one in (*pair[:1], *pair)
    )
    assert first == again != second
    assert first.description == again.description != second.description


@pytest.mark.slow
def test_alterations_that_differ_share_no_answers_in_one_journal(tmp_path):
    pair = PAIRS["Towards"]
    first, second = plain = assess(pair)
    expected = answers(plain)
    assert np.abs(expected[0] - expected[1]).max() > 1e-2
    np.testing.assert_array_equal(answers(assess(pair, tmp_path / "journal")), expected)
    # Nor in a later call.
    np.testing.assert_array_equal(
        answers(assess(pair[::-1], tmp_path / "journal")), expected[::-1]
    )
    jaxrob.compare(first, assess(pair[0]))
    with pytest.raises(ValueError, match="the same alteration's parameters"):
        jaxrob.compare(first, second)


def test_the_librarys_alterations_need_no_trace():
    presets = alterations.presets
    members = [alterations.gaussian_noise(0.0, 0.1), alterations.gaussian_blur()]
    own = (*presets.cnn_2020(), *presets.asap_2022(), *presets.bnn_2024())
    for one in (*own, alterations.compose(members)):
        assert fingerprinted_alteration(one, (28, 28, 1)) is one
        assert "0x" not in one.description
        assert one.description.startswith(f"jaxrob {jaxrob.__version__}: ")


def test_a_host_classifier_has_a_name_and_a_version_in_a_journal(tmp_path):
    def predict(images):
        calls.append(len(images))
        return images.reshape(len(images), -1) @ WEIGHTS

    def of(**identity):
        return jaxrob.Classifier.from_host(predict, 3, **identity)

    calls, path, fade = [], tmp_path / "journal", PAIRS["closure"][0]
    for unknown in (of(), of(name="linear"), of(version="1")):
        with pytest.raises(ValueError, match="from_host a name and a version"):
            assess(fade, path, unknown)
    assert not path.exists() and not calls
    assess(fade, path, of(name="linear", version="1"))
    number = len(calls)
    assess(fade, path, of(name="linear", version="1"))
    assert len(calls) == number > 0
    with pytest.raises(ValueError, match="classifier was"):
        assess(fade, path, of(name="linear", version="2"))
    assert assess(fade, None, of()).provenance["classifier"] is None


def test_an_alteration_that_calls_the_host_has_no_identity(tmp_path):
    def on_host(shift):
        def fn(image, level):
            kind = jax.ShapeDtypeStruct(image.shape, image.dtype)
            moved = jax.pure_callback(
                lambda x: np.roll(x, shift, 0), kind, image, vmap_method="sequential"
            )
            return towards(image, level, moved)

        return named(fn)

    first, second = (
        fingerprinted_alteration(on_host(shift), (6, 6, 1)) for shift in (1, 2)
    )
    assert first != second
    found = assess(on_host(1))
    assert found.provenance["alteration"] is None
    with pytest.raises(ValueError, match="first"):
        jaxrob.compare(found, found)
    with pytest.raises(ValueError, match="journal.*alterations.*own"):
        assess(on_host(1), tmp_path / "journal")
    with pytest.raises(ValueError, match="journal.*perturbations"):
        draw(on_host(1), tmp_path / "journal")


def draw(perturbation, journal=None):
    return roma.assess(
        CLASSIFIER,
        IMAGES,
        num_samples=64,
        estimator="count",
        perturbation=perturbation,
        key=KEY,
        journal=journal,
    )


def sampler(scale):
    return lambda key, image: image + scale * jax.random.normal(key, image.shape)


def perturbation(scale):
    def apply(image, latent, size):
        return image + size * scale * latent

    def latents(key, image):
        return jax.random.normal(key, image.shape)

    return roma.Perturbation("own", latents, apply, size=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "pair",
    [[sampler(0.1), sampler(1.0)], [perturbation(0.1), perturbation(2.0)]],
    ids=["sampler", "perturbation"],
)
def test_perturbations_that_differ_share_no_journal(pair, tmp_path):
    path = tmp_path / "journal"
    expected = draw(pair[0], path)
    with pytest.raises(ValueError, match="settings.perturbation was"):
        draw(pair[1], path)
    np.testing.assert_array_equal(draw(pair[0], path).hits, expected.hits)


def test_draws_from_numpy_would_be_the_same_for_all_images():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="own"):
        assess(named(lambda image, level: image + level * rng.normal()))
    with pytest.raises(ValueError, match="own"):
        draw(dataclasses.replace(perturbation(1.0), draw=lambda *_: rng.random()))


def test_another_size_of_a_perturbation_is_the_same_program():
    """A leaf, which no identity turns into a constant."""
    own = perturbation(1.0)
    sizes = [dataclasses.replace(own, size=size) for size in (0.1, 0.2)]
    fingerprinted = [fingerprinted_perturbation(one, (6, 6, 1)) for one in sizes]
    assert jax.tree.structure(fingerprinted[0]) == jax.tree.structure(fingerprinted[1])


PROGRAM = """
import re
import jax, jax.numpy as jnp, numpy as np, jaxrob
from jaxrob._classifiers.trace import fingerprinted_classifier
from jaxrob.alterations._moves import fingerprinted_alteration
from jaxrob.roma._perturbation import fingerprinted_perturbation

weights, shape = np.float32(np.linspace(-1, 1, 108)).reshape(36, 3), (6, 6, 1)
texture = weights[:, 0].reshape(shape)

class Fade:
    def __call__(self, image, level):
        return jax.nn.relu((1 - level) * image + level * jnp.flip(texture))

def drawn(key, image):
    return image + jax.random.normal(key, image.shape)

plain = jaxrob.Classifier(lambda _, images: images.reshape(len(images), -1) @ weights)
fade = jaxrob.Alteration("fade", Fade(), 0.0, 1.0)
drawn = fingerprinted_perturbation(jaxrob.roma.from_sampler(drawn), shape)
print(fingerprinted_classifier(plain, shape).apply_fn.token)
print(fingerprinted_alteration(fade, shape).description)
print(re.findall("token='(.*?)'", str(jax.tree.structure(drawn))))
"""


@pytest.mark.slow
def test_the_same_code_is_known_in_another_process(capsys):
    """Whatever the addresses and the seed of hashes are there."""
    exec(PROGRAM, {"__name__": "__main__"})
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": "1"},
    )
    assert done.stdout == capsys.readouterr().out and " at 0x" not in done.stdout
    assert len(done.stdout.splitlines()) == 3, done.stderr
