"""Files that systems leave beside pictures."""

_FILES = ("thumbs.db", "ehthumbs.db", "desktop.ini", "dicomdir")
_FOLDERS = ("__MACOSX",)


def is_of_system(parts: tuple[str, ...]) -> bool:
    """Whether a system keeps a file for itself: hidden, or by its name."""
    if any(part.startswith(".") or part in _FOLDERS for part in parts):
        return True
    return bool(parts) and parts[-1].lower() in _FILES
