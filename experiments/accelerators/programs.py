"""The networks whose steps are compiled, and these steps; arguments are shapes.

The library's steps come from `jaxrob.steps`; nothing is run here, and there are no
weights.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from common import classifiers
from every_alteration import every_alteration
from flax import linen as nn
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrob
from jaxrob import alterations, steps
from jaxrob.alterations import Alteration


class ResNet50(nn.Module):
    """ResNet-50 of He, Zhang, Ren and Sun, 2016, table 1; strides in the 3x3 layers."""

    num_classes: int = 1000
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Logits `[B, K]` of images `[B, H, W, C]`."""
        types = {"dtype": self.dtype, "param_dtype": self.dtype}

        def normalised(y: jax.Array, width: int, size: int, stride: int) -> jax.Array:
            sizes = width, (size, size), stride, "SAME"
            y = nn.Conv(*sizes, use_bias=False, **types)(y)
            return nn.BatchNorm(use_running_average=not train, **types)(y)

        x = nn.relu(normalised(x, 64, 7, 2))
        x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
        for stage, blocks in enumerate((3, 4, 6, 3)):
            width = 64 * 2**stage
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                y = nn.relu(normalised(x, width, 1, 1))
                y = nn.relu(normalised(y, width, 3, stride))
                y = normalised(y, 4 * width, 1, 1)
                if not block:
                    x = normalised(x, 4 * width, 1, stride)
                x = nn.relu(x + y)
        return nn.Dense(self.num_classes, **types)(x.mean(axis=(1, 2)))


class ViTB16(nn.Module):
    """ViT-B/16 of Dosovitskiy et al., 2021, table 1: 12 layers, patches of 16 px."""

    num_classes: int = 1000
    dtype: Any = jnp.float32

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Logits `[B, K]` of images `[B, H, W, C]`, H and W multiples of 16."""
        del train
        types = {"dtype": self.dtype, "param_dtype": self.dtype}
        x = nn.Conv(768, (16, 16), 16, **types)(x).reshape(len(x), -1, 768)
        first = self.param("class", nn.initializers.zeros, (1, 1, 768), self.dtype)
        x = jnp.concatenate([jnp.tile(first, (len(x), 1, 1)), x], axis=1)
        x = x + self.param(
            "position", nn.initializers.normal(0.02), x.shape[1:], self.dtype
        )
        for _ in range(12):
            y = nn.LayerNorm(**types)(x)
            x = x + nn.MultiHeadDotProductAttention(num_heads=12, **types)(y)
            y = nn.Dense(3072, **types)(nn.LayerNorm(**types)(x))
            x = x + nn.Dense(768, **types)(nn.gelu(y, approximate=False))
        x = nn.LayerNorm(**types)(x[:, 0])
        return nn.Dense(self.num_classes, **types)(x)


class Mean(nn.Module):
    """The mean colour and a dense layer: the least that takes a picture whole."""

    num_classes: int = 10

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Logits `[B, K]` of images `[B, H, W, C]`."""
        # Written first, as for a convolution: fused into the mean, JPEG took an H100
        # 17.7 ms for 16,000 pictures of 50 px, and 0.9 in a step of the IDC CNN.
        x = jax.lax.optimization_barrier(x)
        return nn.Dense(self.num_classes)(x.mean(axis=(1, 2)))


class Network(NamedTuple):
    """A network and the size of a step."""

    make: Callable[[int], nn.Module]  # `make(num_classes)`, the module
    image_shape: tuple[int, int, int]
    num_classes: int
    num_images: int
    num_levels: int
    outputs: str = "logits"  # what the module returns

    @property
    def rows(self) -> int:
        """The images that a step classifies."""
        return self.num_images * self.num_levels

    @property
    def size(self) -> str:
        """The size of a step, in words."""
        shape = "x".join(map(str, self.image_shape))
        return f"{shape}, {self.num_images} x {self.num_levels}"

    def alone(self) -> "Network":
        """The least network that takes the pictures of this one, as many of them."""
        return self._replace(make=Mean, num_classes=10, outputs="logits")

    def module(self) -> nn.Module:
        """The module."""
        return self.make(self.num_classes)

    def variables(self) -> Any:
        """The shapes of its variables."""
        image = jax.ShapeDtypeStruct((1, *self.image_shape), jnp.float32)
        key = jax.eval_shape(lambda: jax.random.key(0))
        return jax.eval_shape(self.module().init, key, image)

    def classifier(self, variables: Any) -> jaxrob.Classifier:
        """The classifier of variables, or of their shapes."""
        return jaxrob.Classifier.from_linen(self.module(), variables, self.outputs)


def _known(name: str) -> Callable[[int], nn.Module]:
    return lambda num_classes: classifiers.module(name, num_classes)


