"""What a reader who knows nothing of the project needs a report to say."""

import dataclasses
import html
import re

import numpy as np
import pytest

from jaxrob import metrics
from jaxrob.alterations import rotation, zoom
from jaxrob.alterations._said import words as said_words
from jaxrob.reporting import Requirement, to_html, to_markdown
from jaxrob.reporting._pictures import first_to_fail

from . import reports as made


def texts(*assessments, **changes):
    """Both forms as they are read, nearly."""
    found = made.results(assessments or (made.assessment(),), **changes)
    page = re.sub(r"<style>.*?</style>", "", to_html([found]), flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", page)), to_markdown([found])


def judged(least, *assessments, quantity="robustness.low"):
    return texts(*assessments, requirements=(Requirement(quantity, least),))


def test_a_requirement_within_the_interval_is_not_shown_either_way():
    low, high = made.assessment().confidence_interval
    for text in judged((low + high) / 2):
        assert "Not shown to be good enough: 1 of 1 check not shown" in text
        assert (
            f"not shown either way: {100 * low:.1f} to {100 * high:.1f} % contains"
            in text
        )
    # Beyond the interval it is shown to be missed.
    for text in judged(high + 0.1):
        assert "Not good enough: 1 of 1 check not met" in text
        assert f"{100 * low:.1f} to {100 * high:.1f} % falls short" in text
    # Of the tested images alone more is known.
    one = made.assessment()
    for text in judged((one.robustness + high) / 2, one, quantity="robustness"):
        assert "Not good enough:" in text
        assert "true of the tested images; for all images not shown" in text


def test_a_requirement_that_is_met_may_not_outlast_the_errors():
    one = made.assessment()
    low = one.confidence_interval.low
    for text in judged(low - 0.02):
        assert "% suffices, also with the levels' 1.2 points" in text
    for text in judged(low - 0.01):
        assert "% suffices, but not with the levels' 1.2 points" in text
    for text in judged(low, dataclasses.replace(one, error_bound=None)):
        assert "not known with the error of the levels" in text
    two = one, made.assessment(name="zoom")
    for text in judged(low, *two):
        assert "but not for all 2 at once or with the levels'" in text
    joint = metrics.confidence_interval(
        one.levels, one.curve.confusion, "accuracy", 0.8, 0.975, bounds=(0.0, 4.0)
    )
    for text in judged(joint.low - 0.02, *two):
        assert "also for all 2 at once and with the levels'" in text


@pytest.mark.parametrize("number", [24, 257])
def test_the_levels_that_decide_are_all_in_the_table(number):
    levels = np.linspace(0, 4, number)
    one = made.assessment(answers=made.curve(np.repeat([1.003, 3.001], 30), levels))
    page, text = texts(one)
    rows = re.findall(r"^\| ([\d.]+) \| [\d.]+ % \|.* (?:yes|no) \|$", text, re.M)
    beside = np.flatnonzero(np.diff(one.values >= 0.8))
    for index in (*beside, *(beside + 1)):
        assert f"{levels[index]:.4g}" in rows
    # Few are all shown.
    assert len(rows) == number if number == 24 else len(rows) < number
    is_said = f"{len(rows)} of 257 levels" in text and "of 257 levels" in page
    assert is_said == (number == 257)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["right", "linear"])
def test_the_levels_named_add_up_to_the_share(rule):
    levels = np.array([-2, -1.5, -0.25, 0, 0.5, 1, 1.75, 2.5, 4])
    answers = made.curve(np.tile([0.2, 1.3, 2.7], 20), levels)
    changes = {"rule": rule, "lower": -2.0, "threshold": 0.3}
    for text in texts(made.assessment(answers=answers, **changes)):
        named = re.search(r"where the level is ([^.]*(?:\.\d[^.]*)*) px\.", text)
        parts = re.findall(r"(-?[\d.]+) to (-?[\d.]+)", named[1])
        width = sum(float(high) - float(low) for low, high in parts)
        assert f"over {100 * width / 6:.1f} % of" in text.replace("*", "")
        assert "another estimate" not in text
    for text in texts(made.assessment(rule="count")):
        assert "The levels named are another estimate" in text


@pytest.mark.parametrize(
    ("alteration", "words"),
    [(rotation(-30, 30, "edge"), "anticlockwise"), (zoom(1, 2), "is magnified")],
)
def test_a_level_is_explained_as_its_alteration_does(alteration, words):
    source = made.assessment().provenance
    own = made.assessment(name=alteration.name, provenance=source)
    said = {"words": said_words(rotation(-30, 30)) | said_words(alteration)}
    one = dataclasses.replace(own, provenance=source | said)
    assert all(words in text for text in texts(one))
    assert not any(words in text for text in texts(own))
    assert all("fill edge (edge pixels repeat" in text for text in texts(one))


