"""libjpeg-turbo's constants, and the quantisation steps of a quality."""

import jax
import jax.numpy as jnp
import numpy as np

# The islow DCT's matrix, frequencies by samples: the orthonormal DCT x 2^14 sqrt(2).
# Where an entry differs by one from its mirror, libjpeg's rounded constants do, summed
# as its butterflies sum them.
_DCT_HALF = np.array(
    [
        [8192, 8192, 8192, 8192],
        [11363, 9633, 6437, 2260],
        [10703, 4433, -4433, -10703],
        [9633, -2259, -11362, -6436],
        [8192, -8192, -8192, 8192],
        [6437, -11362, 2261, 9633],
        [4433, -10704, 10704, -4433],
        [2260, -6436, 9633, -11363],
    ]
)
_PARITY = np.array([1, -1] * 4)[:, None]
DCT = np.concatenate([_DCT_HALF, _PARITY * _DCT_HALF[:, ::-1]], axis=1)
DCT = DCT.astype(np.int32)

# ITU-T T.81, tables K.1 and K.2.
LUMA_TABLE = np.array(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ],
    np.int32,
)
CHROMA_TABLE = np.full((8, 8), 99, np.int32)
CHROMA_TABLE[:4, :4] = [
    [17, 18, 24, 47],
    [18, 21, 26, 66],
    [24, 26, 56, 99],
    [47, 66, 99, 99],
]

# Colour conversion in units of 2^-16: R, G, B to Y, Cb, Cr; then the amounts that Cb
# and Cr add to Y in R, G and B. The latter's sums stay below 2^24, so float32 is exact.
FROM_RGB = np.array(
    [[19595, 38470, 7471], [-11059, -21709, 32768], [32768, -27439, -5329]], np.int32
)
FROM_RGB_BIAS = np.array([2**15, 2**23 + 2**15 - 1, 2**23 + 2**15 - 1], np.int32)
TO_RGB = np.array([[0, -22554, 116130], [91881, -46802, 0]], np.float32)


def quantisation_steps(table: np.ndarray, quality: jax.Array | int) -> jax.Array:
    """Returns a quality's steps, int32 `[8, 8]` in 1 to 255, scaled as in jcparam.c."""
    quality = jnp.clip(jnp.asarray(quality, jnp.int32), 1, 100)
    scale = jnp.where(quality < 50, 5000 // quality, 200 - 2 * quality)
    return jnp.clip((table * scale + 50) // 100, 1, 255)


def inverse_steps(steps: jax.Array) -> jax.Array:
    """Returns the factors of coefficients x 8 before they are rounded, float32."""
    # libjpeg rounds halves away from zero. A factor of 1 + 2^-16 lifts a half above the
    # tie without lifting another number to it (|c| < 2^14, so neighbours differ by more
    # than 2^-14 of themselves). One multiplication and a rounding remain.
    return (1 + 2.0**-16) / (8 * steps.astype(jnp.float32))
