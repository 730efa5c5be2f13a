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
from jaxrob.alterations._alteration import doubts, settings, words
from jaxrob.alterations.corruptions import contrast

from .test_serialization import assessment

CROP = rotation(-5, 5, fill="crop")
EDGE = horizontal_translation(-1, 1)
BOTH = {"rotation: fill": "crop", "horizontal translation: fill": "edge"}
SHAPE = (6, 6, 1)


def same(image):
    return image


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
OWN = jaxrob.Alteration("own", fade, 0.0, 1.0, unit="share")


def test_the_size_is_that_of_the_images_if_none_is_said():
    for side, size in ((28, 32), (200, 224), (300, 299)):
        assert settings(contrast(), (side, 2 * side, 3)) == {"size": size}
    (doubt,) = doubts(contrast(224), SHAPE)
    assert "6 x 6 px" in doubt and not doubts(contrast(224), (200, 200, 3))


@pytest.mark.parametrize(
    "alteration, expected",
    [
        (CROP, {"fill": "crop"}),
        (gaussian_noise(0, 0.1, clip=False), {"clip": False}),
        (zoom(), {}),
        (rescale(rescale(EDGE, 0, 1), 0, 9), {"fill": "edge"}),
        (compose([CROP, EDGE]), BOTH),
        (followed_by(contrast(224), same), {"size": 224, "followed by": "same"}),
        (OWN, {}),
    ],
)
def test_settings_by_name(alteration, expected):
    assert settings(alteration, SHAPE) == expected


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::jaxrob.RobustnessWarning")
def test_an_assessment_has_settings_words_and_names():
    def left_pixels(variables, images):
        return images[:, 0, :2, 0]

    classifier = jaxrob.Classifier(left_pixels, {}, name="net", class_names=("a", "b"))
    dataset = jaxrob.Dataset(np.full((4, *SHAPE), 0.5, np.float32), [0, 0, 0, 0])
    both = compose([FADING, OWN])
    two = jaxrob.strategies.Uniform(2)
    found = jaxrob.assess(
        classifier, dataset, both, 0.0, key=jax.random.key(0), strategy=two
    )
    document = json.loads(found.to_json())["provenance"]
    assert document["settings"] == {"fading: hue": "grey", "fading: shape": 6}
    assert document["words"] == words(both)
    assert document["network"] == {"name": "net", "class_names": ["a", "b"]}
    assert Assessment.from_json(found.to_json()).provenance == document


MAGNIFIED = "above 1 the image is magnified"


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
        (FADING, "hue grey (what the light turns into), shape 6"),
        (OWN, "share |"),
        (gaussian_blur(), "what it does depends on the images' size)"),
    ],
)
def test_a_report_says_what_a_level_is(alteration, expected):
    assert expected in re.sub(
        r"\\(?=\W)", "", reporting.to_markdown(results(alteration))
    )


def test_a_page_says_what_a_level_is_and_no_private_name():
    # What is read: the data beside it hold the stored provenance.
    page = html.unescape(reporting.to_html(results(FADING)).partition("<script")[0])
    assert "share (of the light that is lost)" in page
    assert "jaxrob.alterations._" not in page


def results(alteration):
    facts = {"settings": settings(alteration, SHAPE), "words": words(alteration)}
    one = assessment()
    about = {"alteration": alteration.name, "unit": alteration.unit}
    found = assessment(**about, provenance=one.provenance | facts)
    return [reporting.Results("net", ("a", "b", "c"), (found,))]
