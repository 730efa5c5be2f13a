"""What tables, plots, gates, folders and reports say of few images and of scores."""

import dataclasses

import numpy as np
import pytest

import jaxrob
from jaxrob import ReducedCurve, reporting
from jaxrob._assessment.assessment import Sampling
from jaxrob._assessment.diagnostics import diagnose_few
from jaxrob._command.run import main
from jaxrob.metrics import ConfidenceInterval
from jaxrob.reporting import (
    Requirement,
    Results,
    quantities,
    ranks,
    table,
    unmet,
    verdict,
)
from jaxrob.strategies import Task
from jaxrob.strategies._strategy import History

from . import reports as made
from .reports import lacking
from .test_pictures import BRIGHTER, DATASET, NOISE, key, noisy

# At nine levels, of 1,000 images.
SEEN = np.array([100, 100, 100, 1000, 600, 100, 100, 100, 100])
RIGHT = np.array([99, 97, 92, 830, 450, 55, 40, 30, 20])
SIDES = np.array([1, 1, 1, 1, 0, -1, -1, -1, -1])


def few(name="gaussian blur", on_data=(0.36, 0.42), on_all=(0.3, 0.5), **changes):
    """Of two classes, of which the first has half of the images."""
    confusion = np.zeros((9, 3, 4), np.int64)
    confusion[:, 0, 0], confusion[:, 0, 1] = RIGHT, SEEN - RIGHT
    sampling = {
        "half_width": 0.03,
        "budget": None,
        "curtail": False,
        "error": 0.05,
        "status": "precise",
        "num_images": 1000,
        "evaluations": int(SEEN.sum()),
        "seen": SEEN,
        "sides": SIDES,
        "robustness": 0.39,
        "dataset_interval": ConfidenceInterval(*on_data),
        "population_interval": ConfidenceInterval(*on_all),
    }
    return made.assessment(
        name=name,
        answers=ReducedCurve(made.LEVELS, confusion),
        error_bound=None,
        rule="right",
        strategy="ASAP(n=1024)",
        sampling=Sampling(**(sampling | changes)),
        diagnostics=diagnose_few(
            Task(0.0, 4.0, 0.8, 0.0), History(made.LEVELS, RIGHT / SEEN), 9
        ),
    )


def both(*assessments, **changes):
    page, text = made.both([made.results(assessments, **changes)])
    return made.words(page), " ".join(text.replace("\\", "").split())


def test_the_table_has_both_certainties_and_what_they_cost():
    text = table([few()])
    (row,) = [line for line in text.split("\n") if line.startswith("gaussian blur")]
    cells = ("39.00%", "30.0% - 50.0%", "36.00% - 42.00%", "2,300", "25.6%")
    assert not lacking(row, *cells)
    assert row.endswith("precise")


@pytest.mark.parametrize(
    ("least", "is_good", "says"),
    [
        (0.36, True, "on this data set it is reached, with 95 % confidence"),
        (0.4, False, "not sure on this data set; more images would tell"),
        (0.43, False, "on this data set it is missed, with 95 % confidence"),
    ],
)
def test_a_requirement_is_met_only_where_that_is_sure(least, is_good, says):
    one, asked = few(), Requirement("robustness", least)
    found = {"blur": quantities(one)}
    assert found["blur"]["robustness"] == (0.36, 0.42)
    assert (unmet([asked], found) == []) == is_good
    assert bool(verdict([asked], found)) == (not is_good)
    for text in both(one, requirements=(asked,)):
        assert says in text and "36.0 to 42.0 %" in text
        assert ("Good enough: the one check is met" in text) == is_good
        # More images would tell, or they would not.
        assert ("Not shown to be good enough" in text) == (least == 0.4)


@pytest.mark.parametrize(
    "changes", [{"status": "resolution"}, {"half_width": 0.0}, {"half_width": None}]
)
def test_what_the_levels_leave_open_is_as_with_all_images(changes):
    one = few(**changes)
    assert quantities(one)["robustness"] == 0.39
    found = {"blur": quantities(one)}
    assert unmet([Requirement("robustness", 0.39)], found) == []
    assert unmet([Requirement("robustness", 0.395)], found) != []


def test_gates_know_no_share_of_images_not_looked_at():
    found = {"blur": quantities(few())}
    assert unmet([Requirement("robustness.low", 0.3)], found) == []
    # A share of images that were not all looked at.
    assert (
        "decided_ratio is not known"
        in unmet([Requirement("decided_ratio", 0.0)], found)[0]
    )
    with pytest.raises(ValueError, match="robustness"):
        outside = {"blur": {"robustness": ConfidenceInterval(0.5, 1.5)}}
        unmet([Requirement("robustness", 0.4)], outside)


def test_a_folder_keeps_them(tmp_path):
    plan = made.plan(half_width=0.03, budget=10_000, curtail=True)
    found = made.results((few(), made.assessment(name="zoom")), plan=plan)
    reporting.write_results(tmp_path, found)
    again = reporting.read_results(tmp_path)
    assert again.plan == plan
    assert repr(again.assessments[0].sampling) == repr(few().sampling)
    # A table of both kinds says which is which.
    text = table(again.assessments)
    (row,) = [line for line in text.split("\n") if line.startswith("zoom")]
    assert row.split()[-1] == "all" and "100.0%" in row


