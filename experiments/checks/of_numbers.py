"""Cases of what takes numbers and arrays: metrics, uncertainty, strategies, RoMA's."""

import jax.numpy as jnp
import numpy as np

import jaxrob
from checks.cases import (
    ANYTHING,
    CALLABLE,
    COUNT,
    COUNTS,
    EMPTY,
    FLAG,
    INDEX,
    INSIDE_SHARE,
    NAMES,
    NUMBER,
    NUMBERS,
    OR_NONE,
    POSITIVE,
    SHARE,
    SHARES,
    TEXT,
    Case,
    case,
)
from checks.cases import Argument as A
from jaxrob import metrics, roma, strategies, uncertainty

LEVELS, VALUES = np.linspace(0, 1, 5), np.array([0.9, 0.95, 0.8, 0.7, 0.2])
CONFUSION = np.arange(5 * 3 * 4).reshape(5, 3, 4)
CONFIDENCES = np.linspace(0.2, 0.9, 10).reshape(2, 5)
CORRECT = CONFIDENCES > 0.5


def of_numbers() -> list[Case]:
    """All cases of these packages."""
    return [
        *_of_measures(),
        *_of_curves(),
        *_of_tolerance(),
        *_of_uncertainty(),
        *_of_strategies(),
        *_of_roma_numbers(),
        case(strategies.all_images, levels=A(LEVELS, EMPTY)),
        case(
            strategies.FewImages,
            strategy=strategies.ASAP(16),
            half_width=A(0.1, SHARE | OR_NONE),
            budget=A(None, OR_NONE | COUNT),
            curtail=A(False, FLAG),
            required=A(None, OR_NONE | SHARE),
        ),
    ]


def _of_measures() -> list[Case]:
    by_class = ("precision", "recall", "f1")
    found = [
        case(getattr(metrics, name), counts=CONFUSION)
        for name in ("accuracy", "indecision", "decided_ratio", "effectiveness")
    ]
    found += [
        case(getattr(metrics, name), counts=CONFUSION, positive=A(1, INDEX | OR_NONE))
        for name in by_class
    ]
    for table in ("measures", "per_class"):
        for name, measure in getattr(metrics, table).items():
            call = f"metrics.{table}[{name!r}]"
            found.append(case(measure, call, counts=CONFUSION))
    ranks = np.zeros((5, 3, 2), np.int64)
    ranks[..., 0] = 1
    ones = np.ones((5, 3), np.int64)
    return [
        *found,
        case(
            metrics.top_k_accuracy,
            counts=metrics.Counts(ones, ones, ones, 0 * ones, ranks=ranks),
            k=A(2, COUNT),
        ),
        case(metrics.effective_inputs, counts=CONFUSION, measure="f1"),
        case(
            metrics.bands,
            counts=CONFUSION + 1,
            measure="accuracy",
            confidence_level=A(0.9, INSIDE_SHARE),
        ),
        case(metrics.risk_coverage, confidence=CONFIDENCES, correct=CORRECT),
        case(metrics.aurc, confidence=CONFIDENCES, correct=CORRECT),
        case(
            metrics.expected_calibration_error,
            confidence=CONFIDENCES,
            correct=CORRECT,
            num_bins=A(5, COUNT),
        ),
        case(
            metrics.wilson,
            successes=A(3, SHARES | COUNT),
            totals=A(8, COUNTS),
            confidence_level=A(0.9, INSIDE_SHARE),
        ),
        case(
            metrics.bounded_mean,
            scores=A(CONFIDENCES, frozenset({"array of NaN"})),
            confidence_level=A(0.9, INSIDE_SHARE),
        ),
        case(
            metrics.odds_ratio,
            counts=np.array([[3, 1], [2, 9]]),
            confidence_level=A(0.9, INSIDE_SHARE),
        ),
        *_of_corruption_errors(),
        case(
            metrics.unknown_counts,
            predicted=np.zeros((2, 3), int),
            labels=np.array([0, 1, 0]),
            uncertainty=np.full((2, 3), 0.4),
            alpha=A(0.5, SHARE),
        ),
    ]


def _of_corruption_errors() -> list[Case]:
    confusion = CONFUSION[:1].repeat(6, 0) + 1
    curve = jaxrob.ReducedCurve(np.arange(6.0), confusion)
    curves = {
        name: jaxrob.ReducedCurve(np.arange(6.0), confusion.copy())
        for name in metrics.ALEXNET
    }
    reference = metrics.ReferenceErrors(0.4, 0.8)
    pair = {"curve": curve, "reference": reference}
    confidence = A(0.9, INSIDE_SHARE)
    singles = ("corruption_error", "relative_corruption_error")
    return [
        *(
            case(getattr(metrics, name), **pair, confidence_level=confidence)
            for name in singles
        ),
        case(
            metrics.mean_corruption_error,
            curves=curves,
            reference=A(dict.fromkeys(metrics.ALEXNET, reference), OR_NONE),
            relative=A(False, FLAG),
            confidence_level=confidence,
        ),
        case(
            metrics.failing_level,
            levels=curve.levels,
            counts=confusion,
            measure="accuracy",
            threshold=A(0.3, NUMBER),
            identity=A(0.0, NUMBER),
            confidence_level=confidence,
        ),
    ]