NETWORKS = {
    "mlp": Network(_known("mlp"), (28, 28, 1), 10, 1000, 16),
    "mnist_cnn": Network(_known("mnist_cnn"), (28, 28, 1), 10, 1000, 16),
    "idc_cnn": Network(_known("idc_cnn"), (50, 50, 3), 2, 1000, 16, "sigmoid"),
    "resnet": Network(_known("resnet"), (32, 32, 3), 10, 1000, 16),
    "vgg16": Network(_known("vgg16"), (32, 32, 3), 10, 250, 16),
    "resnet50": Network(ResNet50, (224, 224, 3), 1000, 32, 4),
    "vit_b16": Network(ViTB16, (224, 224, 3), 1000, 32, 4),
}


def _array(
    shape: tuple[int, ...], dtype: Any, mesh: Mesh, split: bool = False
) -> jax.ShapeDtypeStruct:
    """An array, replicated on the devices or sharded along its first axis."""
    sharding = NamedSharding(mesh, P(mesh.axis_names) if split else P())
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


class Program(NamedTuple):
    """A program to be compiled."""

    name: str  # what it does
    # Returns the program, traced for the devices that its arguments lie on.
    lower: Callable[[], jax.stages.Lowered]
    # Its arguments: pytrees of shapes, or of NumPy arrays where values matter.
    args: tuple[Any, ...]
    passes: int  # images that the network classifies in it
    # How often a loop turns whose number of iterations is known only at run time.
    turns: int = 1


def _of_function(name: str, function: Any, *args: Any, passes: int = 0) -> Program:
    return Program(name, functools.partial(function.lower, *args), args, passes)


def alterations_by_name() -> dict[str, Alteration]:
    """The papers' alterations by their names, with _ for spaces."""
    found = alterations.presets.cnn_2020()
    return {one.name.replace(" ", "_"): one for one in found}


def further_alterations() -> dict[str, Alteration]:
    """The others, with the common corruptions as "corruptions_fog" and so on."""
    known = alterations_by_name()
    every = every_alteration()
    found = {name: every[name] for name in every if name not in known}
    for name in alterations.corruptions.__all__:
        with contextlib.suppress(FileNotFoundError, ImportError):
            found[f"corruptions_{name}"] = getattr(alterations.corruptions, name)()
    return found


def forward(network: Network, rows: int, mesh: Mesh) -> Program:
    classifier = network.classifier(
        jax.tree.map(
            lambda leaf: _array(leaf.shape, leaf.dtype, mesh), network.variables()
        )
    )
    images = _array((rows, *network.image_shape), jnp.float32, mesh, split=True)
    given = jax.jit(classifier.apply_fn), classifier.variables, images
    return _of_function("forward", *given, passes=rows)


def _evaluation(
    network: Network,
    alteration: Alteration,
    mesh: Mesh,
    classifier: jaxrob.Classifier | None = None,
) -> steps.Evaluation:
    return steps.evaluation(
        classifier or network.classifier(network.variables()),
        network.image_shape,
        alteration,
        num_images=network.num_images,
        num_levels=network.num_levels,
        mesh=mesh,
    )


def preparation(network: Network, alteration: Alteration, mesh: Mesh) -> Program:
    """What `evaluate` does once with a block of images, whatever the levels."""
    found = _evaluation(network, alteration, mesh).preparation
    return Program(f"prepare {alteration.name}", found.lower, found.args, found.passes)


def step(
    network: Network,
    alteration: Alteration,
    mesh: Mesh,
    classifier: jaxrob.Classifier | None = None,
) -> Program:
    """What `evaluate` does with a block of images at a few levels."""
    found = _evaluation(network, alteration, mesh, classifier).step
    # Sequential levels: the loop's bound is an argument.
    about = found.args, found.passes, network.num_levels
    return Program(alteration.name, found.lower, *about)


def rows_at_once(network: Network, mesh: Mesh) -> int:
    """Images that `evaluate` classifies at once; on a TPU, those of one level."""
    return _evaluation(network, alterations.brightness(), mesh).step.rows


def usual_rows(network: Network, mesh: Mesh) -> int:
    """Images that `evaluate` classifies at once if there are many."""
    classifier = network.classifier(network.variables())
    dim = alterations.brightness()
    return steps.evaluation(classifier, network.image_shape, dim, mesh=mesh).step.rows


def read_and_write(network: Network, mesh: Mesh) -> Program:
    """Reads each image once and writes it once for each level."""

    @jax.jit
    def copied(images: jax.Array, levels: jax.Array) -> jax.Array:
        return jax.vmap(lambda level: images + level)(levels)

    shape = (network.num_images, *network.image_shape)
    images = _array(shape, jnp.float32, mesh, split=True)
    levels = _array((network.num_levels,), jnp.float32, mesh)
    return _of_function("read and write once", copied, images, levels)
