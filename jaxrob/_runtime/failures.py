"""What is said where a function of the user's fails."""


def failed_on_images(
    what: str, image_shape: tuple[int, ...], error: Exception
) -> ValueError:
    """The error for a function that fails on images of a shape.

    Args:
      what: the function, as the sentence's subject.
      image_shape: the shape of one image.
      error: what the function raised.
    """
    shape, hint = ", ".join(map(str, image_shape)), ""
    if len(image_shape) == 2:
        hint = " (if the axis of the channels is missing, images[..., None] adds it)"
    return ValueError(
        f"{what} failed on images of the shape [B, {shape}]{hint}: {error}"
    )
