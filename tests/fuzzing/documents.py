"""Journals, and the JSON of assessments, of RoMA and of attacks."""

import dataclasses
import json
import types

import numpy as np

import jaxrob
from jaxrob import adversarial, roma
from jaxrob._engine.answers import Answers, OfClasses, OfScores
from jaxrob._engine.execution import Bar
from jaxrob._engine.journal import CachedAnswers, Journal
from jaxrob._engine.scores import Scored, ScoreRule
from jaxrob.roma._assess import answers_in
from jaxrob.roma._draws import Inputs
from jaxrob.roma._estimate import Answers as RomaAnswers

from ..adversarial.test_attack import FOUND
from ..assessment.documents import journal_line
from ..assessment.test_serialization import assessment, diagnostics
from ..engine.test_journal import array
from ..roma.test_global_result import json_result
from .mutations import Seed, Target


def line(value):
    return journal_line(
        value if isinstance(value, bytes) else json.dumps(value).encode()
    )


def lines_seeds(lines):
    """Whole files; and each record's JSON, with checksums that fit."""
    seeds = [Seed(b"".join(map(line, lines)))]
    for number in range(1, len(lines)):
        for content in (lines[number], json.dumps(lines[number]).encode()):

            def wrap(changed, number=number):
                new = [*lines[:number], changed, *lines[number + 1 :]]
                return b"".join(map(line, new))

            seeds.append(Seed(content, wrap))
    return seeds


SHIFT = jaxrob.Alteration("shift", lambda image, level: image + level, 0.0, 1.0)
HEADER = {"kind": "answers"}


def journal_target(folder):
    rng = np.random.default_rng(0)

    def check(answers):
        assert isinstance(answers, Answers)
        assert all(part.shape == (20,) for part in answers)
        assert set(answers.predicted.tolist()) <= {0, 1, 2}
        assert set(answers.rank.tolist()) <= {0, 1, 2}
        for part in answers[1:3]:
            assert ((part >= 0) & (part <= 1.001)).all()

    def answers():
        return {
            "predicted": rng.integers(0, 3, (2, 10)).astype("<i4"),
            "confidence": rng.random((2, 10)).astype("<f4"),
            "uncertainty": rng.random((2, 10)).astype("<f4"),
            "rank": rng.integers(0, 3, (2, 10)).astype("<i4"),
        }

    kind = OfClasses(jaxrob.Classifier(len), 3)
    return answers_target(answers, kind.read, check)


def scores_journal_target(folder):
    rng = np.random.default_rng(0)

    def check(scored):
        assert isinstance(scored, Scored)
        assert scored.score.shape == (20,)
        assert ((scored.score >= 0) & (scored.score <= 1)).all()

    read = OfScores(ScoreRule(jaxrob.Score(len), (8, 8, 1), False, False)).read
    return answers_target(lambda: {"score": rng.random((2, 10))}, read, check)


def answers_target(make, read_record, check_one):
    lines = [{"format": "jaxrob journal 2"} | HEADER]
    for start in (0, 10):
        record = {"alteration": SHIFT.description, "start": start}
        record["levels"] = array(np.array([0.0, 0.5]))
        lines.append(record | {name: array(one) for name, one in make().items()})

    def read(path):
        with Journal(path, HEADER) as journal:
            kept = CachedAnswers(journal, read_record)
            return [kept.find(SHIFT, level, 0, 20) for level in (0.0, 0.5, 1.0)]

    def check(found):
        for one in filter(None, found):
            check_one(one)

    return Target(lines_seeds(lines), read, check)


