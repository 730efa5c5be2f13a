"""The descriptions of alterations, and their effect on pixels."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from every_alteration import every_alteration

import jaxrob
from jaxrob import alterations
from pinned import world


def said() -> Any:
    """All presets' descriptions, and their representative levels."""
    presets = alterations.presets
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


def pixels() -> Any:
    """Every alteration in grey and colour, between its ends and at the identity."""
    every = [made for _, made in sorted(every_alteration().items())]
    grey, coloured = jnp.asarray(world.grey()[0]), jnp.float32(world.coloured()[0])
    return {
        kind: {one.name: _altered(one, image) for one in every if one.name not in but}
        for kind, image, but in (
            ("grey", grey, ["saturation"]),
            ("coloured", coloured / 255, []),
        )
    }


def fills_and_options() -> Any:
    """The effect of options on pixels."""
    image = jnp.float32(world.coloured()[1]) / 255
    some = {
        f"{function.__name__} {fill}": function(-4.0, 4.0, fill)
        for function in (
            alterations.horizontal_translation,
            alterations.vertical_translation,
            alterations.rotation,
        )
        for fill in ("crop", "edge", "constant")
    }
    some |= {
        "noise not clipped": alterations.gaussian_noise(0.0, 0.2, clip=False),
        "motion along": alterations.motion_blur(0.0, 3.0, angle=0.0, unit="relative"),
        "smoother": alterations.elastic_deformation(0.0, 2.0, smoothness=2.0),
    }
    return {name: _altered(one, image) for name, one in some.items()}


def own_and_composed() -> Any:
    """Pixels of alterations composed of others, and of a user's own."""
    image = jnp.asarray(world.grey()[0])
    return {one.name: _altered(one, image) for one in _own()}


def corruptions() -> Any:
    """The common corruptions: their descriptions and their effect."""
    found = {}
    image = jnp.float32(world.coloured(32)[0]) / 255
    for name in alterations.corruptions.__all__:
        # Its pictures are not part of jaxrob.
        if name != "frost":
            one = getattr(alterations.corruptions, name)(32)
            found[name] = _says(one) | {"pixels": _altered(one, image)}
    return found


def benchmark_of_224() -> Any:
    """The descriptions of the benchmark's corruptions of large pictures."""
    some = [
        getattr(alterations.corruptions, name)(224)
        for name in alterations.corruptions.__all__
        if name != "frost"
    ]
    return {one.name: _says(one) for one in some}


def _own() -> Sequence[jaxrob.Alteration]:
    blur, zoom = alterations.gaussian_blur(0.0, 2.0), alterations.zoom(1.0, 2.0)
    noise = world.noise()
    return (
        world.fading(),
        world.sprinkling(),
        alterations.compose([blur, noise]),
        alterations.compose([zoom, world.fading()], 0.0, 2.0, "both"),
        alterations.rescale(zoom, 0.0, 1.0, "share"),
        alterations.rescale(alterations.jpeg_compression(), 0.0, 1.0),
        alterations.followed_by(blur, world.to_bytes),
        alterations.followed_by(alterations.rescale(noise, 0.0, 5.0), world.to_bytes),
    )


def _says(one: jaxrob.Alteration) -> dict[str, Any]:
    levels = np.linspace(one.lower, one.upper, 7)
    return {
        "what": one,
        "canonical": one.canonical(levels),
        "snapped": one.snap(levels),
    }


def _altered(one: jaxrob.Alteration, image: jax.Array) -> list[Any]:
    ends = one.lower, one.upper
    levels = [one.identity, *(0.3 * one.identity + 0.7 * end for end in ends)]
    key = world.KEY if one.stochastic else None
    altered = jax.jit(lambda image, level: one(image, level, key))
    return [altered(image, jnp.float32(level)) for level in dict.fromkeys(levels)]
