"""What a step compiles for a TPU, as this machine can see it."""

import numpy as np
import pytest

import jaxrob
from jaxrob import alterations, steps
from jaxrob._engine import step


def brightest(variables, images):
    return images.mean(axis=(1, 2)) * variables


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alteration", "is_apart"),
    [
        (alterations.gaussian_blur(), True),
        (alterations.brightness(), False),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_products_are_written_apart_on_a_tpu(monkeypatch, alteration, is_apart):
    classifier = jaxrob.Classifier(brightest, np.ones(3, np.float32), "logits")

    def text(num_images):
        # Of another size, or JAX would take the trace that it has.
        size = {"num_images": num_images, "num_levels": 2}
        found = steps.evaluation(classifier, (9, 9, 3), alteration, **size)
        return found.step.lower().as_text()

    if is_apart:
        assert "optimization_barrier" not in text(4)
    monkeypatch.setattr(step, "platform", lambda mesh: "tpu")
    assert ("optimization_barrier" in text(5)) is is_apart
