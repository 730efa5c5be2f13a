"""The kinds of the pictures of a data set, counted to say which are the odd ones."""

import collections
import pathlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from jaxrob.data._decode import Fit, decode_image
from jaxrob.data._oddities import first_names
from jaxrob.data._source import Unsuited

# At most so many pictures are looked at, evenly picked: enough to see what is rare.
_MOST_COUNTED = 200
# The kind does not depend on the size: JPEG files are decoded at 1/8.
_SIZE = (8, 8)
_BLACK = (0, 0, 0)
# Channels, and whether a value has more than 8 bits.
_Kind = tuple[int, bool]


def mixture(
    path: pathlib.Path,
    names: Sequence[str],
    contents: Callable[[int], bytes],
    fit: Fit,
) -> str | None:
    """Returns how many pictures are of which kind; None if all are of one."""
    indices = range(0, len(names), -(-len(names) // _MOST_COUNTED))

    def kind_at(index: int) -> _Kind | None:
        return _kind(names[index], contents, index, fit)

    with ThreadPoolExecutor() as pool:
        found = list(pool.map(kind_at, indices))
    of_kind = collections.defaultdict(list)
    for kind, index in zip(found, indices):
        if kind is not None:
            of_kind[kind].append(names[index])
    if len(of_kind) < 2:
        return None
    by_channels = len({channels for channels, _ in of_kind}) > 1
    by_bits = len({is_deep for _, is_deep in of_kind}) > 1

    def said(kind: _Kind) -> str:
        bits = "more than 8 bits a value" if kind[1] else "8 bits a value"
        parts = [f"{kind[0]} channels"] * by_channels + [bits] * by_bits
        number = str(len(of_kind[kind]))
        return f"{' of '.join([number, *parts])} ({first_names(of_kind[kind])})"

    # The most first.
    kinds = sorted(of_kind, key=lambda one: -len(of_kind[one]))
    of = "" if len(indices) == len(names) else f"of {len(indices)} looked at "
    return (
        f"{path}: all pictures must be of one kind, but {of}there are "
        f"{', '.join(map(said, kinds))}. Store all alike, or move the fewer elsewhere"
    )


def _kind(
    name: str, contents: Callable[[int], bytes], index: int, fit: Fit
) -> _Kind | None:
    """Returns the kind of a picture; None of one that cannot be read."""
    for value_range in dict.fromkeys((fit.value_range, None)):
        small = Fit(
            _SIZE,
            dct_scaling=True,
            background=_BLACK,
            value_range=value_range,
            slice_at=fit.slice_at,
        )
        try:
            image, _ = decode_image(contents(index), name, small)
        except Unsuited:
            continue
        except ValueError:
            return None
        return image.shape[-1], image.dtype != np.uint8
    return None
