"""The study of few images on curves close to the threshold, a few runs of it."""

import numpy as np
from checks import near_threshold


def test_levels_that_are_decided_contradict_no_images():
    """Of levels that few images show on their neighbours' side, wrongly."""
    for half_width, curtail in ((0.0, True), (0.02, True), (0.0, False)):
        rng = np.random.default_rng([0, 0, 90])
        asked = {"half_width": half_width, "curtail": curtail}
        shape = near_threshold.bowl(rng)
        assert not near_threshold.turning(shape, rng, 32, **asked).wrong


def test_drawn_answers_have_the_accuracy_of_their_curve():
    rng = np.random.default_rng(0)
    for kind in (*near_threshold.SHAPES, *near_threshold.OTHERS, *near_threshold.TURNING):
        shape = kind(rng)
        right = near_threshold.answers(shape, 1000, 0.0, rng)
        for level in (0.0, 0.3, 1.0):
            expected = np.clip(shape(np.array(level)), 0, 1)
            assert abs(right(level).mean() - expected) <= 0.001
