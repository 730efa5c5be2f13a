"""Cases of what takes images: alterations, data sets, assessments, RoMA, attacks."""

import functools
import pathlib

import jax.numpy as jnp
import numpy as np

import jaxrob
from checks import world
from checks.cases import Argument as A
from checks.cases import Case, case
from checks.hostile import (
    ANY_TEXT,
    ANYTHING,
    CALLABLE,
    COUNT,
    EMPTY,
    FLAG,
    INDEX,
    INSIDE_SHARE,
    NAMES,
    NUMBER,
    OR_NONE,
    PATH,
    POSITIVE,
    SHARE,
    TEXT,
)
from checks.of_alterations import of_alterations
from checks.of_frameworks import preprocessing
from jaxrob import adversarial, reporting, roma

NAMES_OR_NONE = NAMES | OR_NONE
TEXTS = ANY_TEXT | {"bytes", "empty bytes"}


def of_images(folder: pathlib.Path) -> list[Case]:
    """All cases of these packages; files are written into the folder."""
    return [
        *of_alterations(),
        *_of_datasets(),
        *_of_classifiers(),
        *_of_assessments(),
        *_of_roma(),
        *_of_attacks(),
        *_of_reports(),
        *_of_results(folder),
        *_of_plots(),
    ]


def _of_datasets() -> list[Case]:
    parts = {"images": world.images(), "labels": A(world.labels(), OR_NONE)}
    named = {"class_names": A(("a", "b", "c"), NAMES_OR_NONE), "name": A("tiny", TEXT)}
    batches = [(world.images(), world.labels())]
    any_batches = frozenset(
        {"empty list", "list of None", "list of text", "ragged list", "empty set"}
    )
    few = world.dataset()
    keys = {
        "image": A("image", TEXT),
        "label": A("label", TEXT),
        "channels_first": A(None, FLAG | OR_NONE),
    }
    return [
        case("Dataset", jaxrob.Dataset, **parts, **named),
        case(
            "Dataset.from_batches",
            jaxrob.Dataset.from_batches,
            # What they hold is known once they are read.
            batches=A(batches, any_batches),
            **named,
            **keys,
        ),
        case(
            "Dataset.from_items",
            jaxrob.Dataset.from_items,
            items=[*zip(world.images(), world.labels())],
            **named,
            **keys,
            max_bytes=A(2**30, INDEX),
        ),
        case(
            "Dataset.__getitem__",
            few.__getitem__,
            index=A(slice(2), frozenset({"array of -1"})),
        ),
    ]


def _of_classifiers() -> list[Case]:
    choice = {"outputs": "logits"}
    curve = jaxrob.evaluate(world.classifier(), world.dataset(), world.blur(), [0, 1])
    assert isinstance(curve, jaxrob.Curve)
    fields = {name: getattr(curve, name) for name in ("levels", "predicted", "labels")}
    answers = {
        name: A(getattr(curve, name), OR_NONE) for name in ("confidence", "uncertainty")
    }
    return [
        case(
            "Classifier",
            jaxrob.Classifier,
            apply_fn=A(world.classifier().apply_fn, CALLABLE),
            # A tree: JAX puts values of its own there.
            variables=A(None, ANYTHING - NAMES - TEXTS),
            **choice,
            stochastic=A(False, FLAG),
            name=A("net", ANY_TEXT | OR_NONE),
            class_names=A(("a", "b", "c"), NAMES_OR_NONE),
        ),
        case(
            "Classifier.num_classes",
            world.classifier().num_classes,
            image_shape=(8, 8, 1),
        ),
        case(
            "Classifier.from_host",
            jaxrob.Classifier.from_host,
            function=A(lambda images: np.zeros((len(images), 3)), CALLABLE),
            num_classes=A(3, COUNT),
            **choice,
            version=A("1", ANY_TEXT | OR_NONE),
            batch_size=A(None, COUNT | OR_NONE),
            **preprocessing(),
        ),
        case(
            "Curve",
            jaxrob.Curve,
            **fields,
            **answers,
            num_classes=A(3, COUNT),
            alpha=A(None, SHARE | OR_NONE),
        ),
        case("Curve.with_unknown", curve.with_unknown, alpha=A(0.5, SHARE | OR_NONE)),
        case(
            "Curve.first_failing_level",
            curve.first_failing_level,
            identity=A(0.0, NUMBER),
        ),
        case(
            "ReducedCurve",
            jaxrob.ReducedCurve,
            levels=curve.levels,
            counts=curve.confusion,
            alpha=A(None, SHARE | OR_NONE),
        ),
        *_of_scores(),
    ]


