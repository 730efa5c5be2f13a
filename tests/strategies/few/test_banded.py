"""How far a search takes a curve to be open, steep or close to the threshold."""

import numpy as np

from jaxrob.strategies import ASAP
from jaxrob.strategies._few import banded
from jaxrob.strategies._few.bands import State
from jaxrob.strategies._few.goal import Accepted, Goal

PARTS, IMAGES, CROSSING = 1024, 2000, 0.635


def looks(shape, seen, orders):
    """What one look at a curve tells, in several orders of the images."""
    least = float(shape(CROSSING))
    goal = Goal(PARTS, least, (0.0, 1.0), IMAGES, 50, 0.05, 0.015)
    for seed in range(orders):
        order = np.random.default_rng(seed).permutation(IMAGES)
        answers = {
            step: (order[:number] + 0.5 < shape(step / PARTS) * IMAGES).astype(float)
            for step, number in seen.items()
        }
        state = State(goal, {}, Accepted(0, PARTS, PARTS / 2))
        yield goal, banded.look(ASAP(n=PARTS), state, answers)


def test_a_steep_curve_is_resolved_by_the_usual_bands():
    """Not by high ones, which open intervals far off because a bend may be there."""
    seen = dict.fromkeys([0, 128, 256, 384, 896, 1024], 128)
    seen |= {512: 384, 576: 640, 608: 512, 640: 2000, 655: 640, 669: 512, 684: 512}
    for goal, state in looks(lambda x: 0.97 - 0.5 * x**2.3, {**seen, 768: 256}, 12):
        assert state.bands is not None and state.bands.z == banded.critical_value(goal)


def test_no_look_takes_a_flat_curve_to_be_far_from_where_it_is():
    seen = dict.fromkeys(range(0, PARTS + 1, 128), 400)
    for goal, state in looks(lambda x: 0.8 - 0.005 * (x - CROSSING), seen, 40):
        _, _, guess = state.accepted
        half_width = max(state.accepted.half_width, goal.half_width * PARTS)
        assert abs(guess - CROSSING * PARTS) <= 3 * half_width + 1
