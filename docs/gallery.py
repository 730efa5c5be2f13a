r"""Draws the gallery: a photograph under each alteration and corruption.

    python docs/gallery.py
    python docs/gallery.py FOLDER

Writes a strip of three pictures for each into `docs/gallery`, or the folder given, and
without a folder the page `docs/gallery.md` around them. Names, units, ranges and the
meaning of a level are the library's own; here is what each stands for in the field.

The photograph is NASA's of the astronaut Eileen Collins, in the public domain, as
scikit-image ships it (`skimage.data.astronaut`). Frost is left out, because the licence
of its pictures is not stated.
"""

import pathlib
import sys
from typing import NamedTuple

import jax
import numpy as np
from PIL import Image
from skimage import data

import jaxrob
from jaxrob import reporting
from jaxrob._command import catalogue
from jaxrob._command.catalogue import read_call

FOLDER = pathlib.Path(__file__).parent
LEVELS = 3

_SIDE = 224
_SHOWN = 168
_GAP = 4
_QUALITY = 70
_PREFIX = "corruptions."


class Use(NamedTuple):
    """What an alteration stands for.

    Attributes:
      field: what does this to pictures in the field.
      when: when to test it.
    """

    field: str
    when: str


#: By the name in `jaxrob.alterations`.
USES = {
    "horizontal_translation": Use(
        "an object that is not centred, a camera that was moved sideways",
        "pictures are cropped by hand or by a detector",
    ),
    "vertical_translation": Use(
        "an object that is not centred, another height of the camera",
        "pictures are cropped by hand or by a detector",
    ),
    "rotation": Use(
        "a camera or a sample that is askew",
        "no side is up (slides, parts on a belt), or the mount may turn",
    ),
    "brightness": Use(
        "more or less light, another exposure",
        "light is not controlled",
    ),
    "zoom": Use(
        "another distance or focal length",
        "the distance to the object varies",
    ),
    "gaussian_noise": Use(
        "the electronics of a sensor",
        "the sensor may be warm, cheap or amplified",
    ),
    "gaussian_blur": Use(
        "a lens that is a little out of focus, reduced pictures",
        "focus varies; the usual first test of blur",
    ),
    "jpeg_compression": Use(
        "files that are compressed to be sent or stored",
        "pictures come from another system",
    ),
    "contrast": Use(
        "haze, backlight, a faded stain or print",
        "weather, ageing or exposure flatten the picture",
    ),
    "defocus_blur": Use(
        "a lens that is far out of focus: points become disks",
        "an autofocus may fail",
    ),
    "elastic_deformation": Use(
        "soft matter: tissue, cloth, paper",
        "the object itself may be bent",
    ),
    "impulse_noise": Use(
        "dead or hot pixels, errors of transmission",
        "sensors age, or links lose data",
    ),
    "motion_blur": Use(
        "a camera or an object that moves during the exposure",
        "vehicles, drones, belts, hands",
    ),
    "pixelation": Use(
        "a small part of a picture that was enlarged",
        "objects are far away, or the input is enlarged",
    ),
    "saturation": Use(
        "another white balance or colour profile, grey cameras",
        "cameras or scanners differ; only of colour pictures",
    ),
    "shot_noise": Use(
        "few photons: night, short exposures, X-rays at a low dose",
        "light or dose is scarce",
    ),
    "speckle_noise": Use(
        "coherent imaging: ultrasound, radar, lasers",
        "the noise grows with the signal",
    ),
}
#: What stands behind a corruption, where no alteration above has its name.
CORRUPTION_FIELDS = {
    "glass_blur": "frosted glass, a dirty window",
    "zoom_blur": "a camera that moves towards the object",
    "snow": "falling snow",
    "fog": "fog",
    "elastic_transform": USES["elastic_deformation"].field,
    "pixelate": USES["pixelation"].field,
    "spatter": "water or mud on the lens",
    "saturate": USES["saturation"].field,
}


def drawn() -> dict[str, jaxrob.Alteration]:
    """Returns the alterations by their names in the command, in the page's order."""
    names = [*catalogue.NAMES, *catalogue.BY_SEVERITY]
    names.remove(f"{_PREFIX}frost")
    return {name: catalogue.made(read_call(name), (_SIDE, _SIDE, 3)) for name in names}