def _of_scores() -> list[Case]:
    scores = np.array([[1.0, 0.5, 0.9], [0.8, 0.5, 0.0]])
    curve = jaxrob.ScoreCurve(np.array([0.0, 1.0]), scores, "IoU")
    return [
        case(
            "Score",
            jaxrob.Score,
            function=A(world.score, CALLABLE),
            name=A("IoU", ANY_TEXT),
            version=A("1", ANY_TEXT | OR_NONE),
            labels=A("fixed", OR_NONE),
        ),
        case(
            "ScoreCurve",
            jaxrob.ScoreCurve,
            levels=curve.levels,
            scores=scores,
            score=A("IoU", TEXT),
        ),
        case(
            "ScoreCurve.first_level_below",
            curve.first_level_below,
            score=A(0.6, NUMBER),
            identity=A(0.0, NUMBER),
        ),
        case("ScoreCurve.lowest", curve.lowest, identity=A(0.0, NUMBER)),
    ]


def _execution() -> dict[str, A]:
    return {
        "key": A(world.KEY, OR_NONE),
        "batch_size": A(None, COUNT | OR_NONE),
        "mesh": A(None, OR_NONE),
        "reduced": A(False, FLAG),
        "journal": A(None, PATH | OR_NONE),
        "progress": A(False, FLAG),
    }


def _of_assessments() -> list[Case]:
    what = {"classifier": world.classifier(), "dataset": world.dataset()}
    first = world.assessment()
    none = A(None, OR_NONE)
    return [
        case(
            "evaluate",
            jaxrob.evaluate,
            **what,
            alteration=world.blur(),
            levels=[0.0, 1.0],
            **_execution(),
        ),
        case(
            "assess",
            jaxrob.assess,
            **what,
            alteration=world.blur(),
            threshold=A(0.5, SHARE),
            measure="accuracy",
            strategy=jaxrob.strategies.Uniform(3),
            rule=A("linear", OR_NONE),
            tolerance=none,
            penalization=none,
            level_distribution=none,
            alpha=A(None, SHARE | OR_NONE),
            **_execution(),
        ),
        case(
            "compare",
            jaxrob.compare,
            first=first,
            second=first,
            confidence_level=A(0.9, INSIDE_SHARE),
        ),
        case(
            "compare_sequentially",
            jaxrob.compare_sequentially,
            first=what["classifier"],
            second=what["classifier"],
            dataset=what["dataset"],
            alteration=world.blur(),
            threshold=A(0.5, SHARE),
            measure="accuracy",
            score=A(None, OR_NONE),
            half_width=A(0.4, INSIDE_SHARE),
            strategy=jaxrob.strategies.Uniform(3),
            alpha=A(None, SHARE | OR_NONE),
            key=A(world.KEY, OR_NONE),
            mesh=none,
        ),
        case(
            "provenance",
            jaxrob.provenance,
            **what,
            key=A(world.KEY, OR_NONE),
            mesh=none,
        ),
        case("Assessment.to_json", first.to_json, answers=A(False, FLAG)),
        case("Assessment.from_json", first.from_json, text=first.to_json()),
    ]


def _of_roma() -> list[Case]:
    result = world.roma_result()
    common = {
        "classifier": world.classifier(),
        "images": world.images(),
        "labels": A(world.labels(), OR_NONE),
        "epsilon": A(0.1, POSITIVE),
        "delta": A(0.6, INSIDE_SHARE),
        "num_samples": A(8, COUNT),
        "norm": "linf",
        "clip": A(False, FLAG),
        "estimator": "count",
        "perturbation": A(None, OR_NONE),
        "level_distribution": A(None, OR_NONE),
        "key": world.KEY,
        "mesh": A(None, OR_NONE),
        "journal": A(None, PATH | OR_NONE),
        "progress": A(False, FLAG),
    }
    together = {
        "class_names": A(("a", "b", "c"), NAMES_OR_NONE),
        "confidence": A(0.9, INSIDE_SHARE),
        "jointly": A(True, FLAG),
    }
    return [
        case("roma.assess", roma.assess, **common),
        case(
            "RomaResult.categorial",
            result.categorial,
            class_names=A(("a", "b", "c"), NAMES_OR_NONE),
        ),
        case(
            "RomaResult.global_robustness",
            result.global_robustness,
            by="label",
            source="draws",
            **together,
        ),
        case(
            "GlobalRobustness.to_json",
            result.global_robustness().to_json,
            path=A(None, PATH | OR_NONE),
        ),
        case(
            "roma.global_robustness",
            roma.global_robustness,
            **common,
            num_inputs=A(None, OR_NONE),
            by="label",
            **together,
        ),
        case("RomaResult.to_json", result.to_json, path=A(None, PATH | OR_NONE)),
        case("RomaResult.from_json", result.from_json, text=result.to_json()),
        case(
            "roma.from_alteration",
            roma.from_alteration,
            alteration=world.blur(),
            level_distribution=A(None, OR_NONE),
            clip=A(False, FLAG),
        ),
    ]