def _of_curves() -> list[Case]:
    bounds = A((0.0, 1.0), OR_NONE)
    return [
        case(
            metrics.heaviside_robustness,
            levels=LEVELS,
            values=VALUES,
            threshold=A(0.8, NUMBER),
            rule="linear",
        ),
        case(
            metrics.accepted_intervals,
            levels=LEVELS,
            values=VALUES,
            threshold=A(0.8, NUMBER),
        ),
        case(
            metrics.robustness_interval,
            levels=LEVELS,
            low=VALUES - 0.1,
            high=VALUES + 0.1,
            threshold=A(0.8, NUMBER),
            bounds=bounds,
        ),
        case(
            metrics.confidence_interval,
            levels=LEVELS,
            counts=CONFUSION + 1,
            measure="accuracy",
            threshold=A(0.8, NUMBER),
            confidence_level=A(0.9, INSIDE_SHARE),
            bounds=bounds,
        ),
    ]


def _of_tolerance() -> list[Case]:
    score = A(None, OR_NONE)
    return [
        case(
            metrics.tolerance_robustness,
            levels=LEVELS,
            values=VALUES,
            threshold=A(0.8, SHARE),
            tolerance=A("linear", OR_NONE),
            penalization=score,
            nominal=A(0.9, SHARE),
            level_distribution=A(None, OR_NONE),
            bounds=A((0.0, 1.0), OR_NONE),
        ),
        case(
            metrics.linear_tolerance,
            value=A(VALUES, SHARES),
            threshold=A(0.8, SHARE),
            x_max=A(0.9, SHARE),
        ),
        *(
            case(
                getattr(metrics, name), value=A(VALUES, SHARES), threshold=A(0.8, SHARE)
            )
            for name in ("step_tolerance", "linear_penalization", "step_penalization")
        ),
        case(metrics.beta, theta=A(0.8, SHARE), gamma=A(0.5, SHARE)),
    ]


def _of_uncertainty() -> list[Case]:
    log_p = jnp.log(jnp.full((2, 4, 3), 1 / 3))
    # NaN is the answer of a classifier that gave none.
    names = ("aleatoric", "epistemic", "total", "predictive_entropy")
    allowed = frozenset({"array of NaN", "array of rank 5"})
    found = [
        case(getattr(uncertainty, name), log_probabilities=A(log_p, allowed))
        for name in (*names, "mutual_information")
    ]
    return [*found, case(uncertainty.unknown_threshold, alpha=A(0.5, SHARE))]


def _of_strategies() -> list[Case]:
    task = strategies.Task(0.0, 1.0, 0.8)
    history = strategies.History(LEVELS, VALUES)
    found = [
        case(strategies.Uniform, n=A(5, COUNT)),
        case(strategies.Random, n=A(5, COUNT), seed=A(0, INDEX)),
        case(
            strategies.ASAP,
            n=A(16, COUNT),
            concavity=A(128.0, POSITIVE),
            statistical_stopping=A(None, FLAG | OR_NONE),
            narrowest=A(0.25, INSIDE_SHARE | OR_NONE),
        ),
        case(
            strategies.Including,
            strategy=strategies.ASAP(16),
            levels=A((0.0, 0.5), NUMBERS),
        ),
        case(
            strategies.History,
            levels=LEVELS,
            values=VALUES,
            num_inputs=A(np.full(5, 10), OR_NONE),
            effects=A(np.arange(5), OR_NONE),
            rounds=A(1, INDEX),
        ),
        case(
            strategies.sample,
            strategy=strategies.ASAP(16),
            task=task,
            function=A(lambda levels: 1 - levels / 2, CALLABLE),
            num_inputs=A(100, COUNT | OR_NONE),
        ),
    ]
    for strategy in (
        strategies.Uniform(),
        strategies.Random(),
        strategies.ASAP(16),
        strategies.ASAP(16, 128.0),
    ):
        name, state = type(strategy).__name__, A(history, ANYTHING)
        ask = case(strategy.ask, f"{name}.ask", task=task, state=state, history=history)
        result = case(strategy.result, f"{name}.result", task=task, state=history)
        found += [ask, result]
    return found


def _of_roma_numbers() -> list[Case]:
    samples = np.log(np.linspace(0.1, 0.9, 10))
    answers = {
        "plr": np.array([0.9, 0.8, np.nan, 1.0]),
        "hits": A(np.array([3, 4, 5, 0]), OR_NONE),
        "num_samples": A(100, COUNT),
        "categories": np.array([0, 0, 1, 1]),
        "class_names": A(("a", "b"), NAMES | OR_NONE),
    }
    any_last = frozenset({"array of NaN", "array of rank 5"})
    scalar = NUMBERS | {"NaN", "array of NaN"}
    return [
        case(roma.anderson_darling, samples=samples, ascending=A(True, FLAG)),
        case(roma.boxcox, log_x=A(0.5, scalar), lmbda=A(0.5, scalar)),
        case(roma.boxcox_lambda, log_x=A(samples, any_last)),
        case(roma.compare_categories, **answers),
        case(
            roma.inputs_needed,
            probability=A(0.1, INSIDE_SHARE),
            half_width=A(None, OR_NONE),
            relative=A(0.5, POSITIVE),
            num_samples=A(8, COUNT | OR_NONE),
            correlation=A(0.5, SHARE),
            confidence_level=A(0.9, INSIDE_SHARE),
            categories=A(2, COUNT),
        ),
        case(roma.ball, norm="linf", epsilon=A(0.1, POSITIVE), clip=A(False, FLAG)),
        case(
            roma.Perturbation,
            name=A("mine", TEXT),
            draw=A(_draw, CALLABLE),
            apply=A(_draw, CALLABLE),
            move=A(None, CALLABLE | OR_NONE),
            norm=A(None, OR_NONE),
            # A leaf: JAX puts values of its own there.
            size=A(0.1, ANYTHING),
            clip=A(False, FLAG),
        ),
        case(roma.from_sampler, fn=A(_draw, CALLABLE), clip=A(False, FLAG)),
    ]


def _draw(key: jnp.ndarray, image: jnp.ndarray) -> jnp.ndarray:
    del key
    return image
