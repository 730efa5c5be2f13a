"""Documents that were changed by hand are refused, whatever was changed."""

import functools
import json

import numpy as np
import pytest

from jaxrob import Assessment, strategies
from jaxrob._codec import digest_of

from .documents import assert_refused, drop, put
from .test_few import assess

EVEN = strategies.Uniform(9)
# By name: what is asked for.
ASKED = {
    "bands": {"half_width": 0.1},
    "even, curtailed": {"curtail": True, "strategy": EVEN},
    "required": {"required": 0.3},
    "unknown": {"half_width": 0.1, "alpha": 0.2, "measure": "effectiveness"},
}


@functools.cache
def written(name):
    """The document of what was asked for."""
    return assess(**ASKED[name]).to_json()


@pytest.mark.parametrize("name", ASKED)
def test_few_images_come_back_as_they_were(name):
    assert Assessment.from_json(written(name)).to_json() == written(name)


def test_what_was_changed_or_has_no_digest():
    for change, message in (
        (put("unit", "px"), "not what was written"),
        (put("provenance", "dataset", "name", "x"), "not what was written"),
        (put("warnings", ["beware"]), "not what was written"),
        (put("digest", "0" * 16), "not what was written"),
        (put("digest", []), "not what was written"),
        (drop("digest"), "lacks 'digest'"),
    ):
        assert_refused(written("bands"), change, message)


def test_another_way_to_write_the_same_is_no_edit():
    def whole(number):
        return int(float(number)) if float(number).is_integer() else float(number)

    document = json.loads(written("even, curtailed"), parse_float=whole)
    document["seconds"] = 7
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
    assert '"upper": 1,' in text
    same = Assessment.from_json(text)
    assert same.seconds == 7 and same.to_dict()["digest"]
    assert (
        same.robustness == Assessment.from_json(written("even, curtailed")).robustness
    )


def test_the_digest_is_not_of_the_way_values_are_written():
    one = digest_of({"a": [1.0, "1.0", {"seconds": 3}], "b": None})
    assert one == digest_of({"b": None, "a": (1, "1.0", {"seconds": 4})})
    for other in ([1, "1"], [np.nextafter(1, 2), "1.0"], [True, "1.0"], [1, "1.0", 3]):
        assert digest_of({"a": other}) != digest_of({"a": [1, "1.0"]})