def _of_attacks() -> list[Case]:
    what = {
        "classifier": world.classifier(),
        "images": world.images(),
        "labels": world.labels(),
    }
    how = {
        "key": A(None, OR_NONE),
        "batch_size": A(None, COUNT | OR_NONE),
        "mesh": A(None, OR_NONE),
        "progress": A(False, FLAG),
    }
    fast = functools.partial(adversarial.fgsm, epsilon=0.1)
    pair = {"a": world.images(), "b": world.images()}
    ball = {"epsilon": A(0.1, POSITIVE), "norm": "linf"}
    return [
        case("adversarial.fgsm", adversarial.fgsm, **what, **ball, **how),
        case(
            "adversarial.pgd",
            adversarial.pgd,
            **what,
            **ball,
            steps=A(2, COUNT),
            step_size=A(0.1, POSITIVE | OR_NONE),
            **how,
        ),
        case(
            "adversarial.lbfgs",
            adversarial.lbfgs,
            **what,
            target_confidence_level=A(0.51, INSIDE_SHARE),
            targets="runner-up",
            **how,
        ),
        case(
            "adversarial.adversariability",
            adversarial.adversariability,
            **what,
            attack=fast,
            similarity=adversarial.structural_similarity,
        ),
        case(
            "adversarial.most_adversarial",
            adversarial.most_adversarial,
            attacks=[world.attack()],
        ),
        case(
            "adversarial.Attack.from_json",
            adversarial.Attack.from_json,
            text=world.attack().to_json(),
        ),
        case(
            "adversarial.structural_similarity",
            adversarial.structural_similarity,
            **pair,
        ),
        case(
            "adversarial.windowed_similarity",
            adversarial.windowed_similarity,
            a=jnp.tile(world.images(), (1, 2, 2, 1)),
            b=jnp.tile(world.images(), (1, 2, 2, 1)),
        ),
    ]


def _of_reports() -> list[Case]:
    one = world.assessment()
    many = {"assessments": [one], "alterations": [world.blur()]}
    image, key = world.images()[0], world.KEY
    needed = reporting.Requirement("robustness", 0.5)
    found = {"blur": {"robustness": 0.7}}
    return [
        case("reporting.table", reporting.table, assessments=[one]),
        case("reporting.quantities", reporting.quantities, result=one),
        case(
            "reporting.regressions",
            reporting.regressions,
            new=[one],
            old=A([one], EMPTY),
        ),
        case(
            "reporting.verdict",
            reporting.verdict,
            requirements=A([needed], EMPTY),
            found=A(found, frozenset({"empty dict"})),
            regressions=A(["worse"], EMPTY | frozenset({"list of text"})),
        ),
        case(
            "reporting.earlier_assessments",
            reporting.earlier_assessments,
            paths=A([], EMPTY),
            alterations=A(["blur"], NAMES),
        ),
        case(
            "reporting.unmet",
            reporting.unmet,
            requirements=A([needed], EMPTY),
            found=A(found, frozenset({"empty dict"})),
        ),
        case(
            "reporting.outcomes",
            reporting.outcomes,
            requirements=A([needed], EMPTY),
            found=A(found, frozenset({"empty dict"})),
            differences=A([], EMPTY),
            number=A(None, OR_NONE | COUNT),
        ),
        case(
            "reporting.differences",
            reporting.differences,
            new=A([one], EMPTY),
            old=A([one], EMPTY),
        ),
        case(
            "reporting.requirement",
            reporting.requirement,
            text="robustness>=0.9",
            quantities=["robustness"],
        ),
        case(
            "reporting.figure",
            reporting.figure,
            **many,
            image=image,
            key=key,
            columns=A(2, COUNT),
            num_examples=A(3, COUNT),
        ),
        case(
            "reporting.examples",
            reporting.examples,
            alteration=world.blur(),
            image=image,
            levels=[0.0, 0.5],
            key=A(key, OR_NONE),
        ),
    ]


