"""A user's own score of a network's outputs."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from jaxrob._arguments.checks import check_choice, check_type

# How the labels lie in the picture, and so how they move with its pixels.
LABELS = ("fixed", "masks", "boxes")
#: The name of a score: it stands in tables and file names.
SCORE_NAME = r"[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]{0,58}[^\s\x00-\x1f\x7f])?"


@dataclasses.dataclass(frozen=True)
class Score:
    """How good a network's output is, by a function of yours, image by image.

    `evaluate` and `assess` take one as `score`, or the function alone. The measure at a
    level is then the mean score; robustness, intervals, few images, comparisons and
    reports follow from it.

    Example::

        def iou(outputs, masks):
            found = outputs[..., 0] > 0
            shared = (found & masks).sum((1, 2))
            either = (found | masks).sum((1, 2))
            # Right where nothing is there and nothing is found.
            return jnp.where(either == 0, 1, shared / jnp.maximum(either, 1))

        score = jaxrob.Score(iou, name="IoU", version="1", labels="masks")
        result = jaxrob.assess(network, dataset, blur, threshold=0.7, score=score)

    Attributes:
      function: takes the outputs of B images and their labels, and returns `[B]`
        numbers in [0, 1], where 1 is best. Outputs are those of the network as it
        returns them (of a network with classes, float32 `[B, K]`, or `[S, B, K]` of S
        samples). Labels are an array `[B, ...]`, or a list of B entries where the data
        set has a list. A function that JAX can trace runs on the devices, others
        on the host, with NumPy arrays. Each image's score must depend on its own output
        and label alone.
      name: its name in tables, reports and journals: up to 60 characters on one line;
        by default the function's own. The measure is then "mean IoU", for instance.
      version: identifies the function, together with its name; to be changed whenever
        its values may change. A journal and `compare` need both.
      labels: what an alteration that moves pixels (a translation, rotation or zoom)
        does with the labels:

        * "fixed": nothing, they say nothing about places;
        * "masks": they are arrays `[H, W]` or `[H, W, C]` of the picture's size, which
          are altered as it is, integers and booleans by the nearest pixel;
        * "boxes": each image has an array `[M, 4 + k]` that begins with x1, y1, x2, y2
          in pixels (fractions of the picture are refused), or a dict with such "boxes"
          and arrays of M entries beside them.
          Boxes are moved and clipped to the picture; those outside are left out, with
          their entries. The score then runs on the host, and gets floating arrays,
          `[0, 4]` for an empty list;
        * None: not said. Class indices `[N]` are fixed; other labels are then rejected
          with an alteration that moves pixels.

    Raises:
      TypeError: if the function is not callable, or a text is none.
      ValueError: if the name or `labels` is none of those.
    """

    function: Callable[[Any, Any], Any]
    name: str = ""
    version: str | None = None
    labels: str | None = None

    def __post_init__(self) -> None:
        check_type("score", self.function, Callable, "a function of outputs and labels")
        check_type("name", self.name, str, "text")
        check_type("version", self.version, str | None, "text or None")
        if self.labels is not None:
            check_choice("labels", self.labels, LABELS)
        if not self.name:
            own = getattr(self.function, "__name__", "")
            object.__setattr__(self, "name", own if own.isidentifier() else "score")
        check_score_name("name of a score", self.name)


def check_score_name(name: str, value: Any) -> None:
    check_type(name, value, str, "text")
    if not re.fullmatch(SCORE_NAME, value):
        raise ValueError(
            f"{name} must have 1 to 60 characters on one line, without spaces at the "
            f"ends; got {value!r}"
        )


def checked_score(score: Any) -> Score | None:
    if score is None or isinstance(score, Score):
        return score
    wanted = "a jaxrob.Score or a function of outputs and labels"
    check_type("score", score, Callable, wanted)
    return Score(score)