def levels(alteration: jaxrob.Alteration) -> np.ndarray:
    """Returns three levels that alter, up to an end; if it can, on both sides."""
    ends = alteration.lower, alteration.upper
    if alteration.identity in ends:
        (far,) = {*ends} - {alteration.identity}
        shown = np.linspace(alteration.identity, far, LEVELS + 1)[1:]
    else:
        half = (np.array(ends) + alteration.identity) / 2
        shown = np.array([*half, ends[1]])
    return alteration.snap(shown)


def strip(alteration: jaxrob.Alteration, photograph: np.ndarray) -> Image.Image:
    """Returns the photograph at the three levels, side by side."""
    key = jax.random.key(0)
    altered = reporting.examples(alteration, photograph, levels(alteration), key)
    side = (_SHOWN, _SHOWN)
    row = Image.new("RGB", (LEVELS * (_SHOWN + _GAP) - _GAP, _SHOWN), "white")
    for place, one in enumerate(np.asarray(altered)):
        pixels = np.uint8(np.rint(255 * one.clip(0, 1)))
        small = Image.fromarray(pixels).resize(side, Image.Resampling.LANCZOS)
        row.paste(small, (place * (_SHOWN + _GAP), 0))
    return row


def photograph() -> np.ndarray:
    """Returns the astronaut's head and shoulders, uint8 `[224, 224, 3]`."""
    part = Image.fromarray(data.astronaut()[:384, 32:416])
    return np.asarray(part.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS))


def section(name: str, alteration: jaxrob.Alteration) -> str:
    """Returns the part of the page about an alteration."""
    shown = ", ".join(f"{level:.4g}" for level in levels(alteration))
    use = ""
    if name in USES:
        use = f" Stands for {USES[name].field}. Test it if {USES[name].when}."
    return (
        f"### {_title(name)}\n\n"
        f"![{_title(name)}](gallery/{name}.webp)\n\n"
        f"{{py:obj}}`jaxrob.alterations.{name}`, here {shown} {alteration.unit}: "
        f"{alteration.about.level}.{use}\n"
    )


def severity_section(name: str, alteration: jaxrob.Alteration) -> str:
    """Returns the part of the page about a corruption."""
    _, _, sets = alteration.about.level.partition("which set ")
    short = name.removeprefix(_PREFIX)
    field = CORRUPTION_FIELDS.get(short)
    what = f" Stands for {field}." if field else ""
    return (
        f"### {_title(short)}\n\n"
        f"![{_title(short)}](gallery/{name}.webp)\n\n"
        f"{{py:obj}}`jaxrob.alterations.{name}`: the severity sets {sets}.{what}\n"
    )


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


_HEAD = """# Gallery

After this page you have seen what each alteration does to a picture, and know which
ones to test.

Draw the same for a picture of your own, and look at the strongest level: would you ask
a network to read it? If not, narrow the range.

```console
jaxrob alterations --pictures=sheet.png --image=my_picture.jpg
```

The photograph is NASA's of the astronaut Eileen Collins, in the public domain.
"""
_ALTERATIONS = """
## Alterations

Each has a level in a unit of its own, and is shown at three levels of the default range
for 224 px, which `jaxrob alterations` lists: replace it by what your camera can do.
"""
_CORRUPTIONS = """
## Common corruptions

Those of [ImageNet-C and CIFAR-10-C](how-to/common-corruptions.md), in severities from
0, which alters nothing, to 5; shown are 1.667, 3.333 and 5. Use them to compare with
published numbers. For a requirement of your own take an alteration, because its unit
can be measured. Frost is not shown, because the licence of its pictures is not stated.
"""


def page(shown: dict[str, jaxrob.Alteration]) -> str:
    """Returns the text of the page."""
    own = [section(name, one) for name, one in shown.items() if "." not in name]
    of_benchmark = [
        severity_section(name, one) for name, one in shown.items() if "." in name
    ]
    return "\n".join([_HEAD + _ALTERATIONS, *own, _CORRUPTIONS, *of_benchmark])


def main(folder: pathlib.Path, alterations: dict[str, jaxrob.Alteration]) -> None:
    """Draws the strips of alterations by their names in the command."""
    folder.mkdir(exist_ok=True)
    photo = photograph()
    for name, one in alterations.items():
        strip(one, photo).save(folder / f"{name}.webp", quality=_QUALITY, method=6)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(pathlib.Path(sys.argv[1]), drawn())
    else:
        main(FOLDER / "gallery", drawn())
        (FOLDER / "gallery.md").write_text(page(drawn()))
