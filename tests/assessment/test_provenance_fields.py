"""What stands in an assessment's JSON for who reads no Python."""

import html
import json
import re

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import Assessment, reporting
from jaxrob.alterations import (
    About,
    compose,
    followed_by,
    gaussian_blur,
    gaussian_noise,
    horizontal_translation,
    rescale,
    rotation,
    zoom,
)
from jaxrob.alterations._said import settings
from jaxrob.alterations.corruptions import contrast

from .documents import assert_refused, put
from .test_serialization import assessment

CROP = rotation(-5, 5, fill="crop")
EDGE = horizontal_translation(-1, 1)
BOTH = {"rotation: fill": "crop", "horizontal translation: fill": "edge"}


def left_pixels(variables, images):
    return images[:, 0, :2, 0]


def assessed(alteration):
    network = {"name": "net", "class_names": ("a", "b")}
    classifier = jaxrob.Classifier(left_pixels, {}, **network)
    dataset = jaxrob.Dataset(np.full((4, 6, 6, 1), 0.5, np.float32), [0, 0, 0, 0])
    return jaxrob.assess(
        classifier,
        dataset,
        alteration,
        threshold=0.0,
        key=jax.random.key(0),
        strategy=jaxrob.strategies.Uniform(2),
    )


def same(image):
    return image


def test_the_size_is_that_of_the_images_if_none_is_said():
    for side, size in ((28, 32), (200, 224), (300, 299)):
        assert settings(contrast(), (side, 2 * side, 3)) == {"size": size}


@pytest.mark.parametrize(
    "alteration, expected",
    [
        (CROP, {"fill": "crop"}),
        (gaussian_noise(0, 0.1, clip=False), {"clip": False}),
        (zoom(), {}),
        (rescale(rescale(EDGE, 0, 1), 0, 9), {"fill": "edge"}),
        (compose([CROP, EDGE]), BOTH),
        (followed_by(contrast(224), same), {"size": 224, "followed by": "same"}),
        (jaxrob.Alteration("own", lambda image, level: image, 0.0, 1.0), {}),
    ],
)
@pytest.mark.filterwarnings("ignore::jaxrob.RobustnessWarning")
def test_settings_and_names(alteration, expected):
    found = assessed(alteration)
    document = json.loads(found.to_json())["provenance"]
    assert document["settings"] == expected
    assert document["network"] == {"name": "net", "class_names": ["a", "b"]}
    assert Assessment.from_json(found.to_json()).provenance == document


def fade(image, level):
    return (1 - level) * image


FADING = jaxrob.Alteration(
    "fading",
    fade,
    0.0,
    1.0,
    unit="share",
    about=About(
        "of the light that is lost",
        {"hue": "grey", "shape": lambda shape: shape[0]},
        {"hue": "what the light turns into"},
    ),
)
MAGNIFIED = "above 1 the image is magnified"


@pytest.mark.filterwarnings("ignore::jaxrob.RobustnessWarning")
@pytest.mark.parametrize(
    "alteration, expected",
    [
        (zoom(), f"factor ({MAGNIFIED})"),
        # A level of 0.5 is a factor of 1.5 here.
        (
            rescale(zoom(), 0, 1),
            f"none (0 to 1 stand for 1 to 2 [factor]: {MAGNIFIED})",
        ),
        (
            compose([zoom(1, 3), FADING]),
            f"none (0 to 1 drive zoom from 1 to 3 [factor] ({MAGNIFIED}), then fading "
            "from 0 to 1 [share] (of the light that is lost))",
        ),
        (
            followed_by(FADING, same),
            "share (of the light that is lost, then same, at every level but 0)",
        ),
        (FADING, "share (of the light that is lost)"),
        (FADING, "hue grey (what the light turns into), shape 6"),
        (jaxrob.Alteration("own", fade, 0.0, 1.0, unit="share"), "share |"),
        (gaussian_blur(), "what it does depends on the images' size)"),
    ],
)
def test_a_report_says_what_a_level_is_and_no_private_name(alteration, expected):
    found = Assessment.from_json(assessed(alteration).to_json())
    results = [reporting.Results("net", ("a", "b"), (found,))]
    # What is read: the data beside it hold the stored provenance.
    page = html.unescape(reporting.to_html(results).partition("<script")[0])
    text = reporting.to_markdown(results)
    assert expected in re.sub(r"\\(?=\W)", "", text), text
    assert expected.removesuffix(" |") in page
    assert "jaxrob.alterations._" not in page + text


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("network", None, "network must be an object"),
        ("network", {"name": 3}, "network.name"),
        ("network", {"class_names": "abc"}, "class_names must be a list"),
        ("network", {"class_names": [1]}, r"class_names\[0\] must be a text"),
        ("settings", [], "settings must be an object"),
        ("settings", {"fill": {}}, "settings.fill must be a text"),
        ("words", [], "words must be an object"),
        ("words", {"level": 3}, "words"),
        ("plan", None, "plan must be 64"),
        ("plan", "x" * 64, "plan must be 64"),
    ],
)
def test_what_is_none_is_refused(name, value, message):
    assert_refused(assessment().to_json(), put("provenance", name, value), message)
