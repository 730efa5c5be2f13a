"""Documents that were changed by hand are refused, or say the same as before."""

import copy
import json
import random

import numpy as np
import pytest

import jaxrob
from jaxrob import Assessment, adversarial, reporting, roma, strategies
from jaxrob._codec._seal import SEAL, with_seal

from ..adversarial.test_attack_json import attack
from ..fuzzing.mutations import mutated
from ..reporting.reports import assessment as of_all_images
from ..roma.test_from_json import by_algorithm_1
from ..roma.test_from_json import result as of_roma
from .test_few import assess
from .test_serialization import put

EVEN = strategies.Uniform(9)
# By name: what is asked for.
ASKED = {
    "bands": {"half_width": 0.1},
    "curtailed": {"curtail": True},
    "even": {"half_width": 0.1, "strategy": EVEN},
    "even, curtailed": {"curtail": True, "strategy": EVEN},
    "required": {"required": 0.3},
    "budget": {"budget": 20_000},
    "unknown": {"half_width": 0.1, "alpha": 0.2, "measure": "effectiveness"},
}
REQUIREMENTS = tuple(
    reporting.Requirement(quantity, least)
    for quantity in ("robustness", "robustness.low")
    for least in (0.2, 0.38, 0.42, 0.6)
)


@pytest.fixture(scope="module")
def written():
    """By what was asked for: the document's text."""
    return {name: assess(**asked).to_json() for name, asked in ASKED.items()}


def said(one):
    """The table and the verdict."""
    found = {one.alteration: reporting.quantities(one)}
    return reporting.table([one]), reporting.unmet(REQUIREMENTS, found)


def changed(text, change, is_sealed=False):
    """The document after a change, sealed anew as no editor does."""
    document = json.loads(text)
    change(document)
    if is_sealed:
        document.pop(SEAL)
        document = with_seal(document)
    return json.dumps(document)


def all_of(*changes):
    def change(document):
        for one in changes:
            one(document)

    return change


def robust(document):
    """As if all were robust."""
    document["robustness"] = document["sampling"]["robustness"] = 1.0
    for name in ("dataset_interval", "population_interval"):
        document["sampling"][name] = [1.0, 1.0]
    document["confidence_interval"] = [1.0, 1.0]


def negated(document):
    sides = document["sampling"]["sides"]
    document["sampling"]["sides"] = [-one for one in sides]


