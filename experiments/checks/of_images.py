"""Cases of what takes images: alterations, data sets, assessments, RoMA, attacks."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import jaxrob
from checks.cases import (
    ANY_TEXT,
    ANYTHING,
    CALLABLE,
    COUNT,
    EMPTY,
    FLAG,
    INSIDE_SHARE,
    NAMES,
    NUMBER,
    OR_NONE,
    PATH,
    POSITIVE,
    SHARE,
    TEXT,
    Case,
    case,
)
from checks.cases import Argument as A
from jaxrob import adversarial, alterations, reporting, roma

NAMES_OR_NONE = NAMES | OR_NONE
KEY = jax.random.key(0)


def of_images() -> list[Case]:
    """All cases."""
    images = np.random.default_rng(0).random((12, 8, 8, 1), np.float32)
    classifier = jaxrob.Classifier(
        _linear, {"weights": jax.random.normal(KEY, (8 * 8, 3))}
    )
    # As the classifier sees them that is right most often.
    labels = np.asarray(
        _linear(classifier.variables, jnp.asarray(images)).argmax(axis=1)
    )
    dataset = jaxrob.Dataset(images, labels, ("a", "b", "c"), "tiny")
    blur = alterations.gaussian_blur(0.0, 1.0)
    return [
        *_of_alterations(blur),
        *_of_data(dataset),
        *_of_classifiers(classifier, dataset, blur),
        *_of_assessments(classifier, dataset, blur),
        *_of_roma(classifier, images, labels),
        *_of_attacks(classifier, images, labels),
    ]


def _linear(variables: dict[str, jax.Array], images: jax.Array) -> jax.Array:
    return images.reshape(len(images), -1) @ variables["weights"]


def _fade(image: jax.Array, level: jax.Array) -> jax.Array:
    return (1 - level) * image


def _half(image: jax.Array) -> jax.Array:
    return image / 2


def _of_alterations(blur: jaxrob.Alteration) -> list[Case]:
    ends = {"lower": A(0.0, NUMBER), "upper": A(1.0, POSITIVE | {"0"})}
    return [
        case(
            alterations.gaussian_blur,
            lower=A(0.0, frozenset({"0"})),
            upper=A(2.0, POSITIVE),
        ),
        case(
            alterations.rotation,
            lower=A(-9.0, frozenset({"-1", "0"})),
            upper=A(9.0, POSITIVE | {"0"}),
            fill="edge",
        ),
        case(
            jaxrob.Alteration,
            "Alteration",
            name=A("fading", TEXT),
            fn=A(_fade, CALLABLE),
            lower=A(0.0, NUMBER),
            upper=A(1.0, POSITIVE),
            identity=A(0.0, SHARE | OR_NONE),
            unit=A("", ANY_TEXT),
            stochastic=A(False, FLAG),
            resolution=A(None, POSITIVE | OR_NONE),
            prepare=A(None, CALLABLE | OR_NONE),
            representative=A(None, CALLABLE | OR_NONE),
            about=alterations.About(),
            geometry=A(None, CALLABLE | OR_NONE),
            moves_pixels=A(False, FLAG),
        ),
        case(alterations.rescale, alteration=blur, **ends, unit=A("", ANY_TEXT)),
        case(
            alterations.compose,
            alterations=[blur, alterations.zoom()],
            **ends,
            name=A("both", TEXT | OR_NONE),
        ),
        case(
            alterations.followed_by,
            corruption=blur,
            fixed=A(_half, CALLABLE),
            name=A("half", TEXT | OR_NONE),
        ),
    ]


def _of_data(dataset: jaxrob.Dataset) -> list[Case]:
    images, labels = dataset.images, dataset.labels
    named = {"class_names": A(("a", "b", "c"), NAMES_OR_NONE), "name": A("tiny", TEXT)}
    return [
        case(jaxrob.Dataset, images=images, labels=A(labels, OR_NONE), **named),
        case(
            jaxrob.Dataset.from_batches,
            # What they hold is known once they are read.
            batches=A([(images, labels)], EMPTY | {"list of None"}),
            **named,
            image=A("image", TEXT),
            label=A("label", TEXT),
            channels_first=A(None, FLAG | OR_NONE),
        ),
    ]


def _of_classifiers(
    classifier: jaxrob.Classifier, dataset: jaxrob.Dataset, blur: jaxrob.Alteration
) -> list[Case]:
    curve = jaxrob.evaluate(classifier, dataset, blur, [0, 1])
    assert isinstance(curve, jaxrob.Curve)
    fields = {name: getattr(curve, name) for name in ("levels", "predicted", "labels")}
    answers = {
        name: A(getattr(curve, name), OR_NONE) for name in ("confidence", "uncertainty")
    }
    return [
        case(
            jaxrob.Classifier,
            apply_fn=A(_linear, CALLABLE),
            # A tree: JAX puts values of its own there.
            variables=A(None, ANYTHING - ANY_TEXT),
            outputs="logits",
            stochastic=A(False, FLAG),
            name=A("net", ANY_TEXT | OR_NONE),
            class_names=A(("a", "b", "c"), NAMES_OR_NONE),
        ),
        case(
            jaxrob.Preprocessing,
            scale=A(1.0, NUMBER - {"0"}),
            mean=A((0.5,), NUMBER),
            std=A(0.25, POSITIVE),
            channels_first=A(None, FLAG | OR_NONE),
            size=A(None, COUNT | OR_NONE),
        ),
        case(
            jaxrob.Classifier.from_host,
            function=A(lambda images: np.zeros((len(images), 3)), CALLABLE),
            num_classes=A(3, COUNT),
            outputs="logits",
            version=A("1", ANY_TEXT | OR_NONE),
            batch_size=A(None, COUNT | OR_NONE),
            preprocessing=A(None, OR_NONE),
            name=A("net", ANY_TEXT | OR_NONE),
            class_names=A(("a", "b", "c"), NAMES_OR_NONE),
        ),
        case(
            jaxrob.Curve,
            **fields,
            **answers,
            num_classes=A(3, COUNT),
            alpha=A(None, SHARE | OR_NONE),
        ),
    ]


def _of_assessments(
    classifier: jaxrob.Classifier, dataset: jaxrob.Dataset, blur: jaxrob.Alteration
) -> list[Case]:
    what = {"classifier": classifier, "dataset": dataset}
    first = jaxrob.assess(
        classifier, dataset, blur, strategy=jaxrob.strategies.Uniform(3)
    )
    assert isinstance(first, jaxrob.Assessment)
    none = A(None, OR_NONE)
    execution = {
        "key": A(KEY, OR_NONE),
        "batch_size": A(None, COUNT | OR_NONE),
        "mesh": none,
        "reduced": A(False, FLAG),
        "journal": A(None, PATH | OR_NONE),
        "progress": A(False, FLAG),
    }
    needed = reporting.Requirement("robustness", 0.5)
    return [
        case(jaxrob.evaluate, **what, alteration=blur, levels=[0.0, 1.0], **execution),
        case(
            jaxrob.assess,
            **what,
            alteration=blur,
            threshold=A(0.5, SHARE),
            measure="accuracy",
            strategy=jaxrob.strategies.Uniform(3),
            rule=A("linear", OR_NONE),
            tolerance=none,
            alpha=A(None, SHARE | OR_NONE),
            **execution,
        ),
        case(
            jaxrob.compare,
            first=first,
            second=first,
            confidence_level=A(0.9, INSIDE_SHARE),
        ),
        case(
            jaxrob.compare_sequentially,
            first=classifier,
            second=classifier,
            dataset=dataset,
            alteration=blur,
            threshold=A(0.5, SHARE),
            measure="accuracy",
            score=none,
            strategy=jaxrob.strategies.FewImages(jaxrob.strategies.Uniform(3), 0.4),
            alpha=A(None, SHARE | OR_NONE),
            key=A(KEY, OR_NONE),
            mesh=none,
        ),
        case(jaxrob.provenance, **what, key=A(KEY, OR_NONE), mesh=none),
        case(reporting.table, assessments=[first]),
        case(
            reporting.unmet,
            requirements=A([needed], EMPTY),
            found={"blur": {"robustness": 0.7}},
        ),
        case(
            reporting.to_html,
            results=[reporting.Results(None, None, (first,))],
            earlier=A([], EMPTY),
        ),
    ]


def _of_roma(
    classifier: jaxrob.Classifier, images: np.ndarray, labels: np.ndarray
) -> list[Case]:
    common = {
        "classifier": classifier,
        "images": images,
        "labels": A(labels, OR_NONE),
        "epsilon": A(0.1, POSITIVE),
        "delta": A(0.6, INSIDE_SHARE),
        "num_samples": A(8, COUNT),
        "norm": "linf",
        "clip": A(False, FLAG),
        "estimator": "count",
        "perturbation": A(None, OR_NONE),
        "level_distribution": A(None, OR_NONE),
        "key": KEY,
        "mesh": A(None, OR_NONE),
        "journal": A(None, PATH | OR_NONE),
        "progress": A(False, FLAG),
    }
    return [case(roma.assess, **common)]


def _of_attacks(
    classifier: jaxrob.Classifier, images: np.ndarray, labels: np.ndarray
) -> list[Case]:
    what = {"classifier": classifier, "images": images, "labels": labels}
    how = {
        "key": A(None, OR_NONE),
        "batch_size": A(None, COUNT | OR_NONE),
        "mesh": A(None, OR_NONE),
        "progress": A(False, FLAG),
    }
    return [
        case(adversarial.fgsm, **what, epsilon=A(0.1, POSITIVE), norm="linf", **how),
        case(
            adversarial.lbfgs,
            **what,
            target_confidence_level=A(0.51, INSIDE_SHARE),
            targets="runner-up",
            **how,
        ),
        case(
            adversarial.adversariability,
            **what,
            attack=functools.partial(adversarial.fgsm, epsilon=0.1),
            similarity=adversarial.structural_similarity,
        ),
    ]
