"""Pictures as PNG."""

import io

import numpy as np

from jaxrob._arguments.extra import install


def png(image: np.ndarray, side: int | None = None) -> bytes:
    """Encodes an image as PNG, reduced to `side` pixels a side if it is larger."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(f"pictures need Pillow: {install('command')}") from error
    picture = Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image)
    if side is not None and max(picture.size) > side:
        picture.thumbnail((side, side), Image.Resampling.BOX)
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
