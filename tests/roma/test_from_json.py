"""RoMA's results from their JSON."""

import dataclasses
import json

import numpy as np
import pytest

from jaxrob.roma import RomaResult

from ..assessment.test_serialization import drop, put

NAN, INF = np.nan, np.inf


def result(**changes):
    modes = np.zeros((4, 10))
    modes[3, :2] = 0.75, 0.25
    fields = {
        "estimator": "auto",
        "perturbation": "linf ball",
        "epsilon": 0.1,
        "delta": 0.6,
        "num_samples": 100,
        "excluded": np.array([0, 2, 1, 2], np.int32),
        "labels": np.array([0, 2, 2, 2], np.int32),
        "status": np.array(["counted", "bounded", "untrusted", "importance"]),
        "log_adversarial_probability": np.array([-INF, -700.0, NAN, -9.5]),
        "log_low": np.array([-INF, -INF, NAN, -9.9]),
        "log_high": np.array([-3.3, -700.0, NAN, -9.1]),
        "hits": np.array([0, 0, 0, 100]),
        "evaluations": np.array([100, 5000, 9000, 2**40]),
        "modes": modes,
        "effective_sample_size": np.array([0.0, 0.0, 0.0, 123.4]),
        "needed": np.zeros(4, int),
        "warnings": ("beware <b>",),
    }
    return RomaResult(**(fields | changes))


def by_algorithm_1():
    return result(
        estimator="roma",
        epsilon=None,
        labels=None,
        status=np.array(["normal", "transformed", "failed", "constant"]),
        log_adversarial_probability=np.array([-2.5, -INF, NAN, NAN]),
        log_low=np.full(4, NAN),
        log_high=np.full(4, NAN),
        modes=None,
        effective_sample_size=None,
        needed=None,
        statistic=np.array([0.1, INF, 3.0, NAN]),
        boxcox_lambda=np.array([NAN, 0.5, -1.5, NAN]),
        mean=np.array([0.5, -0.7, -INF, NAN]),
        std=np.array([0.1, 0.09, 2.0, NAN]),
    )


@pytest.mark.parametrize(
    "before", [result(), by_algorithm_1(), result(hits=None, modes=None)]
)
def test_back_as_it_was(before):
    text = before.to_json()
    json.loads(text, parse_constant=pytest.fail)
    after = RomaResult.from_json(text)
    for field in dataclasses.fields(RomaResult):
        one, other = (getattr(each, field.name) for each in (before, after))
        np.testing.assert_array_equal(one, other, strict=field.name != "status")
    np.testing.assert_array_equal(after.plr, before.plr)
    assert after.caveats == before.caveats
    assert after.to_json() == text == RomaResult.from_json(text.encode()).to_json()


def test_a_sum_of_classes_may_exceed_1():
    """What extrapolation gives, and its negative plr."""
    before = result(
        estimator="logit",
        status=np.full(4, "extrapolated"),
        log_adversarial_probability=np.array([0.2, 0.0, -1.0, -INF]),
    )
    after = RomaResult.from_json(before.to_json())
    np.testing.assert_array_equal(after.plr, before.plr)


# By name: what is changed, and what is named.
IMPLAUSIBLE = {
    "another format": (put("format", "jaxrob assessment 1"), "format must be"),
    "no format": (drop("format"), "format must be"),
    "unknown part": (put("beauty", 1), "unknown parts"),
    "a part missing": (drop("modes"), "lacks 'modes'"),
    "estimator": (put("estimator", "guess"), "estimator must be one of"),
    "budget": (put("budget", 0), "budget must be at least 1"),
    "budget overdrawn": (put("budget", 10_000), "evaluations must be at most the b"),
    "needed of an answer": (put("needed", 0, 5), "needed must be above 0 where"),
    "needed unknown": (put("status", 2, "undecided"), "needed must be above 0 where"),
    "undecided without a budget": (
        lambda document: (
            put("status", 2, "undecided")(document),
            put("needed", 2, 20_000)(document),
        ),
        "budget must be given",
    ),
    "perturbation": (put("perturbation", 3), "perturbation must be a text"),
    "epsilon": (put("epsilon", -1), "epsilon must be at least 0"),
    "epsilon true": (put("epsilon", True), "epsilon must be a number"),
    "delta": (put("delta", 1), r"delta must lie in \(0, 1\)"),
    "delta null": (put("delta", None), "delta must be a number"),
    "num_samples": (put("num_samples", 0), "num_samples must be at least 1"),
    "num_samples half": (put("num_samples", 8.5), "num_samples must be an integer"),
    "hits above": (put("num_samples", 99), "hits must be at most num_samples, 99"),
    "hits negative": (put("hits", 0, -1), "hits must be -1 where"),
    "hits half": (put("hits", 0, 0.5), r"hits\[0\] must be an integer"),
    "hits true": (put("hits", 0, True), r"hits\[0\] must be an integer"),
    "status": (put("status", 0, "fine"), r"status\[0\] must be one of"),
    "status null": (put("status", 0, None), r"status\[0\] must be one of"),
    "answer where none": (put("status", 0, "incomplete"), "null where 'incomplete'"),
    "probability above 1": (put("log_adversarial_probability", 3, 0.1), "at most 0"),
    "probability inf": (put("log_adversarial_probability", 3, "inf"), "inf"),
    "probability text": (put("log_high", 3, "-1"), r"log_high\[3\] must be a number"),
    "probability huge": (put("log_high", 3, -(10**400)), "log_high"),
    "interval turned around": (put("log_low", 3, -1.0), "log_low must be at most log"),
    "fewer": (put("excluded", lambda some: some[1:]), r"must have the shape \[N\]"),
    "none": (put("excluded", []), r"must have the shape \[N\]"),
    "labels of more": (
        put("labels", lambda some: some * 2),
        "labels must have the shape",
    ),
    "class negative": (put("excluded", 0, -1), "excluded must lie in"),
    "class huge": (put("excluded", 0, 2**31), "excluded must lie in"),
    "modes of fewer": (put("modes", lambda some: some[1:]), "modes must have the sh"),
    "nine modes": (put("modes", 0, [0.0] * 9), r"modes must .*\[N, 10\]"),
    "modes of numbers": (put("modes", 0, 0.5), r"modes must be an array"),
    "modes null": (put("modes", 0, 0, None), r"modes\[0\]\[0\] must be"),
    "share above 1": (put("modes", 0, 0, 1.5), "modes must lie in"),
    "statistic": (put("statistic", [1.0]), "statistic must have the"),
    "size": (put("effective_sample_size", 0, -1), "effective_sample_size must be at"),
    "evaluations": (put("evaluations", 0, -1), "evaluations must lie in"),
    "caveats": (put("caveats", "x"), "caveats must be a list"),
    "warnings": (put("warnings", [3]), r"warnings\[0\] must be a text"),
}


@pytest.mark.parametrize("name", IMPLAUSIBLE)
def test_what_cannot_be_is_named(name):
    change, message = IMPLAUSIBLE[name]
    document = json.loads(result().to_json())
    change(document)
    with pytest.raises(ValueError, match=message):
        RomaResult.from_json(json.dumps(document))


@pytest.mark.parametrize("text", ["", "{}", "3", "[" * 10**5, b"\x80\x04\x95", b"\xff"])
def test_what_is_no_result(text):
    with pytest.raises(ValueError, match="not JSON|must be|nested too deep"):
        RomaResult.from_json(text)


def test_no_text():
    with pytest.raises(TypeError, match="text must be the text that to_json gave"):
        RomaResult.from_json(3)