def test_classes_and_images_that_fail_are_counted():
    bad = np.where(np.arange(60) % 3 == 2, -1.0, 1.2)
    for text in texts(made.assessment(bad)):
        assert "not good enough even unaltered may be: “owl” (0.0 %)" in text
        assert "The first 10 of the 40 to fail though right unaltered" in text
        assert "image 0 of “cat”, seen at 1.5 px (not yet at 1)" in text
    # The class of the smallest share need not be the one that falls lowest.
    limits = np.select(
        [np.arange(60) % 3 == 0, np.arange(60) // 3 < 10], [9.0, 0.6], 9.0
    )
    limits[(np.arange(60) % 3 == 1)] = 2.1
    for text in texts(made.assessment(limits)):
        assert "Worst class: “owl”" in text
        assert "The lowest accuracy of a class is 0.0 %, of “dog”." in text


def test_words_are_explained_where_they_occur():
    for text in texts(made.assessment(strategy="ASAP(n=1024)", rule="right")):
        assert "chooses levels in rounds" in text and "rule “right”" in text
    for text in texts():
        assert "chooses levels in rounds" not in text
        assert "percentage points: from 40 % to 45 % are 5 points" in text
        assert "no word of where the images come from" in text


def test_what_networks_have_in_common_is_said_once():
    one = made.results((made.assessment(),), plan=made.plan(), reasons=("lens",))
    wider = dataclasses.replace(made.assessment(), upper=5.0)
    same = dataclasses.replace(one, network="second")
    other = dataclasses.replace(same, assessments=(wider,))
    for form in (to_html, to_markdown):
        alike, unlike = (form([one, each]) for each in (same, other))
        # The operating domain has the plan's range and reason.
        for sentence in ("unit of the level", "date written in the plan"):
            assert alike.count(sentence) == 1 and unlike.count(sentence) == 2
        assert alike.count("60 images, the same for every") == 1
        assert "and its settings and reasons" in alike
        assert "the plan says 0 to 4" in unlike


def test_a_plan_is_shown_where_the_domain_says_something_else():
    for reason, settings in (("dirt", {"fill": "edge"}), ("lens", {"n": 2})):
        planned = dataclasses.replace(made.plan().alterations[0], settings=settings)
        plan = made.plan(alterations=(planned,))
        for text in texts(reasons=(reason,), plan=plan):
            assert "and its settings and reasons" not in text and "planned" in text
            assert all(f"{name}={value}" in text for name, value in settings.items())


@pytest.mark.slow
def test_methods_are_named():
    for text in texts():
        assert "Wilson's score interval" in text and "resamples" not in text
    for text in texts(made.assessment(measure="f1")):
        assert "Wilson" not in text and "1,000 resamples" in text
    pair = [made.results(), made.results(network="second")]
    for text in (to_html(pair), html.unescape(to_markdown(pair))):
        assert "at most 4,000 times" in text and "Mogstad" in text
    # Wilson's interval has any confidence; a bootstrap has not.
    sure = made.results((made.assessment(confidence_level=0.99999),))
    page = to_html([sure, dataclasses.replace(sure, network="second")])
    assert "There are no ranks" in page and "Mogstad" not in page


def test_a_worst_class_that_fails_unaltered_is_named():
    bad = np.where(np.arange(60) % 3 == 2, -1.0, 1.2)
    said = "“owl” is not good enough even unaltered"
    for text in judged(0.5, made.assessment(bad), quantity="worst_class"):
        assert f"stated. {said}" in text
    page, text = judged(0.5, quantity="worst_class")
    assert said not in page + text
    # Paper shows what a screen does.
    assert "<details" not in page and "display: none" not in page


def test_what_was_not_looked_at_unaltered_is_not_said_of_it():
    """Of 60 images 6 are wrong at -0.25 already, so perhaps unaltered too."""
    levels = np.array([-1.0, -0.25, 0.5, 4.0])
    limits = np.repeat([-1.0, 0.0, 9.0], [6, 14, 40])
    one = made.assessment(answers=made.curve(limits, levels), lower=-1.0)
    at = "at -0.25 px, the nearest to unaltered that was looked at"
    for text in texts(one):
        assert "not measured" in text and f"accuracy {at}" in text
        assert f"6 are wrong {at}, 14 others fail at some level, and 40 at none" in text
        assert "wrong unaltered" not in text and "right unaltered" not in text
        assert f"The first 10 of the 14 to fail though right {at}: image 6 of" in text
    assert first_to_fail(one) == list(range(6, 20))
