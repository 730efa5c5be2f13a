"""What a reader who knows nothing of the project needs a report to say."""

import html
import re

import numpy as np
import pytest

from jaxrob.reporting import to_html, to_markdown
from jaxrob.reporting._pictures import first_to_fail

from . import reports as made


def texts(*assessments, **changes):
    """Both forms as they are read, nearly."""
    found = made.results(assessments or (made.assessment(),), **changes)
    page = re.sub(r"<style>.*?</style>", "", to_html([found]), flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", page)), to_markdown([found])


def test_the_levels_that_decide_are_all_in_the_table():
    levels = np.linspace(0, 4, 257)
    one = made.assessment(answers=made.curve(np.repeat([1.003, 3.001], 30), levels))
    page, text = texts(one)
    rows = re.findall(r"^\| ([\d.]+) \| [\d.]+ % \|.* (?:yes|no) \|$", text, re.M)
    beside = np.flatnonzero(np.diff(one.values >= 0.8))
    for index in (*beside, *(beside + 1)):
        assert f"{levels[index]:.4g}" in rows
    assert f"{len(rows)} of 257 levels" in text and "of 257 levels" in page


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


def test_images_fail_first_from_the_level_nearest_to_unaltered():
    """Of 60 images 6 are wrong at -0.25 already, so perhaps unaltered too."""
    levels = np.array([-1.0, -0.25, 0.5, 4.0])
    limits = np.repeat([-1.0, 0.0, 9.0], [6, 14, 40])
    one = made.assessment(answers=made.curve(limits, levels), lower=-1.0)
    assert first_to_fail(one) == list(range(6, 20))
