"""Locks on open files and folders, which the system drops when their process ends."""

try:
    import fcntl
except ImportError:  # Windows does not have it.
    fcntl = None


def lock(descriptor: int, wait: bool = False) -> bool | None:
    """Locks an open file or folder for its opener alone."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    except BlockingIOError:
        return False
    except OSError:  # Some network file systems do not support locks.
        return None
