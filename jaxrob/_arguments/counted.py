"""Counts in words."""


def counted(number: int, one: str, more: str | None = None) -> str:
    """Formats a count, such as "1 image" or "2 images"."""
    return f"{number:,} {one if number == 1 else more or one + 's'}"
