"""Valid calls of public functions, and values that hardly any argument allows."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxrob
from jaxrob import adversarial, alterations, metrics, reporting, roma, strategies


def _function() -> None:
    """Takes nothing and gives nothing."""


#: Wrong values that are cheap to reject.
VALUES: dict[str, Any] = {
    "None": None,
    "NaN": float("nan"),
    "-1": -1,
    "0": 0,
    "1.5": 1.5,
    "text": "text",
    "empty text": "",
    "empty list": [],
    "list of None": [None],
    "object": object(),
    "True": True,
    "function": _function,
    "array of NaN": np.full((2, 3), np.nan),
    "array of rank 5": np.zeros((2, 2, 2, 2, 2)),
}

# What an argument allows. A value that is allowed may also be refused, as one too many
# for the data at hand; a value that is not must be.
OR_NONE = frozenset({"None"})
SHARE = frozenset({"0"})
POSITIVE = frozenset({"1.5"})
NUMBER = POSITIVE | {"-1", "0"}
FLAG = frozenset({"True"})
TEXT = frozenset({"text"})
ANY_TEXT = TEXT | {"empty text"}
CALLABLE = frozenset({"function"})
EMPTY = frozenset({"empty list"})
# Arrays of any shape: of shares, of positive numbers, of any; and without an answer.
SHARES = SHARE | EMPTY | {"array of rank 5"}
COUNTS = SHARES | POSITIVE
NUMBERS = COUNTS | NUMBER
UNKNOWN = frozenset({"array of NaN", "array of rank 5"})
ANYTHING = frozenset(VALUES)


class A(NamedTuple):
    """An argument of a valid call, and the names of other values that it allows."""

    value: Any
    allowed: frozenset[str] = frozenset()


class Case(NamedTuple):
    """A valid call of a public function, which takes the arguments by name."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, A]


def case(function: Callable[..., Any], name: str = "", /, **arguments: Any) -> Case:
    """A case; what a plain value allows is told by its kind."""
    if not name:
        # jaxrob.metrics._tolerance: metrics.beta.
        room = function.__module__.split("._")[0].removeprefix("jaxrob")
        name = f"{room}.{function.__qualname__}"[1:]
    return Case(name, function, {each: _told(v) for each, v in arguments.items()})


def _told(value: Any) -> A:
    if isinstance(value, A):
        return value
    if value is None or isinstance(value, bool):
        return A(value, OR_NONE if value is None else FLAG)
    return A(value, CALLABLE if inspect.isfunction(value) else frozenset())


_KEY = jax.random.key(0)
_CLASSES = {"class_names": A(("a", "b", "c"), OR_NONE)}
_NET = {"name": A("net", ANY_TEXT | OR_NONE), **_CLASSES}


def _linear(variables: dict[str, jax.Array], images: jax.Array) -> jax.Array:
    return images.reshape(len(images), -1) @ variables["weights"]


def _fade(image: jax.Array, level: jax.Array) -> jax.Array:
    return (1 - level) * image


def _half(image: jax.Array) -> jax.Array:
    return image / 2


def of_images() -> list[Case]:
    images = np.random.default_rng(0).random((12, 8, 8, 1), np.float32)
    classifier = jaxrob.Classifier(
        _linear, {"weights": jax.random.normal(_KEY, (8 * 8, 3))}
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
        *_of_roma_and_attacks(classifier, images, labels),
    ]


