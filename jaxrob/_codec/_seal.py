"""Whether a document was changed by hand, where no other part of it tells.

What a document holds beside its numbers, a digest of each part, is no secret: it finds
slips and edits, and not a forger.
"""

import hashlib
import json
import re
from typing import Any

from jaxrob._codec._kinds import at, object_at
from jaxrob._files.strict_json import short

#: The name of the part that holds the others' digests.
SEAL = "digests"
# A text, or what a whole number may do without.
_TEXT_OR_WHOLE = re.compile(r'("(?:[^"\\]|\\.)*")|\.0(?!\d)')


def with_seal(document: dict[str, Any]) -> dict[str, Any]:
    """A document, values of JSON by name, with the digests of its parts."""
    return document | {SEAL: {name: _digest(one) for name, one in document.items()}}


def check_seal(document: dict[str, Any], place: str) -> None:
    """Refuses a document of which a part is not what was written.

    Raises:
      ValueError: if it has no digests, one is missing or unknown, or a part is another
        than was written. The message names it.
    """
    if SEAL not in document:
        raise ValueError(f"{place or 'the text'} lacks {SEAL!r}")
    stated = object_at(at(place, SEAL), document[SEAL])
    parts = {name: one for name, one in document.items() if name != SEAL}
    if differing := sorted(stated.keys() ^ parts.keys()):
        raise ValueError(
            f"{at(place, SEAL)} must be of all parts; it lacks, or has too many, "
            f"{short(differing)}"
        )
    for name, one in parts.items():
        if stated[name] != _digest(one):
            raise ValueError(
                f"{at(place, name)} is not what was written: it was changed, or its "
                "digest was. What it says can only be found out anew"
            )


def _digest(value: Any) -> str:
    """Of the value, however it is written: 1.0 may become 1, and spaces be added."""
    try:
        text = json.dumps(value, sort_keys=True, allow_nan=False)
    except RecursionError as error:
        raise ValueError(f"it is nested too deep: {error}") from error
    text = _TEXT_OR_WHOLE.sub(lambda found: found[1] or "", text)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
