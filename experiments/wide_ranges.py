"""Alterations that the scripts share, beside the papers' own."""

from jaxrob import alterations

# Ranges wide enough that a network trained on unaltered digits fails in some.
WIDE = (
    alterations.horizontal_translation(-6.0, 6.0, fill="constant"),
    alterations.vertical_translation(-6.0, 6.0, fill="constant"),
    alterations.rotation(-60.0, 60.0, fill="constant"),
    alterations.brightness(-0.9, 0.9),
    alterations.zoom(1.0, 2.0),
    alterations.gaussian_noise(0.0, 0.4),
    alterations.gaussian_blur(0.0, 4.0),
    alterations.jpeg_compression(0.0, 100.0),
)
