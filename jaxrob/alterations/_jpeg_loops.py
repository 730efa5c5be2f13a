"""JPEG's constants and planes, and its form for CPUs.

Coefficients have the blocks innermost, and passes come in a loop of two. A pass is
eight int32 products added up, which vectorise over all blocks at once. Planes are small
integers in float32, so that products of matrices are exact.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._numbers import unit_range

# The islow DCT's matrix, frequencies by samples: the orthonormal DCT x 2^14 sqrt(2), by
# libjpeg's rounded constants: an entry may differ by one from its mirror.
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
CHROMA_TABLE[:2, :4] = [[17, 18, 24, 47], [18, 21, 26, 66]]
CHROMA_TABLE[2:4, :4] = [[24, 26, 56, 99], [47, 66, 99, 99]]

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
    # libjpeg rounds halves away from zero. 1 + 2^-16 lifts a half above the tie, and no
    # other number to it (|c| < 2^14: neighbours differ by 2^-14 of themselves).
    return (1 + 2.0**-16) / (8 * steps.astype(jnp.float32))


def levels_of(image: jax.Array) -> jax.Array:
    return jnp.clip(jnp.round(jnp.asarray(image, jnp.float32) * 255), 0, 255)


def planes_of(image: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    """Returns the planes that libjpeg transforms, edges repeated to whole blocks."""
    height, width, channels = jnp.shape(image)
    levels = levels_of(image)
    if channels == 1:
        luma, chroma = levels[None, :, :, 0], None
    else:
        colours = jnp.moveaxis(levels, 2, 0).astype(jnp.int32)
        planes = (FROM_RGB[:, :, None, None] * colours).sum(1, dtype=jnp.int32)
        planes = (planes + FROM_RGB_BIAS[:, None, None]) >> 16
        planes = planes.astype(jnp.float32)
        luma, chroma = planes[:1], _downsample(planes[1:])
    padding = ((0, 0), (0, -height % 8), (0, -width % 8))
    return jnp.pad(luma, padding, "edge"), chroma


def upsampling(size: int, length: int, smooth: bool) -> np.ndarray:
    """Returns 4 times the matrix `[size, length]` of chroma's interpolation."""
    own, nearer = chroma_samples(length, smooth)
    matrix = np.zeros((size, length), np.float32)
    np.add.at(matrix, (own, np.arange(length)), 3)
    np.add.at(matrix, (nearer, np.arange(length)), 1)
    return matrix


