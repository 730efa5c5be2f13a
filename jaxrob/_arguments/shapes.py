"""Shapes of arrays as docstrings write them, such as "L, K, K + 1"."""


def fits(
    found: tuple[int, ...], shape: str, lengths: dict[str, int], shortest: int
) -> bool:
    """Whether a shape is one that a text describes.

    Args:
      found: the shape.
      shape: letters, numbers and "..." as `checks.checked_array` takes them.
      lengths: what the letters stand for; those that are new are added.
      shortest: the smallest length that a letter may stand for.
    """
    axes = [axis.strip() for axis in shape.split(",") if axis.strip()]
    if axes[:1] == ["..."]:
        axes = axes[1:]
        found = found[max(0, len(found) - len(axes)) :] if axes else ()
    if len(found) != len(axes):
        return False
    for axis, length in zip(axes, found):
        letter, _, more = axis.partition(" + ")
        extra = int(more or 0)
        if letter.isdigit():
            wanted = int(letter)
        else:
            wanted = lengths.setdefault(letter, length - extra)
        if length != wanted + extra or (not letter.isdigit() and wanted < shortest):
            return False
    return True


def lengths_text(shape: str, lengths: dict[str, int]) -> str:
    """What the letters of a shape stand for, if that is known: " with N = 5"."""
    parts = [f"{letter} = {n}" for letter, n in lengths.items() if letter in shape]
    return f" with {', '.join(parts)}" if parts else ""