def _of_alterations(blur: jaxrob.Alteration) -> Iterator[Case]:
    ends = {"lower": A(0.0, NUMBER), "upper": A(1.0, POSITIVE | {"0"})}
    range_of_blur = {"lower": A(0.0, SHARE), "upper": A(2.0, POSITIVE)}
    yield case(alterations.gaussian_blur, **range_of_blur)
    yield case(
        alterations.rotation,
        lower=A(-9.0, frozenset({"-1", "0"})),
        upper=A(9.0, POSITIVE | {"0"}),
        fill="edge",
    )
    yield case(
        jaxrob.Alteration,
        "Alteration",
        name=A("fading", TEXT),
        fn=_fade,
        lower=A(0.0, NUMBER),
        upper=A(1.0, POSITIVE),
        identity=A(0.0, SHARE | OR_NONE),
        unit=A("", ANY_TEXT),
        stochastic=False,
        resolution=A(None, POSITIVE | OR_NONE),
        prepare=A(None, CALLABLE | OR_NONE),
        representative=A(None, CALLABLE | OR_NONE),
        about=alterations.About(),
        geometry=A(None, CALLABLE | OR_NONE),
        moves_pixels=False,
    )
    yield case(alterations.rescale, alteration=blur, **ends, unit=A("", ANY_TEXT))
    both = [blur, alterations.zoom()]
    named = {"name": A("both", TEXT | OR_NONE)}
    yield case(alterations.compose, alterations=both, **ends, **named)
    named = {"name": A("half", TEXT | OR_NONE)}
    yield case(alterations.followed_by, corruption=blur, fixed=_half, **named)


def _of_data(dataset: jaxrob.Dataset) -> Iterator[Case]:
    images, labels = dataset.images, dataset.labels
    named = {**_CLASSES, "name": A("tiny", TEXT)}
    yield case(jaxrob.Dataset, images=images, labels=A(labels, OR_NONE), **named)
    yield case(
        jaxrob.Dataset.from_batches,
        # What they hold is known once they are read.
        batches=A([(images, labels)], EMPTY | {"list of None"}),
        **named,
        image=A("image", TEXT),
        label=A("label", TEXT),
        channels_first=A(None, FLAG | OR_NONE),
    )


def _of_classifiers(
    classifier: jaxrob.Classifier, dataset: jaxrob.Dataset, blur: jaxrob.Alteration
) -> Iterator[Case]:
    curve: Any = jaxrob.evaluate(classifier, dataset, blur, [0, 1])
    fields = {name: getattr(curve, name) for name in ("levels", "predicted", "labels")}
    answers = {
        name: A(getattr(curve, name), OR_NONE) for name in ("confidence", "uncertainty")
    }
    yield case(
        jaxrob.Classifier,
        apply_fn=_linear,
        # A tree: JAX puts values of its own there.
        variables=A(None, ANYTHING - ANY_TEXT),
        outputs="logits",
        stochastic=False,
        **_NET,
    )
    yield case(
        jaxrob.Preprocessing,
        scale=A(1.0, NUMBER - {"0"}),
        mean=A((0.5,), NUMBER),
        std=A(0.25, POSITIVE),
        channels_first=A(None, FLAG | OR_NONE),
        size=None,
    )
    yield case(
        jaxrob.Classifier.from_host,
        function=lambda images: np.zeros((len(images), 3)),
        num_classes=3,
        outputs="logits",
        version=A("1", ANY_TEXT | OR_NONE),
        batch_size=None,
        preprocessing=None,
        **_NET,
    )
    alpha = A(None, SHARE | OR_NONE)
    yield case(jaxrob.Curve, **fields, **answers, num_classes=3, alpha=alpha)


