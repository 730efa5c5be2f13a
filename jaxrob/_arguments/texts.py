"""Texts for people: on one line, counted, and how an extra is installed."""

import importlib
import re
import types
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


def counted(number: int, one: str, more: str | None = None) -> str:
    """Formats a count, such as "1 image" or "2 images"."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"


def install(extra: str) -> str:
    """Returns the command that installs an extra."""
    # The package is on no registry, so "pip install jaxrob" would install a stranger's.
    return f'pip install -e ".[{extra}]" in a clone of jaxrob'


def required(module: str, purpose: str, extra: str) -> types.ModuleType:
    """Imports a module, or names the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = module.partition(".")[0]
        if error.name != missing:  # It is installed, but another import in it fails.
            raise
        raise ImportError(
            f"{purpose} needs {missing}, which is not installed: {install(extra)}"
        ) from error
