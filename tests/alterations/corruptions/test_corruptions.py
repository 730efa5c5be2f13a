"""Corruptions by severity: identity, continuity, gradients, bad input, and frost."""

import hashlib
import inspect
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fed_corruptions import NAMES, photograph
from PIL import Image

import jaxrob
from jaxrob.alterations import corruptions
from jaxrob.alterations.corruptions import _weather
from jaxrob.alterations.corruptions._weather import crop

# Frost, at the end, needs pictures that are not part of this package.
OURS = sorted(set(NAMES) - {"frost"})
IN_COLOUR = ("saturate", "spatter")
every_corruption = pytest.mark.parametrize("name", OURS)
# The others are the library's alterations, by severity.
own_code = pytest.mark.parametrize(
    "name",
    ["brightness", "defocus_blur", "elastic_transform", "fog", "glass_blur"]
    + ["motion_blur", "saturate", "snow", "spatter", "zoom_blur"],
)


def make(name, **keywords):
    return getattr(corruptions, name)(**keywords)


def picture():
    """A photograph with a black, a white and a grey patch."""
    image = np.array(photograph(32))
    image[:4, :4], image[:4, 4:8], image[4:8, :4] = 0, 255, 128
    return np.float32(image) / 255


def pixels():
    return np.random.default_rng(0).random((32, 32, 3), np.float32)


def prepared(alteration, image):
    key = jax.random.key(3) if alteration.stochastic else None
    return jax.jit(alteration.prepared)(image, key)


def at_levels(alteration):
    return jax.jit(jax.vmap(alteration.at_level, (None, 0)))


