"""Cases of the alterations."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import jaxrob
from checks import world
from checks.cases import Argument as A
from checks.cases import Case, case
from checks.hostile import (
    ANY_TEXT,
    CALLABLE,
    FLAG,
    NUMBER,
    OR_NONE,
    POSITIVE,
    SHARE,
    SHARES,
    TEXT,
)
from jaxrob import alterations

ANY_SHAPE = SHARES | NUMBER | {"array of rank 5", "array of -1", "array of 300"}


def of_alterations() -> list[Case]:
    zero, above = frozenset({"0"}), POSITIVE
    below = frozenset({"-1", "-0.5", "0"})
    fills: dict[str, Any] = {"fill": "edge"}
    moved = {
        "lower": A(-2.0, below),
        "upper": A(2.0, above | zero),
        **fills,
        "unit": "px",
    }
    ranges: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "brightness": (
            alterations.brightness,
            {"lower": A(-0.5, below), "upper": A(0.5, above | zero)},
        ),
        "gaussian_blur": (
            alterations.gaussian_blur,
            {"lower": A(0.0, zero), "upper": A(2.0, above)},
        ),
        "gaussian_noise": (
            alterations.gaussian_noise,
            {"lower": A(0.0, zero), "upper": A(0.1, above), "clip": A(True, FLAG)},
        ),
        "jpeg_compression": (
            alterations.jpeg_compression,
            {"lower": A(0.0, zero), "upper": A(100.0, above)},
        ),
        "rotation": (
            alterations.rotation,
            {"lower": A(-9.0, below), "upper": A(9.0, above | zero), **fills},
        ),
        "horizontal_translation": (alterations.horizontal_translation, moved),
        "vertical_translation": (alterations.vertical_translation, moved),
        "zoom": (alterations.zoom, {"lower": A(1.0), "upper": A(2.0, above)}),
        "pixelation": (
            alterations.pixelation,
            {"lower": A(1.0), "upper": A(2.0, above)},
        ),
        "motion_blur": (
            alterations.motion_blur,
            {
                "lower": A(0.0, zero),
                "upper": A(2.0, above),
                "angle": A(45.0, above | zero),
                "unit": "px",
            },
        ),
        "defocus_blur": (
            alterations.defocus_blur,
            {"lower": A(0.0, zero), "upper": A(2.0, above), "unit": "px"},
        ),
        "elastic_deformation": (
            alterations.elastic_deformation,
            {
                "lower": A(0.0, zero),
                "upper": A(2.0, above),
                "smoothness": A(4.0, above),
                "unit": "px",
            },
        ),
    }
    for name in ("shot_noise", "impulse_noise", "speckle_noise"):
        ends = {"lower": A(0.0, zero), "upper": A(0.3, above)}
        ranges[name] = getattr(alterations, name), ends
    for name in ("contrast", "saturation"):
        ends = {"lower": A(0.5, zero | {"array 0.5"}), "upper": A(1.5, above)}
        ranges[name] = getattr(alterations, name), ends
    found = [
        case(f"alterations.{name}", function, **arguments)
        for name, (function, arguments) in ranges.items()
    ]
    for alteration in (world.blur(), alterations.gaussian_noise()):
        key = A(world.KEY, frozenset() if alteration.stochastic else OR_NONE)
        level = alteration.upper
        found.append(
            case(
                alteration.name,
                alteration,
                image=world.images()[0],
                level=A(level, SHARE),
                key=key,
            )
        )
    some = frozenset({"array 0.5", "0", "empty array", "empty list"})
    return [
        *found,
        *_of_own_alterations(),
        case("blur.canonical", world.blur().canonical, levels=A([0, 0.5], SHARES)),
        case("blur.snap", world.blur().snap, levels=A([0, 0.5], some | ANY_SHAPE)),
        case(
            "alterations.presets.asap_2022",
            alterations.presets.asap_2022,
            benchmark="idc",
        ),
        *_of_benchmarks(),
    ]


def _fade(image: jax.Array, level: jax.Array) -> jax.Array:
    return (1 - level) * image


def _of_moves() -> list[Case]:
    zoom = alterations.zoom()
    mask = np.arange(20).reshape(4, 5)
    any_mask = frozenset({"array of NaN"})
    boxes = np.array([[0.0, 1.0, 2.0, 3.0]])
    return [
        case(
            "alterations.move_mask",
            alterations.move_mask,
            alteration=zoom,
            mask=A(mask, any_mask),
            level=A(1.5, POSITIVE),
        ),
        case(
            "alterations.move_boxes",
            alterations.move_boxes,
            alteration=zoom,
            boxes=boxes,
            level=A(1.5, POSITIVE),
            size=(4, 5),
        ),
        case(
            "alterations.unmoved_reason",
            alterations.unmoved_reason,
            alteration=zoom,
        ),
    ]


def _of_benchmarks() -> list[Case]:
    flags = {"published": A(False, FLAG), "validation": A(False, FLAG)}
    return [
        case("corruptions.fog", alterations.corruptions.fog, size=A(64, OR_NONE)),
        case(
            "presets.imagenet_c",
            alterations.presets.imagenet_c,
            size=A(64, OR_NONE),
            **flags,
        ),
        case("presets.cifar_c", alterations.presets.cifar_c, **flags),
        case(
            "alterations.followed_by",
            alterations.followed_by,
            corruption=world.blur(),
            fixed=A(_half, CALLABLE),
            name=A("half", TEXT | OR_NONE),
        ),
    ]


def _half(image: jax.Array) -> jax.Array:
    return image / 2


def _of_own_alterations() -> list[Case]:
    ends = {"lower": A(0.0, NUMBER), "upper": A(1.0, POSITIVE | {"0"})}
    return [
        case(
            "Alteration",
            jaxrob.Alteration,
            name=A("fading", TEXT),
            fn=A(_fade, CALLABLE),
            lower=A(0.0, NUMBER),
            upper=A(1.0, POSITIVE),
            identity=A(0.0, SHARE | OR_NONE),
            unit=A("", ANY_TEXT),
            stochastic=A(False, FLAG),
            resolution=A(None, POSITIVE | OR_NONE),
            prepare=A(None, CALLABLE | OR_NONE),
            representative=A(None, CALLABLE | OR_NONE),
            about=alterations.About(),
            geometry=A(None, CALLABLE | OR_NONE),
            moves_pixels=A(False, FLAG),
        ),
        *_of_moves(),
        case(
            "alterations.About",
            alterations.About,
            level=A("", ANY_TEXT),
            parameters={"fill": "edge"},
            words={"fill": "of the border"},
            default_range=A(None, CALLABLE | OR_NONE),
            range_from=A("", ANY_TEXT),
            doubt=A(None, CALLABLE | OR_NONE),
            size_matters=A(False, FLAG),
            leaves_range=A(False, FLAG),
            jump=A("", ANY_TEXT),
            members=(),
        ),
        case(
            "alterations.rescale",
            alterations.rescale,
            alteration=world.blur(),
            **ends,
            unit=A("", ANY_TEXT),
        ),
        case(
            "alterations.compose",
            alterations.compose,
            alterations=[world.blur(), alterations.zoom()],
            **ends,
            name=A("both", TEXT | OR_NONE),
        ),
    ]
