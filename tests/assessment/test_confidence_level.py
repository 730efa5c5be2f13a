"""The confidence level that is asked for: intervals, documents, words."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import jaxrob
from jaxrob import metrics, reporting, strategies
from jaxrob.metrics._bootstrap import num_resamples

LIMITS = np.linspace(0, 1, 500, dtype=np.float32)
DATASET = jaxrob.Dataset(
    np.stack([LIMITS, 0 * LIMITS], axis=-1)[:, None, None], np.zeros(500, np.int32)
)
DIM = jaxrob.Alteration("dim", lambda image, x: image.at[..., 1].set(x), 0.0, 1.0)
NETWORK = jaxrob.Classifier(
    lambda _, images: jnp.stack(
        [images[:, 0, 0, 0] + 1e-6, images[:, 0, 0, 1]], axis=-1
    )
)


def assessed(confidence_level, **settings):
    settings = {"strategy": strategies.Uniform(11)} | settings
    return jaxrob.assess(
        NETWORK, DATASET, DIM, 0.5, confidence_level=confidence_level, **settings
    )


def test_the_interval_is_of_the_level_asked_for():
    usual, sure = assessed(0.95), assessed(0.999)
    expected = metrics.confidence_interval(
        sure.levels, sure.curve.confusion, "accuracy", 0.5, 0.999, bounds=(0, 1)
    )
    assert sure.confidence_interval == pytest.approx(expected)
    assert sure.confidence_interval.low < usual.confidence_interval.low
    assert sure.confidence_interval.high > usual.confidence_interval.high
    read = jaxrob.Assessment.from_json(sure.to_json())
    assert read.confidence_level == 0.999
    assert read.confidence_interval == sure.confidence_interval


def test_words_say_the_level():
    sure = assessed(0.999)
    for text in (
        reporting.table([sure]),
        reporting.to_markdown([reporting.Results("net", None, (sure,))]),
    ):
        assert "99.9 % interval" in text and "95 %" not in text
    (line,) = reporting.regressions(
        jaxrob.assess(
            jaxrob.Classifier(
                lambda _, images: jnp.stack(
                    [images[:, 0, 0, 0] / 2, images[:, 0, 0, 1]], axis=-1
                )
            ),
            DATASET,
            DIM,
            0.5,
            strategy=strategies.Uniform(11),
            confidence_level=0.99,
        ),
        sure,
    )
    assert "99 % interval" in line


def test_few_images_err_as_seldom_as_asked():
    usual, sure = (assessed(one, half_width=0.1) for one in (0.95, 0.999))
    assert (usual.sampling.error, sure.sampling.error) == pytest.approx((0.05, 0.001))
    assert sure.evaluations >= usual.evaluations
    read = json.loads(usual.to_json())
    read["confidence_level"] = 0.999
    with pytest.raises(ValueError, match=r"error must be at most 0.001"):
        jaxrob.Assessment.from_json(json.dumps(read))


@pytest.mark.parametrize("level", [0, 1, 95, np.nan])
def test_the_level_lies_between_0_and_1(level):
    with pytest.raises(ValueError, match=r"confidence_level must lie in \(0, 1\)"):
        assessed(level)
    read = json.loads(assessed(0.95).to_json())
    read["confidence_level"] = 1.0
    with pytest.raises(ValueError, match="confidence_level must lie"):
        jaxrob.Assessment.from_json(json.dumps(read))


def test_the_highest_level_that_a_message_names_is_taken():
    assert num_resamples(0.9999) == 500_000
    with pytest.raises(ValueError, match=r"at most 0\.9999 .*; got 0\.99999"):
        num_resamples(0.99999)