def _of_results(folder: pathlib.Path) -> list[Case]:
    plan, here = folder / "plan.toml", folder / "results"
    plan.write_text(
        'name = "plan"\ndate = 2026-03-02\nthreshold = 0.8\n'
        '[[alterations]]\nname = "rotation"\nlower = -1\nupper = 1\n'
    )
    results = reporting.Results(None, None, (world.assessment(),))
    reporting.write_results(here, results)
    page = folder / "page.html"
    page.write_text(reporting.to_html([results]))
    return [
        case("reporting.read_plan", reporting.read_plan, path=plan),
        case("reporting.outcomes_of", reporting.outcomes_of, results=results),
        case("reporting.to_junit", reporting.to_junit, results=results),
        case("reporting.to_frame", reporting.to_frame, results=results, rows="levels"),
        case("reporting.to_csv", reporting.to_csv, results=results, rows="levels"),
        case("reporting.to_latex", reporting.to_latex, results=results),
        case("reporting.logged", reporting.logged, results=results, step=A(0, COUNT)),
        case("reporting.read_report", reporting.read_report, path=page),
        case(
            "reporting.check_report",
            reporting.check_report,
            path=page,
            results=A([results], EMPTY),
            earlier=A([], EMPTY),
        ),
        case(
            "reporting.write_failing",
            reporting.write_failing,
            folder=A(folder / "failing", PATH),
            assessment=world.assessment(),
            alteration=world.blur(),
            dataset=world.dataset(),
            # Nothing is random here.
            key=A(None, ANYTHING),
            most=A(4, COUNT),
            class_names=A(None, NAMES_OR_NONE),
        ),
        case("reporting.to_summary", reporting.to_summary, results=results),
        # `write_results` may have made what it was told to.
        case("reporting.read_results", reporting.read_results, folder=A(here, PATH)),
        case(
            "reporting.write_results",
            reporting.write_results,
            folder=A(folder / "other", PATH),
            results=results,
        ),
        case(
            "reporting.pictures",
            reporting.pictures,
            assessment=world.assessment(),
            alteration=world.blur(),
            dataset=world.dataset(),
            # Nothing is random here.
            key=A(None, ANYTHING),
            most=A(4, COUNT),
        ),
        case(
            "reporting.to_html",
            reporting.to_html,
            results=[results],
            earlier=A([], EMPTY),
        ),
        case(
            "reporting.to_markdown",
            reporting.to_markdown,
            results=[results],
            earlier=A([], EMPTY),
        ),
    ]


def _of_plots() -> list[Case]:
    one, axes = world.assessment(), A(None, OR_NONE)
    image = np.zeros((8, 8, 1), np.uint8)
    (ranked,) = reporting.ranks({"a": [one], "b": [one]})
    failed = reporting.Picture(image, "", 0.5, 0, 0, 1, "first failure")
    return [
        case("reporting.plot", reporting.plot, assessment=one, axes=axes),
        case("reporting.ranks", reporting.ranks, networks={"a": [one], "b": [one]}),
        case("reporting.rank_table", reporting.rank_table, found=ranked),
        case("reporting.plot_ranks", reporting.plot_ranks, found=ranked, axes=axes),
        case("reporting.rank_figure", reporting.rank_figure, found=[ranked]),
        case(
            "reporting.plot_measures",
            reporting.plot_measures,
            assessment=one,
            axes=axes,
        ),
        case(
            "reporting.plot_networks",
            reporting.plot_networks,
            assessments=[one],
            names=A(["network"], NAMES),
            axes=axes,
        ),
        case(
            "reporting.plot_confusion",
            reporting.plot_confusion,
            assessment=one,
            level=A(0.0, SHARE),
            class_names=A(None, OR_NONE),
            axes=axes,
        ),
        case(
            "reporting.plot_categories",
            reporting.plot_categories,
            result=world.roma_result(),
            class_names=A(None, OR_NONE),
            axes=axes,
        ),
        case(
            "reporting.plot_first_failures",
            reporting.plot_first_failures,
            pictures=[failed],
            class_names=A(None, NAMES_OR_NONE),
            columns=A(2, COUNT),
        ),
    ]
