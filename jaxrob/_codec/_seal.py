"""Detects changes by hand in documents, by a digest of each entry.

The digests are not secret: they detect slips and edits, not forgeries.
"""

import hashlib
import json
import re
from typing import Any

from jaxrob._codec._kinds import at, object_at
from jaxrob._files.strict_json import short

#: The name of the entry that holds the others' digests.
SEAL = "digests"
# A text, or the ".0" of a whole number.
_TEXT_OR_WHOLE = re.compile(r'("(?:[^"\\]|\\.)*")|\.0(?!\d)')


def with_seal(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a document, JSON values by name, with digests of its entries."""
    return document | {SEAL: {name: _digest(one) for name, one in document.items()}}


def check_seal(document: dict[str, Any], place: str) -> None:
    """Rejects a document with an entry that was changed.

    Raises:
      ValueError: if it has no digests, a digest is missing or unknown, or an entry was
        changed. The message names the entry.
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
    """Returns a digest that does not depend on spaces, or on 1.0 written as 1."""
    try:
        text = json.dumps(value, sort_keys=True, allow_nan=False)
    except RecursionError as error:
        raise ValueError(f"it is nested too deep: {error}") from error
    text = _TEXT_OR_WHOLE.sub(lambda found: found[1] or "", text)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
