"""Tables, plots, pictures, reports, gates and folders of a user's scores."""

import dataclasses

import numpy as np
import pytest

import jaxrob
from jaxrob import reporting
from jaxrob._command.run import main
from jaxrob.reporting import Requirement, Results, ranks

from . import reports
from .test_pictures import DATASET, NOISE, key, noisy

NUMBER = 60
ABOUT = {"name": "IoU", "version": "1", "labels": "masks"}


def made(shift=0.0, **changes):
    """The score of image i falls from 0.99 by its own slope; image 59's most."""
    slopes = 0.05 + np.arange(NUMBER) / 400
    scores = np.clip(0.99 - shift - slopes * reports.LEVELS[:, None], 0, 1)
    one = reports.assessment()
    curve = jaxrob.ScoreCurve(reports.LEVELS, scores, "IoU")
    provenance = one.provenance | {"score": ABOUT}
    usual = {"curve": curve, "measure": "mean IoU", "provenance": provenance}
    return dataclasses.replace(one, **(usual | changes))


def results(*ones, network="net", **more):
    least = (Requirement("robustness", 0.5), Requirement("robustness.low", 0.9))
    return Results(network, None, ones or (made(),), requirements=least, **more)


def test_networks_are_compared():
    worse = results(made(0.1), network="worse")
    text = reporting.to_markdown([results(), worse], [results()])
    assert "less robust, beyond what chance explains" in text
    (found,) = reporting.regressions(made(0.1), made())
    assert found.startswith("gaussian blur: robustness is ")
    assert not reporting.regressions(made(), made())


def test_results_of_scores_are_kept(tmp_path):
    slopes = np.random.default_rng(0).random(40)
    scores = 1 - reports.LEVELS[:, None] / 8 * slopes
    one = dataclasses.replace(
        noisy(),
        curve=jaxrob.ScoreCurve(reports.LEVELS / 40, scores, "error"),
        measure="mean error",
        provenance=noisy().provenance | {"score": ABOUT | {"name": "error"}},
        diagnostics=made().diagnostics,
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
    read = reporting.read_results(tmp_path / "kept")
    page = reporting.to_html([read])
    assert page == reporting.to_html([kept])
    assert f"image {worst[0].index}, error {100 * min(scores[changed]):.1f} %" in page
    folder = str(tmp_path / "kept")
    assert main(["compare", folder, folder]) == 0
    assert main(["report", folder]) == 0
    assert (tmp_path / "kept" / "report.html").read_text(encoding="utf-8") == page


def test_plots_of_scores():
    axes = reporting.plot_measures(made())
    assert [line.get_label() for line in axes.lines[:1]] == ["mean IoU"]
    assert axes.get_ylabel() == "score"
    assert reporting.plot(made()).get_ylabel() == "mean IoU"
    named = dataclasses.replace(
        made(),
        measure="mean $x$",
        curve=jaxrob.ScoreCurve(reports.LEVELS, made().curve.scores, "$x$"),
    )
    assert reporting.plot(named).get_ylabel() == r"mean \$x\$"
    with pytest.raises(ValueError, match="classes to be confused"):
        reporting.plot_confusion(made(), 1.0)


def test_ranks_are_by_the_mean_score():
    named = {"lower": [made(0.1)], "same": [made()], "again": [made()]}
    (found,) = ranks(named)
    assert found.measure == "mean IoU" and found.networks[2] == "lower"
    assert found.could_be_first == ("same", "again") and found.low[2] == 3
    # The same numbers whenever it is asked.
    (again,) = ranks(named)
    assert again.networks == found.networks and (again.high == found.high).all()