EDITS = {
    "all robust": robust,
    "sides negated": negated,
    "all robust, sides accepted": all_of(
        robust, put("sampling", "sides", lambda some: [1] * len(some))
    ),
    "threshold": put("threshold", 0.1),
    "threshold beside": put("threshold", lambda value: value + 1e-6),
    "measure": put("measure", "recall"),
    "status": put(
        "sampling", "status", lambda old: "budget" if old == "certain" else "certain"
    ),
    "points 0": put("diagnostics", "points", 0),
    "rounds": put("diagnostics", "rounds", 99),
    "number of images": put("sampling", "num_images", lambda number: number * 2),
    "robustness": all_of(
        put("robustness", 0.4001), put("sampling", "robustness", 0.4001)
    ),
    "required": put("sampling", "required", 0.1),
    "unit": put("unit", "px"),
    "warnings": put("warnings", ["beware"]),
    "provenance": put("provenance", "dataset", "name", "another"),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", ASKED)
def test_edits_of_few_images_are_refused(written, name, edit):
    before = Assessment.from_json(written[name])
    assert before.to_json() == written[name]
    with pytest.raises(ValueError):
        Assessment.from_json(changed(written[name], EDITS[edit]))


# By the document: a change, and what names it even where all is sealed anew.
CONTRADICTIONS = [
    ("curtailed", robust, "dataset_interval does not go with sides"),
    ("even", robust, "dataset_interval does not go with sides"),
    ("curtailed", negated, "sides must be"),
    ("even", negated, "dataset_interval does not go with sides"),
    ("even, curtailed", put("threshold", 0.1), "sides must be"),
    ("bands", put("sampling", "status", "certain"), "nothing was required"),
    ("required", put("sampling", "status", "precise"), "whether 0.3 is reached is cer"),
    ("required", put("sampling", "required", 0.4), "whether 0.4 is reached is not"),
    ("bands", put("sampling", "half_width", 0.01), "not have the half width 0.01"),
    ("bands", put("sampling", "status", "resolution"), "does have the half width 0.1"),
    ("bands", put("sampling", "half_width", 0.5), "half_width must"),
    (
        "bands",
        put("sampling", "half_width", None),
        "error must be null where half_width, budget and required are",
    ),
    ("bands", put("sampling", "curtail", True), "error must be 0 with curtail"),
    ("curtailed", put("sampling", "error", 0.1), "error must be 0 with curtail"),
    ("bands", put("sampling", "evaluations", 10**6), "evaluations must lie in"),
    ("budget", put("sampling", "budget", 1000), "by the images seen and the budget"),
    ("bands", put("diagnostics", "points", 0), "points must be at least 1"),
    ("bands", put("diagnostics", "points", 99), "points must"),
    ("bands", put("diagnostics", "plateau", 0.5), "plateau is stated as 0.5"),
    ("bands", put("diagnostics", "jitter", 1.0), "jitter is stated as 1"),
    ("bands", put("diagnostics", "widest_interval", 0.9), "widest_interval is stated"),
    ("bands", put("diagnostics", "half_met", 0.01), "half_met is stated"),
    ("bands", put("diagnostics", "bend", 0.1), "bend is stated"),
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
def test_what_contradicts_the_rest_is_named(written, name, change, message):
    with pytest.raises(ValueError, match=message):
        Assessment.from_json(changed(written[name], change, is_sealed=True))


def test_the_part_that_was_changed_is_named(written):
    for part, value in {"unit": "px", "seconds": 0.5, "error_bound": 0.1}.items():
        with pytest.raises(ValueError, match=f"^{part} is not what was written"):
            Assessment.from_json(changed(written["bands"], put(part, value)))
    for wrong, message in (
        (lambda document: document.pop(SEAL), "lacks 'digests'"),
        (put(SEAL, []), "digests must be an object"),
        (put(SEAL, {}), "digests must be of all parts"),
        (put("beauty", 1), "unknown parts: .'beauty'"),
        (
            lambda document: document[SEAL].pop("unit"),
            "digests must be of all .*'unit'",
        ),
        (put(SEAL, "beauty", "0"), "digests must be of all .*'beauty'"),
    ):
        with pytest.raises(ValueError, match=message):
            Assessment.from_json(changed(written["bands"], wrong))


def test_another_way_to_write_the_same_is_no_edit(written):
    def whole(number):
        return int(float(number)) if float(number).is_integer() else float(number)

    document = json.loads(written["even, curtailed"], parse_float=whole)
    assert (
        Assessment.from_json(json.dumps(document)).to_json()
        == (written["even, curtailed"])
    )
    document = json.loads(written["even"], parse_float=whole)
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False)
    assert text != written["even"] and '"upper": 1,' in text
    same = Assessment.from_json(text)
    assert said(same) == said(Assessment.from_json(written["even"]))
    assert Assessment.from_json(same.to_json()).sampling.robustness == same.robustness


def test_a_folder_names_the_file(tmp_path, written):
    one = Assessment.from_json(written["bands"])
    reporting.write_results(tmp_path, reporting.Results("net", None, (one,)))
    path = tmp_path / "dim.json"
    path.write_text(changed(path.read_text(), robust))
    with pytest.raises(ValueError, match=f"{path}: robustness is not what was written"):
        reporting.read_results(tmp_path)


def test_random_edits_of_few_images(written, cases):
    rng = random.Random(0)
    texts = list(written.values())
    before = [said(Assessment.from_json(text)) for text in texts]
    refused = 0
    for number in range(50 * cases):
        which = number % len(texts)
        text = json.dumps(mutated(json.loads(texts[which]), rng))
        try:
            found = Assessment.from_json(text)
        except ValueError:
            refused += 1
            continue
        assert said(found) == before[which]
        assert found.to_json() == texts[which]
    assert refused > 0.95 * 50 * cases


def edits_of_numbers(document, parent=None, key=None):
    """Copies of a document, each with another number."""
    whole = document if parent is None else parent
    entries = enumerate(document) if isinstance(document, list) else document.items()
    for name, value in list(entries):
        if isinstance(value, dict | list):
            yield from edits_of_numbers(value, whole)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            for other in (0, 1, -value, value + 1, value * 1.001, value / 2, 1e9):
                if other != value:
                    document[name] = other
                    yield copy.deepcopy(whole)
            document[name] = value


@pytest.mark.parametrize("name", ["bands", "even, curtailed"])
def test_every_number_of_few_images(written, name):
    number = 0
    for document in edits_of_numbers(json.loads(written[name])):
        with pytest.raises(ValueError):
            Assessment.from_json(json.dumps(document))
        number += 1
    assert number > 300


@pytest.mark.parametrize("answers", [True, False])
def test_every_number_of_all_images_leaves_the_verdict(answers):
    one = of_all_images()
    text, number = one.to_json(answers), 0
    before = said(jaxrob.Assessment.from_json(text))[1]
    for document in edits_of_numbers(json.loads(text)):
        number += 1
        try:
            found = Assessment.from_json(json.dumps(document))
        except ValueError:
            continue
        assert said(found)[1] == before
    assert number > 300


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (of_roma().to_json(), roma.RomaResult.from_json),
        (by_algorithm_1().to_json(), roma.RomaResult.from_json),
        (attack().to_json(), adversarial.Attack.from_json),
    ],
)
def test_every_number_of_other_documents(text, read):
    assert read(text).to_json() == text
    number = 0
    for document in edits_of_numbers(json.loads(text)):
        with pytest.raises(ValueError):
            read(json.dumps(document))
        number += 1
    assert number > 80


def test_the_digests_are_not_of_the_way_numbers_are_written():
    one, other = (with_seal({"a": [value, "1.0"]})[SEAL] for value in (1.0, 1))
    assert one == other
    assert one != with_seal({"a": [1, "1"]})[SEAL]
    assert one != with_seal({"a": [np.nextafter(1, 2), "1.0"]})[SEAL]
