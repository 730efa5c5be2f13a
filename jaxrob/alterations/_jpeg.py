"""What a JPEG file does to an image, bit for bit.

Entropy coding loses nothing, so writing and reading a baseline JPEG file is integer
arithmetic alone: colour conversion, chroma subsampling, DCT, quantisation, and back.
The functions below do that arithmetic as libjpeg-turbo does (its "islow" DCT and
"fancy" chroma upsampling), which is what Pillow's ``Image.save(format="JPEG")`` uses
at its defaults: grey, or YCbCr with 4:2:0 chroma.

Each one-dimensional DCT pass of libjpeg is exactly ``(M x + 2^(n-1)) >> n`` for an
integer matrix M. Coefficients lie with the blocks innermost, so that a pass is eight
int32 products added up, which vectorise over all blocks at once.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxrob._runtime.pixels import unit_range


class JpegCoefficients(NamedTuple):
    """DCT coefficients of one image before quantisation, int32, 8 times their value.

    Attributes:
      luma: The grey or Y plane, `[8, 8, N]`: vertical frequency, horizontal frequency,
        and 8x8 block. The N blocks lie row by row; height and width are rounded up to
        multiples of 8.
      chroma: The blocks of the subsampled Cb and then of the Cr plane, `[8, 8, 2 N']`,
        or None for grey.
    """

    luma: jax.Array
    chroma: jax.Array | None


def jpeg_coefficients(image: jax.Array) -> JpegCoefficients:
    """Does the part of JPEG compression that comes before the quality matters.

    Args:
      image: `[H, W, C]` in [0, 1], C being 1 (grey) or 3 (RGB), H and W at least 1.
        Pixels are rounded to the nearest of 256 levels and clipped to the range.

    Returns:
      The coefficients, which `jpeg_decode` turns into pixels at any quality.

    Raises:
      ValueError: If `image` has another shape.

    Source: ITU-T T.81 (1992), annex A.3; libjpeg-turbo's jccolor.c, jcsample.c and
    jfdctint.c.
    """
    _check_shape("image", jnp.shape(image))
    height, width, channels = jnp.shape(image)
    levels = jnp.clip(jnp.round(jnp.asarray(image, jnp.float32) * 255), 0, 255)
    if channels == 1:
        luma, chroma = levels[None, :, :, 0], None
    else:
        colours = jnp.moveaxis(levels, 2, 0).astype(jnp.int32)
        planes = (_FROM_RGB[:, :, None, None] * colours).sum(1, dtype=jnp.int32)
        planes = (planes + _FROM_RGB_BIAS[:, None, None]) >> 16
        planes = planes.astype(jnp.float32)
        luma, chroma = planes[:1], _forward_dct(_downsample(planes[1:]))
    padding = ((0, 0), (0, -height % 8), (0, -width % 8))
    return JpegCoefficients(_forward_dct(jnp.pad(luma, padding, "edge")), chroma)


def jpeg_decode(
    coefficients: JpegCoefficients, quality: jax.Array | int, shape: tuple[int, ...]
) -> jax.Array:
    """Quantises coefficients at a quality and decodes them to pixels.

    Args:
      coefficients: What `jpeg_coefficients` returned.
      quality: Integer scalar, may be traced; values outside 1 to 100 count as the
        nearer end, as in libjpeg.
      shape: The static shape `(H, W, C)` of the image.

    Returns:
      The decoded image, float32 `[H, W, C]`, every pixel an integer divided by 255.

    Raises:
      ValueError: If `shape` isn't the shape of a grey or RGB image, or `coefficients`
        aren't those of such an image.

    Source: ITU-T T.81 (1992), annexes A.3.4 and K.1; libjpeg-turbo's jcparam.c,
    jcdctmgr.c, jidctint.c, jdsample.c and jdcolor.c.
    """
    _check_shape("shape", shape)
    height, width, channels = shape
    luma_shape = (1, height + -height % 8, width + -width % 8)
    stored = coefficients.luma.shape
    expected = (8, 8, math.prod(luma_shape) // 64)
    if stored != expected or (coefficients.chroma is None) != (channels == 1):
        kind = "grey" if coefficients.chroma is None else "RGB"
        raise ValueError(
            f"coefficients must be those of an image of shape {tuple(shape)}, "
            f"{expected[2]} blocks; got those of a {kind} image of {stored[2]} blocks"
        )
    luma = _decode_blocks(coefficients.luma, _LUMA_TABLE, quality)
    luma = _planes(luma, luma_shape)[0, :height]
    if coefficients.chroma is None:
        return unit_range(luma[:, :width, None])
    # Cropped by a product, or XLA would reorder the blocks once for each colour.
    luma = _product(luma, np.eye(luma_shape[2], width, dtype=np.float32), 1)
    chroma = _decode_blocks(coefficients.chroma, _CHROMA_TABLE, quality)
    chroma = _planes(chroma, (2, -(-height // 16) * 8, -(-width // 16) * 8))
    chroma = _upsample(chroma, height, width)[..., None] - 128
    shift = chroma[0] * _TO_RGB[0] + chroma[1] * _TO_RGB[1]
    pixels = luma[..., None] + jnp.floor((shift + 2.0**15) * 2.0**-16)
    return unit_range(jnp.clip(pixels, 0, 255))


def jpeg_round_trip(image: jax.Array, quality: jax.Array | int) -> jax.Array:
    """Returns what is left of an image after a JPEG file of the given quality.

    Equal, pixel for pixel, to Pillow's `save(format="JPEG", quality=quality)` at its
    defaults followed by decoding. Where one image is wanted at several qualities, put
    the `vmap` over qualities inside that over images, so that the forward DCT is done
    once per image.

    Args:
      image: `[H, W, C]` in [0, 1], C being 1 (grey) or 3 (RGB), H and W at least 1.
      quality: Integer scalar in 1 to 100, may be traced.

    Returns:
      The decoded image, float32 `[H, W, C]`, every pixel an integer divided by 255.

    Raises:
      ValueError: If `image` has another shape.
    """
    _check_shape("image", jnp.shape(image))
    return jpeg_decode(jpeg_coefficients(image), quality, jnp.shape(image))


def _check_shape(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 3 or shape[2] not in (1, 3) or min(shape) < 1:
        raise ValueError(
            f"{name} must be [height, width, channels] with 1 or 3 channels and at "
            f"least one pixel; got shape {tuple(shape)}"
        )


# The islow DCT's matrix, frequencies by samples, as orthonormal DCT x 2^14 sqrt(2).
# Entries that differ by one from each other's mirror are libjpeg's rounded constants,
# summed as its butterflies sum them.
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
_DCT = np.concatenate([_DCT_HALF, _PARITY * _DCT_HALF[:, ::-1]], axis=1)
_DCT = _DCT.astype(np.int32)

# Added to a number below 2^22, it leaves the nearest integer in the low bits.
_ROUNDING = np.float32(1.5 * 2**23)

# ITU-T T.81, tables K.1 and K.2.
_LUMA_TABLE = np.array(
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
_CHROMA_TABLE = np.full((8, 8), 99, np.int32)
_CHROMA_TABLE[:4, :4] = [
    [17, 18, 24, 47],
    [18, 21, 26, 66],
    [24, 26, 56, 99],
    [47, 66, 99, 99],
]

# Colour conversion in units of 2^-16: R, G, B to Y, Cb, Cr, and Cb, Cr to what they
# add to Y in R, G and B. The latter's sums stay below 2^24, so float32 is exact.
_FROM_RGB = np.array(
    [[19595, 38470, 7471], [-11059, -21709, 32768], [32768, -27439, -5329]], np.int32
)
_FROM_RGB_BIAS = np.array([2**15, 2**23 + 2**15 - 1, 2**23 + 2**15 - 1], np.int32)
_TO_RGB = np.array([[0, -22554, 116130], [91881, -46802, 0]], np.float32)


def _forward_dct(planes: jax.Array) -> jax.Array:
    """Transforms levels [P, H, W], H and W multiples of 8, to coefficients x 8."""
    count, height, width = planes.shape
    blocks = planes.astype(jnp.int32) - 128
    blocks = blocks.reshape(count, height // 8, 8, width // 8, 8)
    # Rows come first here, columns in the inverse.
    across = blocks.transpose(4, 2, 0, 1, 3).reshape(8, 8, -1)
    return _transform(across, _DCT, shifts=(11, 15)).swapaxes(0, 1)


def _decode_blocks(
    coefficients: jax.Array, table: np.ndarray, quality: jax.Array | int
) -> jax.Array:
    """Quantises coefficients [8, 8, N] and returns levels 0-255, int32 [8, 8, N]."""
    quality = jnp.clip(jnp.asarray(quality, jnp.int32), 1, 100)
    scale = jnp.where(quality < 50, 5000 // quality, 200 - 2 * quality)
    steps = jnp.clip((table * scale + 50) // 100, 1, 255)[:, :, None]

    # Halves round away from zero in libjpeg. A factor of 1 + 2^-16 lifts a half above
    # the tie without lifting anything else to it (|c| < 2^14, so neighbours differ by
    # more than 2^-14 of themselves), and the rest is one multiplication and rint, done
    # by an addition, since XLA's conversion to integers saturates, which costs time.
    inverse = (1 + 2.0**-16) / (8 * steps.astype(jnp.float32))
    rounded = coefficients.astype(jnp.float32) * inverse + _ROUNDING
    rounded = _bits(rounded) - _bits(_ROUNDING)
    levels = _transform(rounded * steps, _DCT.T, shifts=(11, 18)) + 128
    return jnp.clip(levels, 0, 255)


def _bits(x: jax.Array | np.float32) -> jax.Array:
    return jax.lax.bitcast_convert_type(x, jnp.int32)


def _transform(
    blocks: jax.Array, matrix: np.ndarray, shifts: tuple[int, int]
) -> jax.Array:
    """Applies (matrix x + half) >> shift along axis 0, then along axis 1, int32."""

    def along_first(blocks: jax.Array, shift: Any) -> tuple[jax.Array, None]:
        # The axis goes behind the other, and after two passes is back.
        terms = (blocks[i][:, None] * matrix[:, i, None] for i in range(8))
        return (sum(terms) + (1 << (shift - 1))) >> shift, None

    # A loop, or XLA would fuse the passes and redo the first for each of the second's
    # terms.
    return jax.lax.scan(along_first, blocks, np.array(shifts, np.int32))[0]


def _planes(blocks: jax.Array, shape: tuple[int, int, int]) -> jax.Array:
    """Planes [P, H, W], float32, of blocks [8, 8, N]."""
    count, height, width = shape
    blocks = blocks.reshape(8, 8, count, height // 8, width // 8)
    return blocks.transpose(2, 3, 0, 4, 1).reshape(shape).astype(jnp.float32)


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
    sums = _product(pairs, right, axes=((2,), (0,)))
    bias = 1 + np.arange(columns, dtype=np.float32) % 2
    means = jnp.floor((sums + bias) * 0.25)
    return jnp.pad(means, ((0, 0), (0, -rows % 8), (0, 0)), "edge")


def _upsample(chroma: jax.Array, height: int, width: int) -> jax.Array:
    """Interpolates chroma [2, H'', W''] to [2, height, width]."""
    rows = (height + 1) // 2
    # Each pixel is 3 parts its own sample and 1 part the next nearest along the axis;
    # libjpeg only replicates where the chroma is too narrow for that filter.
    smooth = width > 4
    index = np.arange(width)
    own = index // 2
    # Past the image's own samples (the block's padding doesn't count) the last repeats.
    other = np.clip(own + 2 * (index % 2) - 1, 0, (width - 1) // 2) if smooth else own
    right = np.zeros((chroma.shape[2], width), np.float32)
    np.add.at(right, (own, index), 3)
    np.add.at(right, (other, index), 1)
    wide = _product(chroma[:, :rows], right, axes=((2,), (0,)))

    above = below = wide
    if smooth:
        above = jnp.concatenate([wide[:, :1], wide[:, :-1]], axis=1)
        below = jnp.concatenate([wide[:, 1:], wide[:, -1:]], axis=1)
    sums = jnp.stack([3 * wide + above, 3 * wide + below], axis=2)
    sums = sums.reshape(2, 2 * rows, width)[:, :height]
    bias = 8 - np.arange(width, dtype=np.float32) % 2
    return jnp.floor((sums + bias) * 2.0**-4)


def _product(
    a: jax.Array, b: np.ndarray, axes: int | tuple[tuple[int, ...], tuple[int, ...]]
) -> jax.Array:
    # Anything less than full float32 (TF32, bf16) would round the integers.
    return jnp.tensordot(a, b, axes, precision=jax.lax.Precision.HIGHEST)