def roma_journal_target(folder):
    def answers(number):
        none = np.full(number, np.nan)
        counts = np.zeros(number, np.int64)
        return RomaAnswers(np.full(number, "counted"), none, none, none, counts, counts)

    def record(first, number):
        fields = answers(number)._asdict().items()
        arrays = {name: array(one) for name, one in fields if one is not None}
        indices = np.arange(first, first + number, dtype=np.uint32)
        return {"indices": array(indices), "fields": arrays}

    lines = [{"format": "jaxrob journal 2"} | HEADER, record(0, 256), record(256, 44)]
    images = np.zeros((300, 1), np.float32)
    inputs = Inputs(images, np.arange(300, dtype=np.uint32), np.zeros(300, np.int32))

    def read(path):
        with Journal(path, HEADER) as journal:
            settings = types.SimpleNamespace(bar=Bar(disable=True))
            return answers_in(
                journal, lambda some, _: answers(len(some[0])), inputs, settings
            )

    def check(found):
        assert all(part is None or part.shape == (300,) for part in found)
        assert (found.hits >= 0).all() and (found.status != "").all()

    return Target(lines_seeds(lines), read, check)


def assessments():
    """Two, one with "unknown" answers."""
    about = assessment().provenance | {
        "settings": {"fill": "edge"},
        "network": {"name": "net", "class_names": ["a", "b", "c"]},
    }
    changes = {"diagnostics": diagnostics(3, float("nan")), "provenance": about}
    return [
        assessment(3, 20, alpha=alpha, warnings=("beware",), **changes)
        for alpha in (None, 0.4)
    ]


def seeds_of(texts):
    """The texts as bytes, and three times as often their values."""
    return [Seed(text.encode()) for text in texts] + [
        Seed(json.loads(text), lambda value: json.dumps(value).encode())
        for text in texts
        for _ in range(3)
    ]


def json_target(folder):
    texts = []
    for one in assessments():
        texts += [one.to_json(), one.to_json(answers=False)]
    texts.append(scores().to_json())

    def read(path):
        return jaxrob.Assessment.from_json(path.read_bytes())

    def check(found):
        assert 0 <= found.threshold <= 1 and found.lower < found.upper
        assert found.lower <= found.identity <= found.upper
        assert np.isnan(found.robustness) or 0 <= found.robustness <= 1
        low, high = found.confidence_interval
        assert not low > high
        text = found.to_json()
        assert jaxrob.Assessment.from_json(text).to_json() == text
        if isinstance(found.curve, jaxrob.ScoreCurve):
            assert ((found.values >= 0) & (found.values <= 1)).all()
            assert found.curve.lowest(found.identity)[0].ndim == 1
        if isinstance(found.curve, jaxrob.Curve):
            assert found.first_failing_level.ndim == 1

    return Target(seeds_of(texts), read, check, names_file=False)


def scores():
    first = assessments()[0]
    values = np.random.default_rng(1).random((3, 20))
    curve = jaxrob.ScoreCurve(first.levels, values, "IoU")
    about = {"score": {"name": "IoU", "version": "1", "labels": "masks"}}
    changes = {"curve": curve, "measure": curve.measure}
    return dataclasses.replace(first, provenance=first.provenance | about, **changes)


def sealed_target(document, read_text, check):
    """A reader of documents whose digests guard all that matters."""

    def read(path):
        return read_text(path.read_bytes())

    def check_all(found):
        check(found)
        text = found.to_json()
        assert read_text(text).to_json() == text

    def same(one, other):
        return one.to_json() == other.to_json()

    seeds = [one._replace(is_protected=True) for one in seeds_of([document.to_json()])]
    return Target(seeds, read, check_all, same, names_file=False)


def roma_json_target(folder):
    def check(found):
        assert found.log_adversarial_probability.shape == found.excluded.shape
        assert found.categorial() is not None and found.caveats is not None

    read = roma.RomaResult.from_json
    return sealed_target(json_result(), read, check)


def attack_target(folder):
    def check(found):
        assert len({len(part) for part in found[1:]}) == 1
        assert (found.labels >= 0).all() and found.images.size == 0

    read = adversarial.Attack.from_json
    return sealed_target(FOUND, read, check)