def _of_assessments(
    classifier: jaxrob.Classifier, dataset: jaxrob.Dataset, blur: jaxrob.Alteration
) -> Iterator[Case]:
    what = {"classifier": classifier, "dataset": dataset}
    uniform = strategies.Uniform(3)
    first: Any = jaxrob.assess(classifier, dataset, blur, strategy=uniform)
    key, alpha = A(_KEY, OR_NONE), A(None, SHARE | OR_NONE)
    execution = {"key": key, "batch_size": None, "mesh": None, "reduced": False}
    execution |= {"journal": A(None, TEXT | OR_NONE), "progress": False}
    yield case(jaxrob.evaluate, **what, alteration=blur, levels=[0.0, 1.0], **execution)
    yield case(
        jaxrob.assess,
        **what,
        alteration=blur,
        threshold=A(0.5, SHARE),
        measure="accuracy",
        strategy=uniform,
        rule=A("linear", OR_NONE),
        tolerance=None,
        alpha=alpha,
        **execution,
    )
    yield case(jaxrob.compare, first=first, second=first, confidence_level=0.9)
    yield case(
        jaxrob.compare_sequentially,
        first=classifier,
        second=classifier,
        dataset=dataset,
        alteration=blur,
        threshold=A(0.5, SHARE),
        measure="accuracy",
        score=None,
        strategy=strategies.FewImages(uniform, 0.4),
        alpha=alpha,
        key=key,
        mesh=None,
    )
    yield case(jaxrob.provenance, **what, key=key, mesh=None)
    yield case(reporting.table, assessments=[first])
    needed = A([reporting.Requirement("robustness", 0.5)], EMPTY)
    found = {"blur": {"robustness": 0.7}}
    yield case(reporting.unmet, requirements=needed, found=found)
    results = [reporting.Results(None, None, (first,))]
    yield case(reporting.to_html, results=results, earlier=A([], EMPTY))


def _of_roma_and_attacks(
    classifier: jaxrob.Classifier, images: np.ndarray, labels: np.ndarray
) -> Iterator[Case]:
    what = {"classifier": classifier, "images": images}
    yield case(
        roma.assess,
        **what,
        labels=A(labels, OR_NONE),
        epsilon=A(0.1, POSITIVE),
        delta=0.6,
        num_samples=8,
        norm="linf",
        clip=False,
        estimator="count",
        perturbation=None,
        level_distribution=None,
        key=_KEY,
        mesh=None,
        journal=A(None, TEXT | OR_NONE),
        progress=False,
    )
    what |= {"labels": labels}
    how = {"key": None, "batch_size": None, "mesh": None, "progress": False}
    epsilon = A(0.1, POSITIVE)
    yield case(adversarial.fgsm, **what, epsilon=epsilon, norm="linf", **how)
    wanted = {"target_confidence_level": 0.51, "targets": "runner-up"}
    yield case(adversarial.lbfgs, **what, **wanted, **how)
    yield case(
        adversarial.adversariability,
        **what,
        attack=functools.partial(adversarial.fgsm, epsilon=0.1),
        similarity=A(adversarial.structural_similarity),
    )


_LEVELS, _VALUES = np.linspace(0, 1, 5), np.array([0.9, 0.95, 0.8, 0.7, 0.2])
_CONFUSION = np.arange(5 * 3 * 4).reshape(5, 3, 4)


def of_numbers() -> list[Case]:
    return [
        *_of_measures(),
        *_of_curves(),
        *_of_tolerance(),
        *_of_uncertainty(),
        *_of_strategies(),
        *_of_roma_numbers(),
        case(strategies.all_images, levels=A(_LEVELS, EMPTY)),
        case(
            strategies.FewImages,
            strategy=strategies.ASAP(16),
            half_width=A(0.1, SHARE | OR_NONE),
            budget=None,
            curtail=False,
            required=A(None, OR_NONE | SHARE),
        ),
    ]


