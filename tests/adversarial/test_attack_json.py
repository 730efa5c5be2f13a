"""What an attack found, as JSON and back."""

import json

import numpy as np
import pytest

from jaxrob.adversarial import Attack

from ..assessment.documents import put


def attack(**changes):
    fields = {
        "images": np.zeros((3, 2, 2, 1), np.float32),
        "success": np.array([True, False, False]),
        "similarity": np.array([0.9, 0.0, 0.0]),
        "distance": np.array([0.1, np.nan, np.nan]),
        "correct": np.array([True, True, False]),
        "labels": np.array([0, 1, 2], np.int32),
        "target": np.array([-1, 2, -1], np.int32),
        "predicted": np.array([2, 1, 0], np.int32),
        "confidence": np.array([0.9, 0.4, np.nan], np.float32),
        "vanished": np.array([False, True, False]),
    }
    return Attack(**(fields | changes))


def test_back_as_it_was_without_images():
    before = attack()
    text = before.to_json()
    json.loads(text, parse_constant=pytest.fail)
    after = Attack.from_json(text)
    for name in Attack._fields[1:]:
        one, other = (np.asarray(getattr(each, name)) for each in (before, after))
        np.testing.assert_array_equal(one, other, strict=True)
    assert after.images.shape == (0, 0, 0, 0)
    assert after.to_json() == text == Attack.from_json(text.encode()).to_json()
    assert before.success.any() and not before.success.all()


IMPLAUSIBLE = {
    "success 1": (put("success", 0, 1), r"success\[0\]"),
    "distance negative": (put("distance", 0, -0.5), "distance"),
    "similarity": (put("similarity", 0, 1.5), "similarity must lie in"),
    "confidence": (put("confidence", 0, 1.5), "confidence"),
    "vanished 0": (put("vanished", 0, 0), r"vanished\[0\]"),
    "target": (put("target", 0, -2), "target"),
    "label": (put("labels", 0, -1), "labels"),
    "class half": (put("predicted", 0, 1.0), r"predicted\[0\]"),
    "fewer": (put("labels", lambda some: some[1:]), "labels"),
    "nothing": (lambda document: empty(document), "success"),
}


def empty(document):
    for name in document.keys() - {"format"}:
        document[name] = []


@pytest.mark.parametrize("name", IMPLAUSIBLE)
def test_what_cannot_be_is_named(name):
    change, message = IMPLAUSIBLE[name]
    document = json.loads(attack().to_json())
    change(document)
    with pytest.raises(ValueError, match=message):
        Attack.from_json(json.dumps(document))
