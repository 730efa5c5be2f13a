"""Whatever stands in an assessment's JSON, what is read can be."""

import json

import pytest

from jaxrob import Assessment

from .documents import assert_refused, drop, put
from .test_serialization import assessment


class Raw:
    """A value written as this text."""

    def __init__(self, text):
        self.text = text

    @staticmethod
    def dumped(document):
        texts = []

        def keep(value):
            texts.append(value.text)
            return f"raw {len(texts) - 1}"

        text = json.dumps(document, default=keep)
        for number, raw in enumerate(texts):
            text = text.replace(f'"raw {number}"', raw)
        return text


# What was taken for an assessment, or raised another error; and what is named.
IMPLAUSIBLE = {
    "threshold above 1": (put("threshold", 7), "threshold"),
    "threshold negative": (put("threshold", -0.1), "threshold"),
    "range turned around": (put("lower", 0.9), "lower must be below upper"),
    "range empty": (put("upper", 0.1), "lower must be below upper"),
    "range infinite": (put("lower", Raw("-1e999")), "no finite number"),
    "lower huge": (put("lower", -(10**400)), "lower must be finite"),
    "identity outside": (put("identity", 0.8), "identity"),
    "level outside": (put("levels", -1, 0.71), "levels must lie in the range"),
    "level missing at the end": (put("upper", 0.8), "both ends"),
    "level as text": (put("levels", 1, "0.25"), "levels"),
    "level true": (put("levels", 1, True), "levels"),
    "levels nested": (put("levels", 1, [0.25]), "levels"),
    "levels descending": (put("levels", lambda levels: levels[::-1]), "ascend"),
    "level infinite": (put("levels", -1, Raw("1e999")), "no finite number"),
    "measure unknown": (put("measure", "beauty"), "measure"),
    "rule of scores": (put("rule", "trapezoid"), "rule"),
    "bound above 1": (put("error_bound", 1.5), "error_bound"),
    "bound negative": (put("error_bound", -0.1), "error_bound"),
    "bound infinite": (put("error_bound", Raw("1e999")), "no finite number"),
    "alpha above 1": (put("alpha", 1.5), "alpha"),
    "alpha true": (put("alpha", True), "alpha"),
    "alpha null": (put("alpha", None), "the confusion stated"),
    "seconds negative": (put("seconds", -1), "seconds"),
    "seconds infinite": (put("seconds", Raw("1e999")), "no finite number"),
    "unit number": (put("unit", 3), "unit"),
    "strategy list": (put("strategy", []), "strategy"),
    "no alteration's parameters": (drop("provenance", "alteration"), "alteration"),
    "no data set": (drop("provenance", "dataset"), "dataset"),
    "no fingerprint": (drop("provenance", "dataset", "fingerprint"), "fingerprint"),
    "fingerprint null": (
        put("provenance", "dataset", "fingerprint", None),
        "fingerprint",
    ),
    "infinity in the provenance": (
        put("provenance", "key", Raw("1e999")),
        "no finite number",
    ),
    "warnings text": (put("warnings", "x"), "warnings"),
    "points half": (put("diagnostics", "points", 2.5), "points"),
    "points null": (put("diagnostics", "points", None), "points"),
    "points negative": (put("diagnostics", "points", -5), "points"),
    "jitter negative": (put("diagnostics", "jitter", -1.0), "jitter"),
    "unknown part": (put("beauty", 1), "beauty"),
    "unknown answer": (put("answers", "beauty", {}), "beauty"),
    "unknown part of an answer": (put("answers", "labels", "x", 1), "labels"),
    "values": (put("values", 1, 0.123), "values"),
    "robustness per class": (put("robustness_per_class", 1, 0.123), "per_class"),
    "interval": (put("confidence_interval", [0.5, 7]), "confidence_interval"),
    "interval text": (put("confidence_interval", "x"), "confidence_interval"),
    "true among the counts": (put("confusion", 0, 0, 0, True), "confusion"),
    "huge counts": (
        put("confusion", [[[2**62, 0, 0, 0]] + [[0] * 4] * 2] * 5),
        "confusion",
    ),
    "no inputs": (put("confusion", [[[0] * 4] * 3] * 5), "confusion"),
    "no uncertainty": (drop("answers", "uncertainty"), "uncertainty"),
    "a part twice": (put("unit", Raw('"px", "threshold": 0.1')), "twice"),
    "deep": (put("provenance", "x", Raw("[" * 10**5 + "]" * 10**5)), "nested too deep"),
}


@pytest.mark.parametrize("name", IMPLAUSIBLE)
def test_what_cannot_be_is_named(name):
    document = json.loads(assessment(alpha=0.6).to_json())
    change, what = IMPLAUSIBLE[name]
    change(document)
    with pytest.raises(ValueError, match=what):
        Assessment.from_json(Raw.dumped(document))


def test_counts_alone_cannot_hold_unknown_answers_without_alpha():
    text = assessment(alpha=0.6).to_json(answers=False)
    Assessment.from_json(text)
    assert_refused(text, put("alpha", None), "alpha is null")


def test_whole_numbers_are_numbers():
    text = assessment(threshold=1.0, seconds=2.0).to_json()
    document = json.loads(text) | {"threshold": 1, "seconds": 2}
    assert Assessment.from_json(json.dumps(document)).to_json() == text


def test_an_alteration_that_nothing_tells_from_others_is_null():
    document = json.loads(assessment().to_json())
    document["provenance"]["alteration"] = None
    assert Assessment.from_json(json.dumps(document)).provenance["alteration"] is None
