"""The largest box around a point of which a model accepts almost all.

Faces move continuously: to the last of many random points up to which the share that
the model rejects stays below a limit.
"""

from typing import NamedTuple

import numpy as np

# Boxes that are grown from the start, and how often each is changed for a larger one.
_STARTS, _CHANGES = 5, 10
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
    bad: np.ndarray  # [m], the probability that the level is rejected
    region: Box
    orders: np.ndarray  # int `[d, m]`, the points sorted along each axis


def cloud_of(points: np.ndarray, bad: np.ndarray, region: Box) -> Cloud:
    # Boxes look at one axis at a time.
    points = np.asfortranarray(points)
    return Cloud(points, bad, region, np.argsort(points.T, axis=1))


def grown(
    cloud: Cloud, start: Box, is_free: np.ndarray, most: float, rng: np.random.Generator
) -> Box | None:
    """Returns the largest box found around the start, by its free faces `[2, d]`."""
    best: Box | None = None
    faces = [(side, axis) for side, axis in np.argwhere(is_free).tolist()]
    for _ in range(_STARTS if faces else 1):
        box = _begun(cloud, start, is_free, most, rng)
        if box is None:
            continue
        box = _extended(cloud, start, box, most, rng.permutation(faces))
        for _ in range(_CHANGES if faces else 0):
            drawn_back = _drawn_back(start, box, faces[rng.integers(len(faces))], rng)
            other = _extended(cloud, start, drawn_back, most, rng.permutation(faces))
            box = max(box, other, key=lambda one: one.volume)
        best = box if best is None else max(best, box, key=lambda one: one.volume)
    return best


def _begun(
    cloud: Cloud, start: Box, is_free: np.ndarray, most: float, rng: np.random.Generator
) -> Box | None:
    rates = np.exp(rng.normal(0, 0.7, is_free.shape)) * is_free
    rates /= max(rates.max(), 1e-9)
    region = cloud.region
    for size in _SIZES if is_free.any() else [0.0]:
        box = Box(
            np.maximum(start.lower - size * rates[0], region.lower),
            np.minimum(start.upper + size * rates[1], region.upper),
        )
        bad = cloud.bad[box.holds(cloud.points)]
        if len(bad) >= _FEWEST and bad.sum() <= most * len(bad):
            return box
    return None


def _drawn_back(
    start: Box, box: Box, face: tuple[int, int], rng: np.random.Generator
) -> Box:
    side, axis = face
    ends, first = np.array(box), start[side][axis]
    ends[side, axis] = first + rng.random() * (ends[side, axis] - first)
    return Box(*ends)


def _extended(
    cloud: Cloud, start: Box, box: Box, most: float, faces: np.ndarray
) -> Box:
    """Moves faces outwards one after the other, each as far as it goes."""
    ends, signs = np.array(box), np.array([-1.0, 1.0])
    for side, axis in faces:
        bounds = np.array(ends)
        bounds[side, axis] = cloud.region[side][axis]
        inside = Box(*bounds).holds(cloud.points)
        # Outwards from the opposite face.
        order = cloud.orders[axis][:: 2 * side - 1]
        order = order[inside[order]]
        along, bad = cloud.points[order, axis], np.cumsum(cloud.bad[order])
        number = np.arange(1, len(order) + 1)
        beyond = signs[side] * (along - start[side][axis]) >= 0
        fits = (bad <= most * number) & (number >= _FEWEST) & beyond
        (places,) = np.nonzero(fits)
        if not len(places):
            continue
        last = places[-1]
        end = bounds[side, axis] if last == len(order) - 1 else along[last]
        if signs[side] * (end - ends[side, axis]) > 0:
            ends[side, axis] = end
    return Box(*ends)
