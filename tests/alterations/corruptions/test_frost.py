"""Frost: the source of its pictures, and their use.

The benchmark's pictures are not part of this package. Other pictures replace them here;
`test_same_draws.py` uses the benchmark's, if it has them.
"""

import hashlib
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from jaxrob.alterations import corruptions
from jaxrob.alterations.corruptions import _frost_pictures
from jaxrob.alterations.corruptions._frost import FrostDraws, crop

NAMES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")
KEY = jax.random.key(0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Returns five pictures, number k filled with 40 k, and their folder."""
    digests = {}
    for index, name in enumerate(NAMES, 1):
        size = (300 + 10 * index, 290)
        Image.new("RGB", size, 3 * (40 * index,)).save(tmp_path / name)
        digests[name] = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    monkeypatch.setattr(_frost_pictures, "_FILES", digests)
    yield tmp_path
    _frost_pictures._read.cache_clear()
    _frost_pictures.scaled.cache_clear()


def test_a_picture_is_added_by_the_severitys_shares(folder):
    image = np.full((224, 224, 3), 0.25, np.float32)
    frost = jax.jit(corruptions.frost(folder=folder))
    for level, of_image, of_frost in ((0, 1, 0), (1, 1, 0.4), (1.5, 0.9, 0.5)):
        found = np.asarray(frost(image, level, KEY))
        assert np.ptp(found) < 0.02
        shades = of_image * 0.25 + of_frost * 40 * np.arange(1, 6) / 255
        assert np.abs(shades.clip(0, 1) - found.mean()).min() < 0.002


def test_every_picture_is_taken_as_often(folder):
    frost = corruptions.frost(folder=folder)
    image = jnp.zeros((32, 32, 3))
    keys = jax.random.split(KEY, 500)
    found = jax.jit(jax.vmap(lambda key: frost(image, 5.0, key).mean()))(keys)
    which = np.round(np.asarray(found) * 255 / 0.45 / 40).astype(int)
    # Five standard deviations of 100.
    assert np.bincount(which, minlength=6)[0] == 0
    assert np.abs(np.bincount(which, minlength=6)[1:] - 100).max() < 45


def test_a_crop_is_the_pictures_own_pixels():
    pictures = tuple(
        np.random.RandomState(k).randint(0, 256, (50 + k, 60, 3)).astype(np.uint8)
        for k in range(5)
    )
    found = jax.jit(lambda draws: crop(pictures, draws, (32, 40, 3)))(
        FrostDraws(3, 20, 11)
    )
    np.testing.assert_allclose(found, pictures[3][20:52, 11:51] / 255, rtol=1e-6)


def test_pictures_are_made_smaller_as_by_opencv():
    cv2 = pytest.importorskip("cv2")
    picture = np.random.RandomState(0).randint(0, 256, (131, 98, 3)).astype(np.uint8)
    for scale in (0.2, 0.3):
        found = _frost_pictures._resized(picture, scale).astype(int)
        expected = cv2.resize(picture, (0, 0), fx=scale, fy=scale)
        assert found.shape == expected.shape and np.abs(found - expected).max() <= 1


def test_missing_pictures_are_an_error_at_once(folder, monkeypatch):
    (folder / "frost4.jpg").unlink()
    with pytest.raises(FileNotFoundError, match="no frost4.jpg in the folder"):
        corruptions.frost(folder=folder)
    with pytest.raises(FileNotFoundError, match="no frost1.png in the folder"):
        corruptions.frost(folder=folder / "elsewhere")
    monkeypatch.setattr(_frost_pictures, "_PACKAGES", ("no-such-package",))
    with pytest.raises(FileNotFoundError, match="no-such-package is installed.*pip"):
        corruptions.frost()


def test_other_pictures_are_refused(folder):
    Image.new("RGB", (300, 290)).save(folder / "frost2.png")
    with pytest.raises(ValueError, match="frost2.png is not the benchmark's: its SHA"):
        corruptions.frost(folder=folder)


def test_an_installed_packages_files_are_found_without_importing_it(
    folder, tmp_path_factory, monkeypatch
):
    site = tmp_path_factory.mktemp("site")
    package = site / "imagecorruptions"
    (package / "frost").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    for name in NAMES:
        (package / "frost" / name).write_bytes((folder / name).read_bytes())
    about = site / "imagecorruptions-1.1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: imagecorruptions\nVersion: 1.1.2\n")
    record = "".join(f"imagecorruptions/frost/{name},,\n" for name in NAMES)
    (about / "RECORD").write_text(record)
    monkeypatch.syspath_prepend(site)
    assert metadata.version("imagecorruptions") == "1.1.2"
    assert corruptions.frost() == corruptions.frost(folder=folder)


def test_images_that_it_cannot_take_are_refused(folder):
    frost = corruptions.frost(folder=folder)
    with pytest.raises(ValueError, match="frost: image must have three channels"):
        frost(jnp.zeros((32, 32, 1)), 1.0, KEY)
    with pytest.raises(ValueError, match=r"smaller than the pictures.*290 x 310 px"):
        frost(jnp.zeros((299, 299, 3)), 1.0, KEY)
    with pytest.raises(ValueError, match="size must be one of"):
        corruptions.frost(size=100, folder=folder)


def test_level_0_is_the_image_and_gradients_are_finite(folder):
    image = np.float32(np.random.RandomState(0).rand(32, 32, 3))
    frost = jax.jit(corruptions.frost(folder=folder))
    np.testing.assert_array_equal(frost(image, 0.0, KEY), image)
    gradient = jax.grad(lambda image, level: frost(image, level, KEY).sum(), (0, 1))
    for part in jax.jit(gradient)(image, 2.5):
        assert np.isfinite(part).all()
