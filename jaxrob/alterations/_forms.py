"""The form that a part of an alteration takes on each platform, and the reason.

Accelerators differ: a TPU multiplies matrices fast and is slow at gathers, a GPU
gathers fast and is slow at large float32 products. So some parts of the alterations
have more than one form. All forms of a part give the same result up to rounding. The
platform for which a program is compiled selects the form, never the default backend.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax

Platform = Literal["cpu", "gpu", "tpu"]


class Form(NamedTuple):
    """A row of the table."""

    part: str  # the part of an alteration
    platform: Platform  # where the form is used
    # the image's longer side up to which it is used, in pixels; a larger image takes
    # the next row of the part and platform
    largest: float
    name: str  # the form's name, a key of `forms` in `by_platform`
    figure: str  # the measurement or estimate that decides, and its subject


FORMS: tuple[Form, ...] = (
    # v5e: its compiler's estimate of forward pass / step; "bytes" ranks gathers alone.
    # H100: measured, 1,000 x 16 pictures of 50x50x3 or 32 x 4 of 224 ("alter").
    Form("grid", "cpu", 32, "products", "0.02 of a small CNN's forward pass less"),
    Form("grid", "cpu", math.inf, "gathers", "a fifth faster than products at 50 px"),
    Form("grid", "gpu", math.inf, "gathers", "H100, 50 px: 579 us; products 2,498"),
    Form("grid", "tpu", math.inf, "products", "v5e, 50 px: 1.29; gathers, bytes: 0.51"),
    Form("bilinear", "cpu", math.inf, "table", "an MLP's step takes half of the time"),
    Form("bilinear", "gpu", math.inf, "at once", "H100, 50 px: 828 us; table 1,179"),
    Form("bilinear", "tpu", 34, "product", "v5e, 32 px: 1.07; gathers, bytes: 0.90"),
    Form("bilinear", "tpu", 128, "planes", "v5e, 50 px, bytes: 0.61; channels 0.53"),
    Form(
        "bilinear", "tpu", math.inf, "channels", "v5e, 224 px, bytes: 0.92; planes 0.70"
    ),
    Form("rotation", "cpu", math.inf, "pixels", "others were not tried"),
    Form("rotation", "gpu", math.inf, "pixels", "others were not tried"),
    # Of up to 34 px a v5p takes all levels at once, whose windows would be gathers.
    Form("rotation", "tpu", 34, "pixels", "tiles only 2 % faster for VGG16 at 32 px"),
    Form("rotation", "tpu", 64, "tiles", "v5e, 50 px: 1.05; pixels 0.50"),
    Form("rotation", "tpu", math.inf, "pixels", "tiles were not tried"),
    Form("blur", "cpu", 32, "plane by plane", "50 px: 0.88; planes 0.81"),
    Form("blur", "cpu", math.inf, "shifts", "224 px: 1.6 ms; plane by plane 7.4"),
    Form("blur", "gpu", 64, "planes", "H100, 50 px: 2,299 us; blocks 2,839"),
    Form("blur", "gpu", math.inf, "blocks", "H100, 224 px: 474 us; planes 949"),
    Form("blur", "tpu", math.inf, "planes", "v5e: 1.11 to 2.8, nothing to gain"),
    Form("shifts", "cpu", math.inf, "loop", "no other was tried"),
    Form("shifts", "gpu", math.inf, "slices", "32 px, est.: adds 35 %; loop 79 %"),
    Form("shifts", "tpu", math.inf, "bands", "v5e, 32 px: 0.64; slices 0.10"),
    Form("own shifts", "cpu", math.inf, "loop", "no other was tried"),
    Form("own shifts", "gpu", math.inf, "loop", "32 px, est.: adds 27 %"),
    Form("own shifts", "tpu", math.inf, "steps", "v5e, 32 px: 0.06; loop 0.001"),
    Form("jpeg", "cpu", math.inf, "loops", "butterflies take 5 to 10 times as long"),
    Form("jpeg", "gpu", math.inf, "fused", "224 px, est.: 177 us; loops 1,012"),
    Form("jpeg", "tpu", math.inf, "products", "v5e, MNIST CNN: 2.66; loops 0.51"),
)


def by_platform(
    part: str,
    size: int,
    forms: Mapping[str, Callable[..., Any]],
    *operands: Any,
    **static: Any,
) -> Any:
    names = [form_for(part, platform, size) for platform in ("cpu", "gpu", "tpu")]
    # One function a form, as platforms of the same function share its program.
    bound = {name: functools.partial(forms[name], **static) for name in names}
    cpu, gpu, tpu = (bound[name] for name in names)
    # The others need no trace in a step for a mesh of CPUs.
    mesh = getattr(jax.sharding.get_abstract_mesh(), "abstract_device", None)
    if cpu is gpu is tpu or getattr(mesh, "platform", None) == "cpu":
        return cpu(*operands)
    return jax.lax.platform_dependent(
        *operands, cuda=gpu, rocm=gpu, tpu=tpu, default=cpu
    )


def form_for(part: str, platform: Platform, size: int) -> str:
    rows = (row for row in FORMS if (row.part, row.platform) == (part, platform))
    return next(row.name for row in rows if size <= row.largest)