def _of_measures() -> Iterator[Case]:
    for name in ("accuracy", "indecision", "decided_ratio", "effectiveness"):
        yield case(getattr(metrics, name), counts=_CONFUSION)
    for name in ("precision", "recall", "f1"):
        positive = A(1, SHARE | OR_NONE)
        yield case(getattr(metrics, name), counts=_CONFUSION, positive=positive)
    for table in ("measures", "per_class"):
        for name, measure in getattr(metrics, table).items():
            yield case(measure, f"metrics.{table}[{name!r}]", counts=_CONFUSION)
    ranks = np.zeros((5, 3, 2), np.int64)
    ranks[..., 0] = 1
    ones = np.ones((5, 3), np.int64)
    counts = metrics.Counts(ones, ones, ones, 0 * ones, ranks=ranks)
    yield case(metrics.top_k_accuracy, counts=counts, k=2)
    yield case(metrics.effective_inputs, counts=_CONFUSION, measure="f1")
    level = {"confidence_level": 0.9}
    yield case(metrics.bands, counts=_CONFUSION + 1, measure="accuracy", **level)
    confidence = np.linspace(0.2, 0.9, 10).reshape(2, 5)
    answers = {"confidence": confidence, "correct": confidence > 0.5}
    yield case(metrics.risk_coverage, **answers)
    yield case(metrics.aurc, **answers)
    yield case(metrics.expected_calibration_error, **answers, num_bins=5)
    successes = {"successes": A(3, SHARES), "totals": A(8, COUNTS)}
    yield case(metrics.wilson, **successes, **level)
    scores = A(confidence, frozenset({"array of NaN"}))
    yield case(metrics.bounded_mean, scores=scores, **level)
    yield case(metrics.odds_ratio, counts=np.array([[3, 1], [2, 9]]), **level)
    yield from _of_corruption_errors()
    yield case(
        metrics.unknown_counts,
        predicted=np.zeros((2, 3), int),
        labels=np.array([0, 1, 0]),
        uncertainty=np.full((2, 3), 0.4),
        alpha=A(0.5, SHARE),
    )


def _of_corruption_errors() -> Iterator[Case]:
    confusion = _CONFUSION[:1].repeat(6, 0) + 1
    levels, level = np.arange(6.0), {"confidence_level": 0.9}
    curve = jaxrob.ReducedCurve(levels, confusion)
    reference = metrics.ReferenceErrors(0.4, 0.8)
    for name in ("corruption_error", "relative_corruption_error"):
        yield case(getattr(metrics, name), curve=curve, reference=reference, **level)
    yield case(
        metrics.mean_corruption_error,
        curves={
            name: jaxrob.ReducedCurve(np.arange(6.0), confusion.copy())
            for name in metrics.ALEXNET
        },
        reference=A(dict.fromkeys(metrics.ALEXNET, reference), OR_NONE),
        relative=False,
        **level,
    )
    yield case(
        metrics.failing_level,
        levels=curve.levels,
        counts=confusion,
        measure="accuracy",
        threshold=A(0.3, NUMBER),
        identity=A(0.0, NUMBER),
        **level,
    )


def _of_curves() -> Iterator[Case]:
    curve = {"levels": _LEVELS, "values": _VALUES, "threshold": A(0.8, NUMBER)}
    bounds = {"bounds": A((0.0, 1.0), OR_NONE)}
    yield case(metrics.heaviside_robustness, **curve, rule="linear")
    yield case(metrics.accepted_intervals, **curve)
    yield case(
        metrics.robustness_interval,
        levels=_LEVELS,
        low=_VALUES - 0.1,
        high=_VALUES + 0.1,
        threshold=A(0.8, NUMBER),
        **bounds,
    )
    yield case(
        metrics.confidence_interval,
        levels=_LEVELS,
        counts=_CONFUSION + 1,
        measure="accuracy",
        threshold=A(0.8, NUMBER),
        confidence_level=0.9,
        **bounds,
    )


def _of_tolerance() -> Iterator[Case]:
    yield case(
        metrics.tolerance_robustness,
        levels=_LEVELS,
        values=_VALUES,
        threshold=A(0.8, SHARE),
        tolerance=A("linear", OR_NONE),
        penalization=None,
        nominal=A(0.9, SHARE),
        level_distribution=None,
        bounds=A((0.0, 1.0), OR_NONE),
    )
    given = {"value": A(_VALUES, SHARES), "threshold": A(0.8, SHARE)}
    yield case(metrics.linear_tolerance, **given, x_max=A(0.9, SHARE))
    for name in ("step_tolerance", "linear_penalization", "step_penalization"):
        yield case(getattr(metrics, name), **given)
    yield case(metrics.beta, theta=A(0.8, SHARE), gamma=A(0.5, SHARE))


