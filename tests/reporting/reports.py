"""Results made by hand, and reports as they are read."""

import dataclasses
import datetime
import html
import re

import numpy as np

from jaxrob import Assessment, Curve, ReducedCurve, reporting
from jaxrob._assessment.diagnostics import Diagnostics
from jaxrob.adversarial import Attack
from jaxrob.reporting._results import picture_digest
from jaxrob.roma import RomaResult

LEVELS = np.linspace(0.0, 4.0, 9)
NAMES = ("cat", "dog", "owl")
XHTML = "{http://www.w3.org/1999/xhtml}"


def curve(limits, levels=LEVELS, num_classes=3, uncertainty=0.0, alpha=None):
    """Image i has the class i % K and is right up to its limit, then one class on."""
    limits = np.asarray(limits, float)
    labels = (np.arange(len(limits)) % num_classes).astype(np.int32)
    wrong = levels[:, None] > limits
    predicted = np.where(wrong, (labels + 1) % num_classes, labels)
    shape = predicted.shape
    return Curve(
        levels,
        predicted.astype(np.int16),
        np.full(shape, 0.9, np.float32),
        np.broadcast_to(np.float32(uncertainty), shape).astype(np.float32),
        labels,
        num_classes,
        alpha,
    )


def assessment(limits=None, name="gaussian blur", answers=None, **changes):
    """Of 60 images, those of class 2 fail first."""
    if limits is None:
        limits = np.arange(60) // 3 / 5 + np.array([1.0, 1.0, 0.0])[np.arange(60) % 3]
    settings = {
        "alteration": name,
        "unit": "px",
        "lower": 0.0,
        "upper": 4.0,
        "identity": 0.0,
        "threshold": 0.8,
        "measure": "accuracy",
        "rule": "linear",
        "strategy": "Uniform(n=9)",
        "error_bound": 0.0125,
        "diagnostics": Diagnostics(9, 1, 0.125, 1.0, 0.0, 0.2, 0.01, 0.1, 1 / 15),
        "warnings": (),
        "scores": None,
        "curve": curve(limits) if answers is None else answers,
        "provenance": {
            "versions": {"jaxrob": "0.1.0", "jax": "0.8.0", "python": "3.11.4"},
            "devices": {"platform": "cpu", "kind": "cpu", "count": 2},
            "key": [0, 17],
            "classifier": "c1a551f1e7" * 3,
            "network": {"name": "net", "preprocessing": {"mean": [0.5]}},
            "dataset": {"name": "pets", "fingerprint": "da7a" * 8, "labels": "given"},
            "alteration": f"jaxrob 0.1.0: {name}",
            "settings": {"fill": "edge"},
        },
        "seconds": 0.1,
    }
    return Assessment(**(settings | changes))


def counted(correct, number, levels, **changes):
    """Right answers of `number` images at each level, of the first of two classes."""
    confusion = np.zeros((len(levels), 2, 3), np.int64)
    confusion[:, 0, 0] = correct
    confusion[:, 0, 1] = number - np.array(correct)
    settings = {
        "lower": -1.0,
        "upper": 1.0,
        "rule": "count",
        "error_bound": None,
        "diagnostics": Diagnostics(
            len(levels), 1, 0.15, 1.5, 0.0, 0.2, 0.01, 0.1, 0.08
        ),
        "provenance": {},
        "seconds": 1.26,
    }
    answers = ReducedCurve(np.array(levels), confusion)
    return assessment(name="brightness", answers=answers, **(settings | changes))


def picture(level=0.0, index=0, label=0, predicted=0, shown_as="unaltered", side=8):
    image = np.full((side, side, 3), 50 + index, np.uint8)
    digest = picture_digest(image)
    return reporting.Picture(image, digest, level, index, label, predicted, shown_as)


def plan(**changes):
    settings = {
        "name": "pets of spring",
        "date": datetime.date(2026, 3, 1),
        "digest": "0123456789abcdef" * 4,
        "alterations": (
            reporting.PlannedAlteration("gaussian_blur", 0.0, 4.0, {}, "lens"),
        ),
        "threshold": 0.8,
        "requirements": (reporting.Requirement("robustness", 0.25),),
    }
    return reporting.Plan(**(settings | changes))


def results(assessments=None, **changes):
    settings = {
        "network": "net",
        "class_names": NAMES,
        "assessments": (assessment(),) if assessments is None else assessments,
        "requirements": (reporting.Requirement("robustness", 0.25),),
    }
    return reporting.Results(**(settings | changes))


def roma(number=12, **changes):
    """The adversarial probability of an input rises from 0.01 to 0.2."""
    fields = {
        "estimator": "count",
        "perturbation": "uniform in the L-infinity ball",
        "epsilon": 0.1,
        "delta": 0.6,
        "num_samples": 100,
        "excluded": (np.arange(number) % 3).astype(np.int32),
        "labels": None,
        "status": np.full(number, "counted"),
        "log_adversarial_probability": np.log(np.linspace(0.01, 0.2, number)),
        "log_low": np.log(np.linspace(0.001, 0.1, number)),
        "log_high": np.log(np.linspace(0.1, 0.4, number)),
        "hits": np.arange(number),
        "evaluations": np.full(number, 100),
    }
    return RomaResult(**(fields | changes))


def attack(number=9):
    success = np.arange(number) % 2 == 0
    return Attack(
        np.zeros((0, 0, 0, 0), np.float32),
        success,
        np.where(success, 0.9, 0),
        np.where(success, 1.5, np.nan),
        np.ones(number, bool),
        (np.arange(number) % 3).astype(np.int32),
        np.full(number, -1, np.int32),
        ((np.arange(number) + 1) % 3).astype(np.int32),
        np.full(number, 0.7, np.float32),
        np.zeros(number, bool),
    )


def other(one, **changes):
    source = one.provenance | {"classifier": "07e4" * 8}
    return dataclasses.replace(one, **({"provenance": source} | changes))


def both(found, earlier=()):
    return reporting.to_html(found, earlier), reporting.to_markdown(found, earlier)


def parsed(page):
    """A single error of HTML is an exception."""
    import html5lib

    return html5lib.HTMLParser(strict=True).parse(page)


def words(page):
    """The text of a page as it is read, without style sheet and data."""
    body = re.sub(r"(?s)<(style|script)\b.*?</\1>", " ", page.partition("<body>")[2])
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def lacking(text, *wanted):
    return [one for one in wanted if one not in text]