@pytest.mark.slow
@own_code
def test_one_picture_at_many_levels(name):
    """The identity, the range, the way in between, and each level alone."""
    alteration, image = make(name), picture()
    ready, many = prepared(alteration, image), at_levels(alteration)
    # One shape, so that it compiles once.
    ways = [
        np.asarray(many(ready, np.linspace(start, start + 1, 101, dtype=np.float32)))
        for start in range(5)
    ]
    for found in ways:
        # Weights sum to 1 up to rounding.
        assert found.min() >= -1e-6 and found.max() <= 1 + 1e-6
        # Each whole severity and what is beside it differ from the image.
        assert np.abs(found[-1] - image).max() > 0.05
        steps = np.abs(np.diff(found, axis=0))
        if name != "glass_blur":  # Its moves are whole.
            assert steps.max() < 0.04
            # A step is a fraction of the way; a jump would be most of it.
            assert steps.max() <= 0.1 * np.abs(found[-1] - found[0]).max() + 0.01
    np.testing.assert_array_equal(ways[0][0], image)
    alone = jax.jit(alteration.at_level)
    for level in (0.4, 1.0, 2.7, 4.0):
        found = ways[int(level)][round(100 * (level % 1))]
        np.testing.assert_allclose(found, alone(ready, np.float32(level)), atol=5e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fog", "glass_blur", "saturate", "spatter"])
def test_gradients_are_finite(name):
    alteration = make(name)
    weights = jnp.asarray(np.random.RandomState(0).randn(32, 32, 3), jnp.float32)
    key = jax.random.key(3) if alteration.stochastic else None

    def value(image, level):
        ready = alteration.prepared(image, key)
        return (alteration.at_level(ready, level) * weights).sum()

    gradient = jax.jit(jax.grad(value, (0, 1)))
    for image in (picture(), np.zeros((32, 32, 3), np.float32)):
        for level in (0.0, 0.5, 2.0, 5.0):
            for part in gradient(image, level):
                assert np.isfinite(part).all()


@pytest.mark.slow
@own_code
def test_any_size_and_proportion_with_a_choice_grey_where_that_can_be(name):
    channels = 3 if name in IN_COLOUR else 1
    image = np.random.RandomState(1).rand(20, 27, channels).astype(np.float32)
    alteration = make(name, size=64)
    levels = np.float32([0, 1, 5])
    found = np.asarray(at_levels(alteration)(prepared(alteration, image), levels))
    assert found.shape == (3, 20, 27, channels) and np.isfinite(found).all()
    np.testing.assert_array_equal(found[0], image)
    assert np.abs(found[1:] - image).max() > 0.02


def test_a_grey_image_is_brightened_as_the_same_in_colour():
    image = pixels()[..., :1]
    brighten = jax.jit(corruptions.brightness())
    grey = np.asarray(brighten(image, 4.0))
    colour = brighten(image.repeat(3, -1), 4.0)
    np.testing.assert_allclose(grey.repeat(3, -1), colour, atol=1e-7)
    np.testing.assert_allclose(grey, np.clip(image + 0.2, 0, 1), atol=1e-6)


@pytest.mark.parametrize("name", ["brightness", "fog", "gaussian_noise", "motion_blur"])
@pytest.mark.parametrize(
    ("shape", "level", "says"),
    [
        ((32, 32, 3), 5.5, "level"),
        ((32, 32, 3), -1, "level"),
        ((100, 120, 3), 1.0, "size="),
        ((32, 32), 1.0, "image"),
    ],
)
def test_bad_input_is_refused(name, shape, level, says):
    alteration = make(name)
    with pytest.raises(ValueError, match=f"{alteration.name}: .*{says}"):
        alteration(np.zeros(shape, np.float32), level, jax.random.key(0))


def test_qualities_are_evaluated_once_where_the_size_is_known():
    compression = corruptions.jpeg_compression(size=32)
    levels = compression.canonical(np.linspace(0, 5, 1001))
    # Level 0, and the qualities from 100 to 40.
    assert len(np.unique(levels)) == 62
    np.testing.assert_allclose(compression.canonical([1, 2, 3, 4, 5]), [1, 2, 3, 4, 5])


@every_corruption
def test_it_is_an_alteration_in_severities(name):
    alteration = make(name)
    assert isinstance(alteration, jaxrob.Alteration)
    assert (alteration.lower, alteration.upper, alteration.identity) == (0, 5, 0)
    assert alteration.unit == "severity"
    # Equal ones share a compiled program.
    assert alteration == make(name) and hash(alteration) == hash(make(name))
    assert alteration != make(name, size=64)
    size = inspect.signature(getattr(corruptions, name)).parameters["size"]
    assert size.default is None
    with pytest.raises(ValueError, match="size"):
        make(name, size=100)


PICTURES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Returns five pictures, number k filled with 40 k, and their folder."""
    digests = {}
    for index, name in enumerate(PICTURES, 1):
        size = (300 + 10 * index, 290)
        Image.new("RGB", size, 3 * (40 * index,)).save(tmp_path / name)
        digests[name] = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    monkeypatch.setattr(_weather, "_FILES", digests)
    yield tmp_path
    _weather._read.cache_clear()
    _weather.scaled.cache_clear()


def test_every_picture_is_taken_as_often_and_added_by_the_severitys_shares(folder):
    image = np.full((32, 32, 3), 0.25, np.float32)
    frost = corruptions.frost(folder=folder)
    levels = np.float32([0, 1, 2.5, 5])

    @jax.jit
    @jax.vmap
    def at_levels(key):
        ready = frost.prepared(image, key)
        return jax.vmap(frost.at_level, (None, 0))(ready, levels)

    found = np.asarray(at_levels(jax.random.split(jax.random.key(0), 500)))
    np.testing.assert_array_equal(
        found[:, 0], np.broadcast_to(image, found[:, 0].shape)
    )
    assert np.ptp(found, axis=(2, 3, 4)).max() < 0.02
    means = found.mean((2, 3, 4))
    # The kept five shades tell which picture it was.
    which = np.round((means[:, 3] - 0.75 * 0.25) * 255 / 0.45 / 40)
    for column, of_image, of_frost in ((1, 1, 0.2), (2, 0.95, 0.35), (3, 0.75, 0.45)):
        shade = of_image * 0.25 + of_frost * 40 * which / 255
        np.testing.assert_allclose(means[:, column], shade, atol=0.002)
    # Five standard deviations of 100.
    counts = np.bincount(which.astype(int), minlength=6)
    assert counts[0] == 0 and np.abs(counts[1:] - 100).max() < 45


def test_a_crop_is_the_pictures_own_pixels():
    pictures = tuple(
        np.random.RandomState(k).randint(0, 256, (50 + k, 60, 3)).astype(np.uint8)
        for k in range(5)
    )
    found = jax.jit(lambda draws: crop(pictures, draws, (32, 40, 3)))((3, 20, 11))
    np.testing.assert_allclose(found, pictures[3][20:52, 11:51] / 255, rtol=1e-6)


def test_pictures_are_made_smaller_as_by_opencv():
    cv2 = pytest.importorskip("cv2")
    picture = np.random.RandomState(0).randint(0, 256, (131, 98, 3)).astype(np.uint8)
    for scale in (0.2, 0.3):
        found = _weather._resized(picture, scale).astype(int)
        expected = cv2.resize(picture, (0, 0), fx=scale, fy=scale)
        assert found.shape == expected.shape and np.abs(found - expected).max() <= 1


def test_missing_pictures_are_an_error_at_once(folder, monkeypatch):
    (folder / "frost4.jpg").unlink()
    with pytest.raises(FileNotFoundError, match="frost4.jpg"):
        corruptions.frost(folder=folder)
    with pytest.raises(FileNotFoundError, match="frost1.png"):
        corruptions.frost(folder=folder / "elsewhere")
    monkeypatch.setattr(_weather, "_PACKAGES", ("no-such-package",))
    with pytest.raises(FileNotFoundError, match="no-such-package"):
        corruptions.frost()


def test_other_pictures_are_refused(folder):
    Image.new("RGB", (300, 290)).save(folder / "frost2.png")
    with pytest.raises(ValueError, match="frost2.png"):
        corruptions.frost(folder=folder)


def test_an_installed_packages_files_are_found_without_importing_it(
    folder, tmp_path_factory, monkeypatch
):
    site = tmp_path_factory.mktemp("site")
    package = site / "imagecorruptions"
    (package / "frost").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    for name in PICTURES:
        (package / "frost" / name).write_bytes((folder / name).read_bytes())
    about = site / "imagecorruptions-1.1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: imagecorruptions\nVersion: 1.1.2\n")
    record = "".join(f"imagecorruptions/frost/{name},,\n" for name in PICTURES)
    (about / "RECORD").write_text(record)
    monkeypatch.syspath_prepend(site)
    assert metadata.version("imagecorruptions") == "1.1.2"
    assert corruptions.frost() == corruptions.frost(folder=folder)


@pytest.mark.parametrize(
    ("shape", "name"), [((32, 32, 1), "image"), ((299, 299, 3), "290 x 310")]
)
def test_images_that_it_cannot_take_are_refused(folder, shape, name):
    frost = corruptions.frost(folder=folder)
    with pytest.raises(ValueError, match=f"frost: .*{name}"):
        frost(np.zeros(shape, np.float32), 1.0, jax.random.key(0))