def _of_uncertainty() -> Iterator[Case]:
    # NaN is the answer of a classifier that gave none.
    log_p = A(jnp.log(jnp.full((2, 4, 3), 1 / 3)), UNKNOWN)
    names = ("aleatoric", "epistemic", "total", "predictive_entropy")
    for name in (*names, "mutual_information"):
        yield case(getattr(jaxrob.uncertainty, name), log_probabilities=log_p)
    yield case(jaxrob.uncertainty.unknown_threshold, alpha=A(0.5, SHARE))


def _of_strategies() -> Iterator[Case]:
    task = strategies.Task(0.0, 1.0, 0.8)
    history = strategies.History(_LEVELS, _VALUES)
    asap = strategies.ASAP(16)
    yield case(strategies.Uniform, n=5)
    yield case(strategies.Random, n=5, seed=A(0, SHARE))
    yield case(
        strategies.ASAP,
        n=16,
        concavity=A(128.0, POSITIVE),
        statistical_stopping=A(None, FLAG | OR_NONE),
        narrowest=A(0.25, OR_NONE),
    )
    yield case(strategies.Including, strategy=asap, levels=A((0.0, 0.5), NUMBERS))
    yield case(
        strategies.History,
        levels=_LEVELS,
        values=_VALUES,
        num_inputs=A(np.full(5, 10), OR_NONE),
        effects=A(np.arange(5), OR_NONE),
        rounds=A(1, SHARE),
    )
    yield case(
        strategies.sample,
        strategy=asap,
        task=task,
        function=lambda levels: 1 - levels / 2,
        num_inputs=A(100, OR_NONE),
    )
    published = strategies.ASAP(16, 128.0)
    for one in (strategies.Uniform(), strategies.Random(), asap, published):
        name, state = type(one).__name__, A(history, ANYTHING)
        yield case(one.ask, f"{name}.ask", task=task, state=state, history=history)
        yield case(one.result, f"{name}.result", task=task, state=history)


def _of_roma_numbers() -> Iterator[Case]:
    samples = np.log(np.linspace(0.1, 0.9, 10))
    scalar = A(0.5, NUMBERS | {"NaN", "array of NaN"})
    yield case(roma.anderson_darling, samples=samples, ascending=True)
    yield case(roma.boxcox, log_x=scalar, lmbda=scalar)
    yield case(roma.boxcox_lambda, log_x=A(samples, UNKNOWN))
    yield case(
        roma.compare_categories,
        plr=np.array([0.9, 0.8, np.nan, 1.0]),
        hits=A(np.array([3, 4, 5, 0]), OR_NONE),
        num_samples=100,
        categories=np.array([0, 0, 1, 1]),
        class_names=A(("a", "b"), OR_NONE),
    )
    yield case(
        roma.inputs_needed,
        probability=0.1,
        half_width=None,
        relative=A(0.5, POSITIVE),
        num_samples=A(8, OR_NONE),
        correlation=A(0.5, SHARE),
        confidence_level=0.9,
        categories=2,
    )
    yield case(roma.ball, norm="linf", epsilon=A(0.1, POSITIVE), clip=False)
    yield case(
        roma.Perturbation,
        name=A("mine", TEXT),
        draw=_draw,
        apply=_draw,
        move=A(None, CALLABLE | OR_NONE),
        norm=None,
        # A leaf: JAX puts values of its own there.
        size=A(0.1, ANYTHING),
        clip=False,
    )
    yield case(roma.from_sampler, fn=_draw, clip=False)


def _draw(key: jax.Array, image: jax.Array) -> jax.Array:
    del key
    return image
