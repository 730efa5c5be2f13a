"""Frost: the source of its pictures, and their use.

The benchmark's pictures are not part of this package. Other pictures replace them here;
`test_same_draws.py` uses the benchmark's, if it has them.
"""

import hashlib
from importlib import metadata

import jax
import numpy as np
import pytest
from PIL import Image

from jaxrob.alterations import corruptions
from jaxrob.alterations.corruptions import _weather
from jaxrob.alterations.corruptions._weather import crop

NAMES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Returns five pictures, number k filled with 40 k, and their folder."""
    digests = {}
    for index, name in enumerate(NAMES, 1):
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


@pytest.mark.parametrize(
    ("shape", "name"), [((32, 32, 1), "image"), ((299, 299, 3), "290 x 310")]
)
def test_images_that_it_cannot_take_are_refused(folder, shape, name):
    frost = corruptions.frost(folder=folder)
    with pytest.raises(ValueError, match=f"frost: .*{name}"):
        frost(np.zeros(shape, np.float32), 1.0, jax.random.key(0))
