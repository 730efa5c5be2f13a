"""What an attack found as JSON, and back."""

import json
from typing import Any

import numpy as np

from jaxrob._runtime.seal import SEAL, check_seal, sealed
from jaxrob._runtime.strict_json import (
    booleans,
    floats,
    integers,
    jsonable,
    parsed_object,
)

_FORMAT = "jaxrob attack 1"
# All but the images.
_PARTS = (
    *("success", "similarity", "distance", "correct"),
    *("labels", "target", "predicted", "confidence", "vanished"),
)
_FLAGS = ("success", "correct", "vanished")
# Rounding may carry a probability or a similarity beyond 1.
_MOST = 1 + 1e-5


def attack_to_json(attack: Any) -> str:
    """See `Attack.to_json`."""
    document = {name: jsonable(np.asarray(getattr(attack, name))) for name in _PARTS}
    return json.dumps(sealed({"format": _FORMAT} | document), allow_nan=False)


def made_of(text: Any) -> dict[str, np.ndarray]:
    """The fields but the images by name; see `attack_from_json`."""
    found = parsed_object(text, _FORMAT, (*_PARTS, SEAL))
    try:
        made = _arrays(found)
    except TypeError as error:
        raise ValueError(f"a part is malformed: {error}") from error
    number = len(made["success"])
    for name, array in made.items():
        if len(array) != number or not number:
            raise ValueError(
                f"{name} must have an entry for each of at least one input, of success "
                f"there are {number}; got {len(array)}"
            )
    _check_together(made)
    check_seal(found)
    return made


def _arrays(found: dict[str, Any]) -> dict[str, np.ndarray]:
    made = {name: booleans(name, found[name]) for name in _FLAGS}
    made |= {
        name: integers(name, found[name], at_least=-1 if name == "target" else 0)
        for name in ("labels", "target", "predicted")
    }
    similarity = floats(
        "similarity", found["similarity"], at_least=-_MOST, at_most=_MOST
    )
    confidence = floats("confidence", found["confidence"], at_least=0, at_most=_MOST)
    return made | {
        "labels": made["labels"].astype(np.int32),
        "target": made["target"].astype(np.int32),
        "predicted": made["predicted"].astype(np.int32),
        "similarity": similarity,
        "distance": floats("distance", found["distance"], at_least=0),
        "confidence": confidence.astype(np.float32),
    }


def _check_together(made: dict[str, np.ndarray]) -> None:
    """Refuses what contradicts Definition 7, or the fields' own descriptions."""
    success = made["success"]
    if (success & ~made["correct"]).any():
        raise ValueError(
            "success must be false where the unaltered image is not correct"
        )
    if (made["vanished"] & (success | ~made["correct"])).any():
        raise ValueError(
            "vanished must be false where there is success, or nothing was attacked"
        )
    if (success & (made["predicted"] == made["labels"])).any():
        raise ValueError("predicted must be another class than labels where success")
    if (np.isnan(made["distance"]) == success).any():
        raise ValueError("distance must be null where there is no success, only there")
    if np.isnan(made["similarity"]).any() or made["similarity"][~success].any():
        raise ValueError("similarity must be a number, 0 where there is no success")
