"""Errors of functions that users pass in."""

from jaxrob._arguments.images import looks_channels_first
from jaxrob._arguments.readable import error_text
from jaxrob._arguments.tracebacks import begin_with_users


def failed_on_images(
    what: str, image_shape: tuple[int, ...], error: Exception
) -> ValueError:
    """Makes the error for a function that fails on images of a shape."""
    # The traceback of its cause begins with the user's frames then.
    begin_with_users(error)
    shape, hint = ", ".join(map(str, image_shape)), ""
    if len(image_shape) == 2:
        hint = " (if the axis of the channels is missing, images[..., None] adds it)"
    elif looks_channels_first(image_shape):
        hint = (
            " (they are taken as [B, H, W, C]; if they are [B, C, H, W], pass "
            "np.moveaxis(images, 1, -1))"
        )
    return ValueError(
        f"{what} failed on images of the shape [B, {shape}]{hint}: {error_text(error)}"
    )
