"""Tables, gates, reports, folders of results, and the contents of plots."""

import dataclasses
import pathlib
from typing import Any

import jax.numpy as jnp
import matplotlib.pyplot as plt

import jaxrob
from jaxrob import adversarial, alterations, reporting, roma, strategies
from jaxrob.reporting import Results
from pinned import world

_PLAN = """
name = "blocks at night"
date = 2026-03-02
threshold = 0.7
requirements = ["robustness>=0.9"]
[[alterations]]
name = "gaussian_blur"
lower = 0.0
upper = 3.0
reason = "the lens"
[[alterations]]
name = "gaussian_noise"
lower = 0.0
upper = 0.3
settings = {clip = true}
"""
_BLURS = [world.BLUR, world.NOISE]


def _gates() -> Any:
    first = _assessments()[0]
    (second,) = _assessments([world.BLUR], classifier=world.classifier(9))
    needed = [
        reporting.requirement(text, ["robustness", "robustness.low"])
        for text in ("robustness>=0.3", "robustness.low >= 0.9", "robustness>=0.999")
    ]
    found = {"blur": first, "other": second}
    regressions = reporting.regressions(second, first)
    return {
        "quantities": reporting.quantities(first),
        "of roma": reporting.quantities(_roma()),
        "unmet": reporting.unmet(needed, found),
        "worse": regressions,
        "better": reporting.regressions(first, second),
        "regressions": reporting.regressions([second], _assessments()),
        "verdict": [
            reporting.verdict(needed, found, regressions),
            reporting.verdict(needed[:1], found),
        ],
    }


def _reports(results: Any, earlier: Any = ()) -> dict[str, str]:
    return {
        "html": reporting.to_html(results, earlier),
        "markdown": reporting.to_markdown(results, earlier),
    }


def _report_of_two() -> Any:
    """Two networks, one of them beside an earlier result of its own."""
    assessments = _assessments(classifier=world.classifier(9))
    return _reports([_results(), Results("other", None, assessments)], [_results()])


def _report(name: str, *given: Any, **settings: Any) -> Any:
    return _reports([Results(name, None, _assessments(*given, **settings))])


def _report_of_made_alterations() -> Any:
    """Rescaled, composed, followed by a function, and a user's own alteration."""
    zoom = alterations.zoom()
    some = [
        *alterations.presets.asap_2022()[:8],
        alterations.compose([world.BLUR, zoom], name="blurred zoom"),
        alterations.followed_by(world.BLUR, world.to_bytes),
        world.FADING,
        alterations.rescale(alterations.jpeg_compression(), 0.0, 1.0),
    ]
    return _report("made", some, strategy=strategies.Uniform(3))


def _report_of_corruptions() -> Any:
    """The benchmark's corruptions, at their severities."""
    some = [getattr(alterations.corruptions, name)(32) for name in ("fog", "contrast")]
    given = {"classifier": world.small_cnn(), "dataset": world.pictures()}
    return _report("cnn", some, strategy=strategies.Uniform(6), **given)


def _folders() -> Any:
    """Written results are read again; the names of the files; a plan that was read."""
    pathlib.Path("plan.toml").write_text(_PLAN)
    results = _results()
    reporting.write_results("results", results)
    names = sorted(str(path) for path in pathlib.Path("results").rglob("*"))
    again = reporting.read_results("results")
    return {
        "files": names,
        "again": again,
        "same page": reporting.to_html([again]) == reporting.to_html([results]),
        "earlier": [
            one.alteration
            for one in reporting.earlier_assessments(["results"], ["gaussian blur"])
        ],
        "plan": reporting.read_plan("plan.toml"),
    }


