"""Makes foreign text readable on one line."""

import re
import unicodedata

# Joiners, which some scripts need. All other invisible characters are spelt out.
_SEEN = "\u200c\u200d"
_SPACE = re.compile(r"[\s\x1c-\x1f\x85]+")


def readable(text: str) -> str:
    """Returns a text on one line, with invisible characters spelt out."""
    # Names come from users and files. A character that reverses the direction of
    # writing would show another name than the one that is there, and half of a
    # surrogate pair cannot be written to a file.
    text = _SPACE.sub(" ", text)
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"(U+{ord(one):04X})"
        if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")
        and one not in _SEEN
        else one
        for one in text
    )


def error_text(error: BaseException) -> str:
    """Returns an error's text. A user's class may raise another error instead."""
    try:
        return str(error)
    except Exception:
        return "its text cannot be read"
