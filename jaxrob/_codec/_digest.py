"""The digest of a document, of its parsed values.

It finds what was edited, cut or damaged, and no forger, who computes it anew. Spaces,
the order of entries, 1 for 1.0, and `seconds`, which no repetition has again, do not
matter to it.
"""

import hashlib
import json
from typing import Any

DIGEST = "digest"


def with_digest(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a document, JSON values by name, with its digest."""
    return document | {DIGEST: digest_of(document)}


def check_digest(document: dict[str, Any], who: str) -> None:
    """Refuses a document that is not what was written."""
    if DIGEST not in document:
        raise ValueError(f"{who} lacks {DIGEST!r}")
    rest = {name: one for name, one in document.items() if name != DIGEST}
    if document[DIGEST] != digest_of(rest):
        raise ValueError(
            f"{who} is not what was written: it was edited, or damaged, or its digest "
            "was. What it says can only be found out anew"
        )


def digest_of(value: Any) -> str:
    """16 hexadecimal digits."""
    try:
        text = json.dumps(_plain(value), sort_keys=True, allow_nan=False)
    except RecursionError as error:
        raise ValueError(f"it is nested too deep: {error}") from error
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if name != "seconds"}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