def chroma_samples(length: int, smooth: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns each pixel's own sample of chroma and the next nearest one."""
    index = np.arange(length)
    own = index // 2
    # Beyond the image's own samples the last one repeats.
    nearer = np.clip(own + 2 * (index % 2) - 1, 0, (length - 1) // 2)
    return own, nearer if smooth else own


def is_smooth(width: int) -> bool:
    """Whether libjpeg interpolates; it repeats chroma too narrow for its filter."""
    return width > 4


def product(
    a: jax.Array, b: np.ndarray, axes: int | tuple[tuple[int, ...], tuple[int, ...]]
) -> jax.Array:
    # A lower precision (TF32, bf16) would round the integers.
    return jnp.tensordot(a, b, axes, precision=jax.lax.Precision.HIGHEST)


def _downsample(chroma: jax.Array) -> jax.Array:
    """Averages chroma [2, H, W] over 2x2 pixels, edges repeated to whole blocks."""
    _, height, width = chroma.shape
    chroma = jnp.pad(chroma, ((0, 0), (0, height % 2), (0, 0)), "edge")
    rows = (height + 1) // 2
    pairs = chroma.reshape(2, rows, 2, width).sum(2)
    columns = -(-width // 16) * 8
    # Columns are repeated before averaging and rows after it, as libjpeg does.
    sample = np.minimum(np.arange(2 * columns), width - 1)
    right = np.zeros((width, columns), np.float32)
    np.add.at(right, (sample, np.arange(2 * columns) // 2), 1)
    sums = product(pairs, right, axes=((2,), (0,)))
    bias = 1 + np.arange(columns, dtype=np.float32) % 2
    means = jnp.floor((sums + bias) * 0.25)
    return jnp.pad(means, ((0, 0), (0, -rows % 8), (0, 0)), "edge")


# Added to a number below 2^22, it leaves the nearest integer in the low bits.
_ROUNDING = np.float32(1.5 * 2**23)


def coefficients(image: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    return jax.tree.map(_forward_dct, planes_of(image))


def decode(
    luma: jax.Array,
    chroma: jax.Array | None,
    quality: jax.Array | int,
    shape: tuple[int, int, int],
) -> jax.Array:
    height, width, _ = shape
    luma_shape = (1, height + -height % 8, width + -width % 8)
    levels = _decode_blocks(luma, LUMA_TABLE, quality)
    levels = _planes(levels, luma_shape)[0, :height]
    if chroma is None:
        return unit_range(levels[:, :width, None])
    # A product crops; slices would make XLA reorder the blocks for each colour.
    levels = product(levels, np.eye(luma_shape[2], width, dtype=np.float32), 1)
    chroma = _decode_blocks(chroma, CHROMA_TABLE, quality)
    chroma = _planes(chroma, (2, -(-height // 16) * 8, -(-width // 16) * 8))
    chroma = _upsample(chroma, height, width)[..., None] - 128
    shift = chroma[0] * TO_RGB[0] + chroma[1] * TO_RGB[1]
    pixels = levels[..., None] + jnp.floor((shift + 2.0**15) * 2.0**-16)
    return unit_range(jnp.clip(pixels, 0, 255))


def _forward_dct(planes: jax.Array) -> jax.Array:
    """Transforms levels [P, H, W], H and W multiples of 8, to coefficients x 8."""
    count, height, width = planes.shape
    blocks = planes.astype(jnp.int32) - 128
    blocks = blocks.reshape(count, height // 8, 8, width // 8, 8)
    # Rows come first here, columns in the inverse.
    across = blocks.transpose(4, 2, 0, 1, 3).reshape(8, 8, -1)
    return _transform(across, DCT, shifts=(11, 15)).swapaxes(0, 1)


def _decode_blocks(
    coefficients: jax.Array, table: np.ndarray, quality: jax.Array | int
) -> jax.Array:
    """Quantises coefficients [8, 8, N] and returns levels 0-255, int32 [8, 8, N]."""
    steps = quantisation_steps(table, quality)[:, :, None]
    # An addition rounds, because XLA's conversion to integers saturates, which costs
    # time.
    rounded = coefficients.astype(jnp.float32) * inverse_steps(steps) + _ROUNDING
    rounded = _bits(rounded) - _bits(_ROUNDING)
    levels = _transform(rounded * steps, DCT.T, shifts=(11, 18)) + 128
    return jnp.clip(levels, 0, 255)


def _bits(x: jax.Array | np.float32) -> jax.Array:
    return jax.lax.bitcast_convert_type(x, jnp.int32)


def _transform(
    blocks: jax.Array, matrix: np.ndarray, shifts: tuple[int, int]
) -> jax.Array:
    """Applies (matrix x + half) >> shift along axis 0, then along axis 1, int32."""

    def along_first(blocks: jax.Array, shift: Any) -> tuple[jax.Array, None]:
        # The axis moves behind the other one; two passes restore the order.
        terms = (blocks[i][:, None] * matrix[:, i, None] for i in range(8))
        return (sum(terms) + (1 << (shift - 1))) >> shift, None

    # A loop; otherwise XLA would fuse the passes and repeat the first for each term of
    # the second.
    return jax.lax.scan(along_first, blocks, np.array(shifts, np.int32))[0]


def _planes(blocks: jax.Array, shape: tuple[int, int, int]) -> jax.Array:
    """Returns planes [P, H, W], float32, of blocks [8, 8, N]."""
    count, height, width = shape
    blocks = blocks.reshape(8, 8, count, height // 8, width // 8)
    return blocks.transpose(2, 3, 0, 4, 1).reshape(shape).astype(jnp.float32)


def _upsample(chroma: jax.Array, height: int, width: int) -> jax.Array:
    """Interpolates chroma [2, H'', W''] to [2, height, width]."""
    rows = (height + 1) // 2
    smooth = is_smooth(width)
    right = upsampling(chroma.shape[2], width, smooth)
    wide = product(chroma[:, :rows], right, axes=((2,), (0,)))

    above = below = wide
    if smooth:
        above = jnp.concatenate([wide[:, :1], wide[:, :-1]], axis=1)
        below = jnp.concatenate([wide[:, 1:], wide[:, -1:]], axis=1)
    sums = jnp.stack([3 * wide + above, 3 * wide + below], axis=2)
    sums = sums.reshape(2, 2 * rows, width)[:, :height]
    bias = 8 - np.arange(width, dtype=np.float32) % 2
    return jnp.floor((sums + bias) * 2.0**-4)
