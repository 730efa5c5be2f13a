"""Shapes of arrays as docstrings write them, such as "L, K, K + 1"."""


def fits(
    found: tuple[int, ...], shape: str, lengths: dict[str, int], shortest: int
) -> bool:
    """Tests whether a shape matches its description."""
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
    """Describes the known lengths of a shape's letters, such as " with N = 5"."""
    parts = [f"{letter} = {n}" for letter, n in lengths.items() if letter in shape]
    return f" with {', '.join(parts)}" if parts else ""
