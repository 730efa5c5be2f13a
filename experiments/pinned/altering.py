"""The descriptions of alterations, and their effect on pixels."""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from every_alteration import every_alteration

import jaxrob
from jaxrob import alterations
from jaxrob.alterations import corruptions, presets
from pinned import world

_EVERY = [made for _, made in sorted(every_alteration().items())]
# Frost's pictures are not part of jaxrob.
_CORRUPTIONS = [name for name in corruptions.__all__ if name != "frost"]


def _said() -> Any:
    several = {
        "cnn_2020": presets.cnn_2020(),
        "asap_2022": presets.asap_2022(),
        "asap_2022 of idc": presets.asap_2022("idc"),
        "bnn_2024": presets.bnn_2024(),
        "own": _own(),
    }
    return {
        name: {f"{number} {one.name}": _says(one) for number, one in enumerate(some)}
        for name, some in several.items()
    }


def _fills_and_options() -> Any:
    image = jnp.float32(world.coloured()[1]) / 255
    names = "horizontal_translation", "vertical_translation", "rotation"
    some = {
        f"{name} {fill}": getattr(alterations, name)(-4.0, 4.0, fill)
        for name in names
        for fill in ("crop", "edge", "constant")
    }
    some |= {
        "noise not clipped": alterations.gaussian_noise(0.0, 0.2, clip=False),
        "motion along": alterations.motion_blur(0.0, 3.0, angle=0.0, unit="relative"),
        "smoother": alterations.elastic_deformation(0.0, 2.0, smoothness=2.0),
    }
    return {name: _altered(one, image) for name, one in some.items()}


def _corruptions() -> Any:
    found = {}
    image = jnp.float32(world.coloured(32)[0]) / 255
    for name in _CORRUPTIONS:
        one = getattr(corruptions, name)(32)
        found[name] = _says(one) | {"pixels": _altered(one, image)}
    return found


def _own() -> Iterable[jaxrob.Alteration]:
    zoom = alterations.zoom(1.0, 2.0)
    blur = alterations.gaussian_blur(0.0, 2.0)
    rescaled = alterations.rescale(world.NOISE, 0.0, 5.0)
    return (
        world.FADING,
        world.SPRINKLING,
        alterations.compose([blur, world.NOISE]),
        alterations.compose([zoom, world.FADING], 0.0, 2.0, "both"),
        alterations.rescale(zoom, 0.0, 1.0, "share"),
        alterations.rescale(alterations.jpeg_compression(), 0.0, 1.0),
        alterations.followed_by(blur, world.to_bytes),
        alterations.followed_by(rescaled, world.to_bytes),
    )


def _says(one: jaxrob.Alteration) -> dict[str, Any]:
    levels = np.linspace(one.lower, one.upper, 7)
    canonical, snapped = one.canonical(levels), one.snap(levels)
    return {"what": one, "canonical": canonical, "snapped": snapped}


def _all_altered(some: Iterable[jaxrob.Alteration], image: jax.Array) -> Any:
    return {one.name: _altered(one, image) for one in some}


def _altered(one: jaxrob.Alteration, image: jax.Array) -> list[Any]:
    ends = one.lower, one.upper
    levels = [one.identity, *(0.3 * one.identity + 0.7 * end for end in ends)]
    key = world.KEY if one.stochastic else None
    altered = jax.jit(lambda image, level: one(image, level, key))
    return [altered(image, jnp.float32(level)) for level in dict.fromkeys(levels)]


CASES = {
    "altering.said": _said,
    # Every alteration in grey and colour, between its ends and at the identity.
    "altering.pixels": lambda: {
        "grey": _all_altered(
            (one for one in _EVERY if one.name != "saturation"),
            jnp.asarray(world.GREY[0]),
        ),
        "coloured": _all_altered(_EVERY, jnp.float32(world.coloured()[0]) / 255),
    },
    "altering.fills_and_options": _fills_and_options,
    "altering.own_and_composed": lambda: _all_altered(
        _own(), jnp.asarray(world.GREY[0])
    ),
    "altering.corruptions": _corruptions,
    "altering.benchmark_of_224": lambda: {
        one.name: _says(one)
        for one in (getattr(corruptions, name)(224) for name in _CORRUPTIONS)
    },
}
