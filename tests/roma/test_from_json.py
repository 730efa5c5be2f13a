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
        "confidence_level": 0.999,
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


@pytest.mark.parametrize("before", [result(), by_algorithm_1(), result(modes=None)])
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


def test_where_every_draw_fails_plr_is_0_and_not_minus_0():
    ends = np.array([-0.1, -700.0, NAN, -9.9])
    log_p = np.array([0.0, -700.0, NAN, -9.5])
    found = result(log_adversarial_probability=log_p, log_low=ends, log_high=log_p)
    assert f"{found.plr[0]}" == "0.0"
    assert f"{found.confidence_interval[0, 0]}" == "0.0"


# What is changed, and what is named.
IMPLAUSIBLE = [
    (put("format", "jaxrob assessment 1"), "format"),
    (put("beauty", 1), "beauty"),
    (drop("modes"), "modes"),
    (put("estimator", "guess"), "estimator"),
    (put("delta", 1), "delta"),
    (put("hits", 0, 0.5), r"hits\[0\]"),
    (put("confidence_level", 1), "confidence_level"),
    (put("status", 0, "fine"), r"status\[0\]"),
    (put("log_high", 3, "-1"), r"log_high\[3\]"),
    (put("excluded", lambda some: some[1:]), "shape"),
    (put("excluded", 0, 2**31), "excluded"),
    (put("modes", lambda some: some[1:]), "modes"),
    (put("modes", 0, 0, 1.5), "modes"),
    (put("effective_sample_size", 0, -1), "effective_sample_size"),
]


@pytest.mark.parametrize(("change", "message"), IMPLAUSIBLE)
def test_what_cannot_be_is_named(change, message):
    document = json.loads(result().to_json())
    change(document)
    with pytest.raises(ValueError, match=message):
        RomaResult.from_json(json.dumps(document))