def test_pictures_are_of_the_data_set_and_have_its_labels():
    """Of 40 images, none of which is known to fail."""
    changes = {"lower": -0.4, "upper": 0.4, "alteration": "brightness"}
    seen = few(seen=np.full(9, 40), num_images=40, evaluations=360)
    one = dataclasses.replace(seen, **changes, provenance={})
    shown = reporting.pictures(one, BRIGHTER, DATASET, most=8)
    views = {"unaltered", "lower end", "upper end"}
    assert {each.shown_as for each in shown} == views
    for each in shown:
        assert each.label == DATASET.labels[each.index] and each.predicted is None


def test_plots_have_bands_that_are_wider_where_few_images_were():
    axes = few().plot()
    assert "100 to 1,000 of 1,000 images" in axes.get_xlabel()
    (band,) = [one for one in axes.collections if len(one.get_paths()[0].vertices) > 10]
    points = band.get_paths()[0].vertices
    width = {
        level: np.ptp(points[np.isclose(points[:, 0], level), 1])
        for level in made.LEVELS[1:-1]
    }
    # The accuracy is next to 1/2 at 2.5 and 3/4 at 2: a factor of 2 by the images.
    assert width[1.5] < width[2.0] < 0.5 * width[2.5]
    for axes in (
        reporting.plot_measures(few()),
        reporting.plot_networks([few(), few()], ["a", "b"]),
    ):
        assert "100 to 1,000 of 1,000 images" in axes.get_xlabel()


NUMBER = 60
ABOUT = {"name": "IoU", "version": "1", "labels": "masks"}


def scored(shift=0.0, **changes):
    """The score of image i falls from 0.99 by its own slope; image 59's most."""
    slopes = 0.05 + np.arange(NUMBER) / 400
    scores = np.clip(0.99 - shift - slopes * made.LEVELS[:, None], 0, 1)
    one = made.assessment()
    curve = jaxrob.ScoreCurve(made.LEVELS, scores, "IoU")
    provenance = one.provenance | {"score": ABOUT}
    usual = {"curve": curve, "measure": "mean IoU", "provenance": provenance}
    return dataclasses.replace(one, **(usual | changes))


def results(*ones, network="net", **more):
    least = (Requirement("robustness", 0.5), Requirement("robustness.low", 0.9))
    return Results(network, None, ones or (scored(),), requirements=least, **more)


def test_networks_are_compared():
    worse = results(scored(0.1), network="worse")
    text = reporting.to_markdown([results(), worse], [results()])
    assert "less robust, beyond what chance explains" in text
    (found,) = reporting.regressions(scored(0.1), scored())
    assert found.startswith("gaussian blur: robustness is ")
    assert not reporting.regressions(scored(), scored())


def test_results_of_scores_are_kept(tmp_path):
    slopes = np.random.default_rng(0).random(40)
    scores = 1 - made.LEVELS[:, None] / 8 * slopes
    one = dataclasses.replace(
        noisy(),
        curve=jaxrob.ScoreCurve(made.LEVELS / 40, scores, "error"),
        measure="mean error",
        provenance=noisy().provenance | {"score": ABOUT | {"name": "error"}},
        diagnostics=scored().diagnostics,
    )
    shown = reporting.pictures(one, NOISE, DATASET, key())
    worst = [each for each in shown if each.shown_as == "lowest score"]
    scores, levels = one.curve.lowest(0.0)
    changed = np.flatnonzero(levels != 0)
    assert worst[0].index == changed[scores[changed].argmin()]
    assert worst[0].level == levels[worst[0].index]
    assert {(each.label, each.predicted) for each in shown} == {(None, None)}
    kept = results(one, pictures=(shown,))
    reporting.write_results(tmp_path / "kept", kept)
    page = reporting.to_html([reporting.read_results(tmp_path / "kept")])
    assert page == reporting.to_html([kept])
    assert f"image {worst[0].index}, error {100 * min(scores[changed]):.1f} %" in page
    folder = str(tmp_path / "kept")
    assert main(["compare", folder, folder]) == 0
    assert main(["report", folder]) == 0
    assert (tmp_path / "kept" / "report.html").read_text(encoding="utf-8") == page


def test_plots_of_scores():
    axes = reporting.plot_measures(scored())
    assert [line.get_label() for line in axes.lines[:1]] == ["mean IoU"]
    assert axes.get_ylabel() == "score"
    assert reporting.plot(scored()).get_ylabel() == "mean IoU"
    named = dataclasses.replace(
        scored(),
        measure="mean $x$",
        curve=jaxrob.ScoreCurve(made.LEVELS, scored().curve.scores, "$x$"),
    )
    assert reporting.plot(named).get_ylabel() == r"mean \$x\$"
    with pytest.raises(ValueError, match="classes to be confused"):
        reporting.plot_confusion(scored(), 1.0)


def test_ranks_are_by_the_mean_score():
    named = {"lower": [scored(0.1)], "same": [scored()], "again": [scored()]}
    (found,) = ranks(named)
    assert found.measure == "mean IoU" and found.networks[2] == "lower"
    assert found.could_be_first == ("same", "again") and found.low[2] == 3
    # The same numbers whenever it is asked.
    (again,) = ranks(named)
    assert again.networks == found.networks and (again.high == found.high).all()
