"""Foreign text made harmless in files of other programs; no two texts become one."""

import hashlib
import re
import unicodedata

# What a spreadsheet takes for the start of a formula; full-width forms are folded.
_FORMULA = "=+-@"
_INVISIBLE = ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp")
# Words that a name for loggers may consist of, and the digest that others end with.
_SIMPLE = re.compile(r"[a-z][a-z0-9]*( [a-z0-9]+)*")
_DIGEST = re.compile(r"(.* )?[0-9a-f]{16}")
_MOST_SIMPLE, _MOST_STEM = 64, 40
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    # These would be options of a rule or a new line, or form ligatures.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "-": "{-}",
    ",": "{,}",
    "?": "{?}",
    "!": "{!}",
}
# Letters that join to one sign.
_LIGATURES = re.compile("(?<=f)(?=[fil])")


def escaped(text: str) -> str:
    r"""Returns a text with invisible characters as \u0007; no two texts become one."""
    # Line breaks, control characters and those that reverse the direction of writing
    # are invisible. A backslash before a "u" is written \u005c, so that it is no
    # escape.
    text = re.sub(r"\\(?=[uU])", r"\\u005c", text)
    return "".join(
        _spelt(one) if unicodedata.category(one) in _INVISIBLE else one for one in text
    )


def cell(text: str) -> str:
    """Returns a text that no spreadsheet takes for a formula."""
    # As OWASP advises, an apostrophe comes before one that begins with =, +, - or @,
    # also after spaces or in full width; and before one that begins with an apostrophe,
    # so that no two texts become one.
    text = escaped(text)
    first = unicodedata.normalize("NFKC", text.lstrip()[:1])[:1]
    return f"'{text}" if first and first in f"{_FORMULA}'" else text


def latex(text: str) -> str:
    """Returns a text as LaTeX that typesets it, and runs no command."""
    # Letters beyond ASCII stay: XeLaTeX and LuaLaTeX typeset all that their font has,
    # pdfLaTeX those of European languages.
    text = _LIGATURES.sub("\0", escaped(text))
    # TeX would make one space of several, and drop those at an end.
    text = re.sub("^ +| +$| {2,}", lambda found: "\0" * 2 * len(found[0]), text)
    found = "".join(_LATEX.get(one, one) for one in text)
    return found.replace("\0\0", "{ }").replace("\0", "{}")


def log_name(text: str) -> str:
    """Returns a name of a-z, 0-9 and "_" that every logger and file system takes."""
    # Words of small letters keep their name: "gaussian blur" is "gaussian_blur". Other
    # texts end with a digest, so that no two become one.
    simple = _SIMPLE.fullmatch(text) and len(text) <= _MOST_SIMPLE
    if simple and not _DIGEST.fullmatch(text):
        return text.replace(" ", "_")
    stem = re.sub("[^a-z0-9]+", "_", text.lower()).strip("_")[:_MOST_STEM]
    stem = stem if stem[:1].isalpha() else f"x_{stem}".rstrip("_")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{stem}_{digest}"


def _spelt(one: str) -> str:
    number = ord(one)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
