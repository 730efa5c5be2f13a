"""Tables, gates, reports, folders of results, and the contents of plots."""

import dataclasses
import pathlib
from typing import Any

import jax.numpy as jnp

import jaxrob
from jaxrob import adversarial, alterations, reporting, roma, strategies
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


def tables() -> Any:
    return {
        "all": reporting.table(_assessments()),
        "decided": reporting.table(_undecided()),
        "few": reporting.table(_few()),
    }


def gates() -> Any:
    first, second = _assessments()[0], _timeless(world.classifier(9), [world.blur()])[0]
    needed = [
        reporting.requirement(text, ["robustness", "robustness.low"])
        for text in ("robustness>=0.3", "robustness.low >= 0.9", "robustness>=0.999")
    ]
    found = {"blur": first, "other": second}
    unmet = reporting.unmet(needed, found)
    regressions = reporting.regressions(second, first)
    return {
        "quantities": reporting.quantities(first),
        "of roma": reporting.quantities(_roma()),
        "unmet": unmet,
        "worse": regressions,
        "better": reporting.regressions(first, second),
        "regressions": reporting.regressions([second], _assessments()),
        "verdict": [
            reporting.verdict(needed, found, regressions),
            reporting.verdict(needed[:1], found),
        ],
    }


def reports() -> Any:
    """One network, with everything that a report may hold."""
    results = _results()
    return _both([results])


def report_of_two() -> Any:
    """Two networks, one of them beside an earlier result of its own."""
    other = reporting.Results("other", None, _timeless(world.classifier(9), _blurs()))
    return _both([_results(), other], [_results()])


def report_of_few_images() -> Any:
    return _both([reporting.Results("few", None, _few())])


def report_of_unknown() -> Any:
    return _both([reporting.Results("unknown", None, _undecided())])


def report_of_stability() -> Any:
    found = _timeless(
        world.classifier(), _blurs(), data=jaxrob.Dataset(world.grey(), name="unseen")
    )
    return _both([reporting.Results("stable", None, found)])


def report_of_made_alterations() -> Any:
    """Rescaled, composed, followed by a function, and a user's own alteration."""
    zoom = alterations.zoom()
    some = [
        *alterations.presets.asap_2022()[:8],
        alterations.compose([world.blur(), zoom], name="blurred zoom"),
        alterations.followed_by(world.blur(), world.to_bytes),
        world.fading(),
        alterations.rescale(alterations.jpeg_compression(), 0.0, 1.0),
    ]
    found = _timeless(world.classifier(), some, strategies.Uniform(3))
    return _both([reporting.Results("made", None, found)])


def report_of_corruptions() -> Any:
    """The benchmark's corruptions, at their severities."""
    some = [getattr(alterations.corruptions, name)(32) for name in ("fog", "contrast")]
    found = _timeless(
        world.small_cnn(), some, strategies.Uniform(6), data=world.pictures()
    )
    return _both([reporting.Results("cnn", None, found)])


def folders() -> Any:
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


def pictures() -> Any:
    found = _assessments()[0]
    return {
        "pictures": _pictures(found, 6),
        "examples": reporting.examples(
            world.noise(), jnp.asarray(world.grey()[0]), [0.0, 0.2], world.KEY
        ),
    }


def plots() -> Any:
    """The texts of each figure, and the points of its lines."""
    import matplotlib.pyplot as plt

    found = _assessments()
    made = {
        "plot": reporting.plot(found[0]),
        "its own": found[0].plot(),
        "undecided": reporting.plot(_undecided()[0]),
        "few": reporting.plot(_few()[0]),
        "measures": reporting.plot_measures(found[0]),
        "networks": reporting.plot_networks(found[:1] * 2, ["a", "b"]),
        "confusion": reporting.plot_confusion(found[0], 3.0, world.NAMES),
        "categories": reporting.plot_categories(_roma(), world.NAMES),
        "failures": reporting.plot_first_failures(_pictures(found[0], 4)),
        "figure": reporting.figure(found, _blurs(), world.grey()[0], world.KEY),
    }
    drawn = {name: _figure(one) for name, one in made.items()}
    plt.close("all")
    return drawn


def _figure(drawn: Any) -> Any:
    """Returns the contents of axes, or of all axes of a figure."""
    every = drawn.axes if isinstance(drawn.axes, list) else [drawn]
    return [
        {
            "title": axes.get_title(),
            "labels": [axes.get_xlabel(), axes.get_ylabel()],
            "texts": [text.get_text() for text in axes.texts],
            "lines": [line.get_xydata() for line in axes.get_lines()],
            "pictures": [image.get_array() for image in axes.get_images()],
            "legend": [
                text.get_text()
                for text in (axes.get_legend().get_texts() if axes.get_legend() else [])
            ],
        }
        for axes in every
    ]


def _both(results: Any, earlier: Any = ()) -> dict[str, str]:
    return {
        "html": reporting.to_html(results, earlier),
        "markdown": reporting.to_markdown(results, earlier),
    }


def _blurs() -> list[jaxrob.Alteration]:
    return [world.blur(), world.noise()]


def _assessments() -> tuple[jaxrob.Assessment, ...]:
    return _timeless(world.classifier(), _blurs())


def _undecided() -> tuple[jaxrob.Assessment, ...]:
    return _timeless(
        world.stochastic(), _blurs(), strategies.Uniform(4), alpha=0.5, threshold=0.5
    )


def _few() -> tuple[jaxrob.Assessment, ...]:
    few = strategies.FewImages(strategies.ASAP(32), half_width=0.15)
    return _timeless(world.classifier(), _blurs(), few)


def _roma() -> roma.RomaResult:
    return roma.assess(
        world.classifier(), world.grey()[:12], world.labels()[:12], epsilon=0.2,
        num_samples=100, key=world.KEY, estimator="count",
    )  # fmt: skip


def _results() -> reporting.Results:
    found = _assessments()
    attack = adversarial.fgsm(
        world.classifier(), world.grey()[:12], world.labels()[:12], epsilon=0.3
    )
    return reporting.Results(
        "linear",
        world.NAMES,
        found,
        ("the lens", None),
        (_pictures(found[0], 8), ()),
        _roma(),
        attack,
        (reporting.Requirement("robustness", 0.9),),
        ("gaussian blur: robustness is 0.1 less",),
    )


def _pictures(found: jaxrob.Assessment, most: int) -> Any:
    given = found, world.blur(), world.dataset()
    return reporting.pictures(*given, world.KEY, most)


def _timeless(
    classifier: jaxrob.Classifier,
    some: Any,
    strategy: Any = None,
    data: Any = None,
    **settings: Any,
) -> tuple[jaxrob.Assessment, ...]:
    """Returns assessments with a duration of one second each."""
    settings = {"threshold": 0.7} | settings
    found = jaxrob.assess(
        classifier, data or world.dataset(), some, key=world.KEY,
        strategy=strategy or strategies.ASAP(32), **settings,
    )  # fmt: skip
    assert isinstance(found, tuple)
    return tuple(dataclasses.replace(one, seconds=1.0) for one in found)
