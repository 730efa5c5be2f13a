"""The largest box around a point of which a model accepts almost all.

Faces move continuously: to the last of many random points up to which the box bears
what it holds.
"""

import itertools
from typing import NamedTuple

import numpy as np

# Boxes that are grown from the start, and how often each is changed for a larger one.
_STARTS, _CHANGES = 4, 4
# A face that went as far as it can would leave the others no room.
_SHARES = 1 / 3, 1 / 2, 1.0
# Sizes tried first, and the fewest points by which a box is judged.
_SIZES, _FEWEST = np.geomspace(1.0, 0.02, 14), 24
# Of a point that no box may hold.
FORBIDDEN = 1e9


class Box(NamedTuple):
    """A part of the unit cube."""

    lower: np.ndarray  # [d]
    upper: np.ndarray  # [d]

    @property
    def volume(self) -> float:
        return float(np.prod(self.upper - self.lower))

    def holds(self, points: np.ndarray) -> np.ndarray:
        inside = np.ones(len(points), bool)
        for axis, (low, high) in enumerate(zip(self.lower, self.upper)):
            inside &= (points[:, axis] >= low) & (points[:, axis] <= high)
        return inside

    def drawn(self, number: int, rng: np.random.Generator) -> np.ndarray:
        shares = rng.random((number, len(self.lower)))
        return self.lower + shares * (self.upper - self.lower)

    def wider(self, share: float, least: float = 0.0) -> "Box":
        more = np.maximum(share * (self.upper - self.lower), least)
        lower, upper = self.lower - more, self.upper + more
        return Box(np.maximum(lower, 0.0), np.minimum(upper, 1.0))


class Cloud(NamedTuple):
    """Random points of a part of the cube, with the model's opinion of each."""

    points: np.ndarray  # [m, d]
    burdens: np.ndarray  # [k, m], of each the mean over a box is at most one
    region: Box
    orders: np.ndarray  # int `[d, m]`, the points sorted along each axis


def cloud_of(points: np.ndarray, burdens: np.ndarray, region: Box) -> Cloud:
    # Boxes look at one axis at a time.
    points = np.asfortranarray(points)
    return Cloud(points, burdens, region, np.argsort(points.T, axis=1))


def grown(
    cloud: Cloud, start: Box, is_free: np.ndarray, rng: np.random.Generator
) -> Box | None:
    """Returns the largest box found around the start, by its free faces `[2, d]`."""
    found, faces = [], np.argwhere(is_free)
    for _ in range(_STARTS):
        box = _begun(cloud, start, is_free, rng)
        if box is None:
            continue
        box = _extended(cloud, start, box, rng.permutation(faces))
        for _ in range(_CHANGES if len(faces) else 0):
            # A face is drawn back, which may leave the others more room.
            side, axis = faces[rng.integers(len(faces))]
            ends, first = np.array(box), start[side][axis]
            ends[side, axis] = first + rng.random() * (ends[side, axis] - first)
            other = _extended(cloud, start, Box(*ends), rng.permutation(faces))
            box = max(box, other, key=lambda one: one.volume)
        found.append(box)
    return max(found, key=lambda one: one.volume, default=None)


def _begun(
    cloud: Cloud, start: Box, is_free: np.ndarray, rng: np.random.Generator
) -> Box | None:
    rates = np.exp(rng.normal(0, 0.7, is_free.shape)) * is_free
    rates /= max(rates.max(), 1e-9)
    region = cloud.region
    for size in _SIZES:
        box = Box(
            np.maximum(start.lower - size * rates[0], region.lower),
            np.minimum(start.upper + size * rates[1], region.upper),
        )
        inside = box.holds(cloud.points)
        number = np.count_nonzero(inside)
        if number >= _FEWEST and (cloud.burdens[:, inside].sum(axis=1) <= number).all():
            return box
    return None


def _extended(cloud: Cloud, start: Box, box: Box, faces: np.ndarray) -> Box:
    """Moves faces outwards one after the other, at last each as far as it goes."""
    ends, signs = np.array(box), np.array([-1.0, 1.0])
    for share, face in itertools.product(_SHARES, range(len(faces))):
        side, axis = faces[face]
        bounds = np.array(ends)
        bounds[side, axis] = cloud.region[side][axis]
        inside = Box(*bounds).holds(cloud.points)
        # Outwards from the opposite face.
        order = cloud.orders[axis][:: 2 * side - 1]
        order = order[inside[order]]
        along, number = cloud.points[order, axis], np.arange(1, len(order) + 1)
        beyond = signs[side] * (along - start[side][axis]) >= 0
        light = (np.cumsum(cloud.burdens[:, order], axis=1) <= number).all(axis=0)
        (places,) = np.nonzero(light & (number >= _FEWEST) & beyond)
        if not len(places):
            continue
        last = places[-1]
        end = bounds[side, axis] if last == len(order) - 1 else along[last]
        further = end - ends[side, axis]
        if signs[side] * further > 0:
            ends[side, axis] += share * further
    return Box(*ends)
