"""Documents that were changed by hand are refused, or say the same as before."""

import copy
import functools
import json

import numpy as np
import pytest

from jaxrob import Assessment, reporting, strategies
from jaxrob._codec._seal import SEAL, with_seal

from .documents import all_of, assert_refused, drop, put
from .test_few import assess
from .test_serialization import assessment

EVEN = strategies.Uniform(9)
# By name: what is asked for.
ASKED = {
    "bands": {"half_width": 0.1},
    "curtailed": {"curtail": True},
    "even": {"half_width": 0.1, "strategy": EVEN},
    "even, curtailed": {"curtail": True, "strategy": EVEN},
    "required": {"required": 0.3},
    "budget": {"budget": 3000},
    "unknown": {"half_width": 0.1, "alpha": 0.2, "measure": "effectiveness"},
}
REQUIREMENTS = tuple(
    reporting.Requirement(quantity, least)
    for quantity in ("robustness", "robustness.low")
    for least in (0.2, 0.38, 0.42, 0.6)
)


@functools.cache
def written(name):
    """The document of what was asked for."""
    return assess(**ASKED[name]).to_json()


def said(one):
    """The table and the verdict."""
    found = {one.alteration: reporting.quantities(one)}
    return reporting.table([one]), reporting.unmet(REQUIREMENTS, found)


def robust(document):
    """As if all were robust."""
    document["robustness"] = document["sampling"]["robustness"] = 1.0
    for name in ("dataset_interval", "population_interval"):
        document["sampling"][name] = [1.0, 1.0]
    document["confidence_interval"] = [1.0, 1.0]


def negated(document):
    sides = document["sampling"]["sides"]
    document["sampling"]["sides"] = [-one for one in sides]


@pytest.mark.parametrize("name", ASKED)
def test_few_images_come_back_as_they_were(name):
    assert Assessment.from_json(written(name)).to_json() == written(name)


# By the document: a change, and what names it even where all is sealed anew.
CONTRADICTIONS = [
    ("curtailed", robust, "dataset_interval"),
    ("even", robust, "dataset_interval"),
    ("curtailed", negated, "sides must be"),
    ("even, curtailed", put("threshold", 0.1), "sides must be"),
    ("bands", put("sampling", "status", "certain"), "nothing was required"),
    ("required", put("sampling", "status", "precise"), "whether 0.3 is reached is cer"),
    ("required", put("sampling", "required", 0.4), "whether 0.4 is reached is not"),
    ("bands", put("sampling", "half_width", 0.01), "not have the half width 0.01"),
    ("bands", put("sampling", "status", "resolution"), "does have the half width 0.1"),
    ("bands", put("sampling", "half_width", 0.5), "half_width must"),
    ("bands", put("sampling", "half_width", None), "error must be null"),
    ("bands", put("sampling", "curtail", True), "error must be 0"),
    ("curtailed", put("sampling", "error", 0.1), "error must be 0"),
    ("bands", put("confidence_level", 0.999), "error must be at most 0.001"),
    ("bands", put("sampling", "seen", [1, 2]), "seen"),
    ("bands", put("sampling", "num_images", 10), "num_images"),
    ("bands", put("sampling", "robustness", 0.99), "dataset_interval must hold"),
    ("bands", put("sampling", "evaluations", 3), "evaluations must lie in"),
    ("bands", put("sampling", "evaluations", 10**6), "evaluations must lie in"),
    ("budget", put("sampling", "budget", 1000), "by the images seen and the budget"),
    ("bands", put("diagnostics", "points", 99), "points must"),
    ("bands", put("diagnostics", "plateau", 0.5), "plateau is stated as 0.5"),
    ("bands", put("diagnostics", "jitter", 1.0), "jitter is stated as 1"),
    ("bands", put("diagnostics", "half_met", 0.01), "half_met is stated"),
    ("bands", put("confidence_interval", [0.0, 1.0]), "the confidence_interval state"),
    (
        "bands",
        all_of(
            put("sampling", "population_interval", [0.39, 0.41]),
            put("confidence_interval", [0.39, 0.41]),
        ),
        "population_interval must hold",
    ),
]


@pytest.mark.parametrize(("name", "change", "message"), CONTRADICTIONS)
def test_what_contradicts_the_rest_is_named(name, change, message):
    assert_refused(written(name), change, message, is_sealed=True)


def test_the_part_that_was_changed_is_named():
    for change, message in (
        (put("unit", "px"), "^unit is not what was written"),
        (put("provenance", "dataset", "name", "x"), "^provenance is not what was"),
        (put("warnings", ["beware"]), "^warnings is not what was written"),
        (drop(SEAL), "lacks 'digests'"),
        (put(SEAL, []), "digests must be an object"),
        (put("beauty", 1), "unknown parts: .'beauty'"),
        (drop(SEAL, "unit"), "digests must be of all .*'unit'"),
        (put(SEAL, "beauty", "0"), "digests must be of all .*'beauty'"),
    ):
        assert_refused(written("bands"), change, message)


def test_another_way_to_write_the_same_is_no_edit():
    def whole(number):
        return int(float(number)) if float(number).is_integer() else float(number)

    document = json.loads(written("even"), parse_float=whole)
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
    assert text != written("even") and '"upper": 1,' in text
    same = Assessment.from_json(text)
    assert said(same) == said(Assessment.from_json(written("even")))
    assert Assessment.from_json(same.to_json()).sampling.robustness == same.robustness


def edits_of_numbers(document, parent=None):
    """Copies of a document, each with another number."""
    whole = document if parent is None else parent
    entries = enumerate(document) if isinstance(document, list) else document.items()
    for name, value in list(entries):
        if isinstance(value, dict | list):
            yield from edits_of_numbers(value, whole)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            for other in (value + 1, value * 1.001):
                if other != value:
                    document[name] = other
                    yield copy.deepcopy(whole)
            document[name] = value


@pytest.mark.slow
def test_every_number_of_few_images():
    number = 0
    for document in edits_of_numbers(json.loads(written("even, curtailed"))):
        with pytest.raises(ValueError):
            Assessment.from_json(json.dumps(document))
        number += 1
    assert number > 80


@pytest.mark.slow
def test_every_number_of_all_images_leaves_the_verdict():
    one = assessment(levels=4, images=12, classes=2)
    text, number = one.to_json(answers=False), 0
    before = said(one)[1]
    for document in edits_of_numbers(json.loads(text)):
        number += 1
        try:
            found = Assessment.from_json(json.dumps(document))
        except ValueError:
            continue
        assert said(found)[1] == before
    assert number > 80


def test_the_digests_are_not_of_the_way_numbers_are_written():
    one, other = (with_seal({"a": [value, "1.0"]})[SEAL] for value in (1.0, 1))
    assert one == other
    assert one != with_seal({"a": [1, "1"]})[SEAL]
    assert one != with_seal({"a": [np.nextafter(1, 2), "1.0"]})[SEAL]