def _plots() -> Any:
    """The texts of each figure, and the points of its lines."""
    found = _assessments()
    made = {
        "plot": reporting.plot(found[0]),
        "its own": found[0].plot(),
        "undecided": reporting.plot(_assessments(**_UNDECIDED)[0]),
        "few": reporting.plot(_assessments(**_FEW)[0]),
        "measures": reporting.plot_measures(found[0]),
        "networks": reporting.plot_networks(found[:1] * 2, ["a", "b"]),
        "confusion": reporting.plot_confusion(found[0], 3.0, world.NAMES),
        "categories": reporting.plot_categories(_roma(), world.NAMES),
        "failures": reporting.plot_first_failures(_pictures(found[0], 4)),
        "figure": reporting.figure(found, _BLURS, world.GREY[0], world.KEY),
    }
    drawn = {name: _figure(one) for name, one in made.items()}
    plt.close("all")
    return drawn


def _figure(drawn: Any) -> Any:
    """The contents of axes, or of all axes of a figure."""
    every = drawn.axes if isinstance(drawn.axes, list) else [drawn]
    return [
        {
            "title": axes.get_title(),
            "labels": [axes.get_xlabel(), axes.get_ylabel()],
            "texts": [text.get_text() for text in axes.texts],
            "lines": [line.get_xydata() for line in axes.get_lines()],
            "pictures": [image.get_array() for image in axes.get_images()],
            "legend": [text.get_text() for text in getattr(legend, "texts", ())],
        }
        for axes, legend in ((axes, axes.get_legend()) for axes in every)
    ]


_UNDECIDED = {
    "classifier": world.STOCHASTIC,
    "strategy": strategies.Uniform(4),
    "alpha": 0.5,
    "threshold": 0.5,
}
_FEW = {"strategy": strategies.FewImages(strategies.ASAP(32), half_width=0.15)}
_SOME = world.classifier(), world.GREY[:12], world.LABELS[:12]


def _assessments(some: Any = _BLURS, **given: Any) -> tuple[jaxrob.Assessment, ...]:
    """Assessments with a duration of one second each."""
    found = world.assessed(some, **{"strategy": strategies.ASAP(32)} | given)
    return tuple(dataclasses.replace(one, seconds=1.0) for one in found)


def _roma() -> roma.RomaResult:
    given = {"epsilon": 0.2, "num_samples": 100, "estimator": "count"}
    return roma.assess(*_SOME, key=world.KEY, **given)


def _results() -> Results:
    """One network, with everything that a report may hold."""
    found = _assessments()
    return Results(
        "linear",
        world.NAMES,
        found,
        ("the lens", None),
        (_pictures(found[0], 8), ()),
        _roma(),
        adversarial.fgsm(*_SOME, epsilon=0.3),
        (reporting.Requirement("robustness", 0.9),),
        ("gaussian blur: robustness is 0.1 less",),
    )


def _pictures(found: jaxrob.Assessment, most: int) -> Any:
    return reporting.pictures(found, world.BLUR, world.DATASET, world.KEY, most)


CASES = {
    "reporting.tables": lambda: {
        "all": reporting.table(_assessments()),
        "decided": reporting.table(_assessments(**_UNDECIDED)),
        "few": reporting.table(_assessments(**_FEW)),
    },
    "reporting.gates": _gates,
    "reporting.reports": lambda: _reports([_results()]),
    "reporting.report_of_two": _report_of_two,
    "reporting.report_of_few_images": lambda: _report("few", **_FEW),
    "reporting.report_of_unknown": lambda: _report("unknown", **_UNDECIDED),
    "reporting.report_of_stability": lambda: _report(
        "stable", dataset=jaxrob.Dataset(world.GREY, name="unseen")
    ),
    "reporting.report_of_made_alterations": _report_of_made_alterations,
    "reporting.report_of_corruptions": _report_of_corruptions,
    "reporting.folders": _folders,
    "reporting.pictures": lambda: {
        "pictures": _pictures(_assessments()[0], 6),
        "examples": reporting.examples(
            world.NOISE, jnp.asarray(world.GREY[0]), [0.0, 0.2], world.KEY
        ),
    },
    "reporting.plots": _plots,
}
