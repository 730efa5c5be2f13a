"""stub"""

from typing import Any


def moves_pixels(alteration: Any) -> bool:
    return False


def unmoved_reason(alteration: Any) -> str | None:
    return None


def move_mask(alteration: Any, mask: Any, level: Any) -> Any: ...
def move_boxes(alteration: Any, boxes: Any, level: Any, size: Any) -> Any: ...
