"""Cases of what trains, and of what reads files: training, retraining, bayes, data."""

import functools
import pathlib
import struct
import tarfile
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

import jaxrob
from checks import world
from checks.cases import Argument as A
from checks.cases import Case, case
from checks.hostile import (
    ANYTHING,
    CALLABLE,
    COUNT,
    EMPTY,
    FLAG,
    NAMES,
    OR_NONE,
    PATH,
    POSITIVE,
    SHARE,
    TEXT,
)
from checks.of_frameworks import preprocessing
from jaxrob import bayes, data, networks, retraining, training

_CIFAR = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship",
    "truck",
)  # fmt: skip


class Dropping(linen.Module):
    """A small network with dropout."""

    @linen.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Logits."""
        x = x.reshape(x.shape[0], -1)
        return linen.Dense(3)(linen.Dropout(0.5, deterministic=not train)(x))


def of_training(folder: pathlib.Path) -> list[Case]:
    """All cases of these packages; the folder is for files that they read."""
    return [
        *_of_training(folder),
        *_of_retraining(),
        *_of_inference(),
        *_of_bayes(folder),
        *_of_data(folder),
        *_of_networks(folder),
    ]


def _module() -> linen.Module:
    return networks.MLP((4,), world.CLASSES)


@functools.cache
def _variables() -> Any:
    return _module().init(world.KEY, jnp.zeros((1, 8, 8, 1)))


@functools.cache
def _posterior() -> bayes.Posterior:
    return bayes.svi(_module(), world.dataset(), key=world.KEY, epochs=1, batch_size=4)


def _trained() -> dict[str, Any]:
    return {"module": _module(), "dataset": world.dataset(), "key": world.KEY}


def _settings(folder: pathlib.Path | None = None) -> dict[str, Any]:
    settings = {
        "epochs": A(1, COUNT | OR_NONE),
        "batch_size": A(4, COUNT),
        "optimizer": A(None, OR_NONE),
        "outputs": "logits",
        "on_epoch": A(None, CALLABLE | OR_NONE),
        "mesh": A(None, OR_NONE),
        "progress": A(False, FLAG),
    }
    if folder is not None:
        settings["checkpoint"] = A(None, PATH | OR_NONE)
        settings["checkpoint_every"] = A(None, COUNT | OR_NONE)
        settings["batches"] = A(None, OR_NONE)
        settings["images_seen"] = A(None, OR_NONE)
    return settings


def _of_training(folder: pathlib.Path) -> list[Case]:
    return [case("training.fit", training.fit, **_trained(), **_settings(folder))]


def _of_retraining() -> list[Case]:
    several = {"alterations": [world.blur()]}
    known = {
        "threshold": A(0.8, SHARE),
        "classifier": A(world.classifier(), OR_NONE),
        "validation": A(world.dataset(), OR_NONE),
        "robustness": A([0.5], OR_NONE),
    }
    some = {name: value for name, value in _settings().items() if name != "outputs"}
    first = world.classifier()
    return [
        case(
            "retraining.data_augmentation",
            retraining.data_augmentation,
            **_trained(),
            **several,
            levels="grid",
            **some,
        ),
        *(
            case(
                f"retraining.{name}",
                getattr(retraining, name),
                **_trained(),
                **several,
                **known,
                levels="random",
                **some,
            )
            for name in (
                "limited_data_augmentation",
                "limited_network_parallelization",
            )
        ),
        case(
            "retraining.network_parallelization",
            retraining.network_parallelization,
            **_trained(),
            **several,
            classifier=A(first, OR_NONE),
            levels="random",
            **some,
        ),
        case(
            "retraining.worst_level",
            retraining.worst_level,
            **_trained(),
            **several,
            candidates=A(2, COUNT),
            **some,
        ),
        case("retraining.parallel", retraining.parallel, first=first, second=first),
        case("retraining.copies", retraining.copies, alteration=world.blur()),
        case(
            "retraining.input_sizes",
            retraining.input_sizes,
            num_images=A(100, COUNT),
            alterations=A([world.blur()], EMPTY),
            weak=A([world.blur()], EMPTY),
        ),
        case(
            "retraining.weak_alterations",
            retraining.weak_alterations,
            classifier=first,
            dataset=world.dataset(),
            **several,
            # The blur draws nothing.
            key=A(world.KEY, OR_NONE),
            threshold=A(0.8, SHARE),
            levels=A(3, COUNT),
            mesh=A(None, OR_NONE),
        ),
    ]


def _of_inference() -> list[Case]:
    prior = {
        "head": "plain",
        "noise_draws": A(2, COUNT),
        "prior_scale": A(1.0, POSITIVE),
        "mesh": A(None, OR_NONE),
        "progress": A(False, FLAG),
    }
    fast = {
        "guide": "mean_field",
        "epochs": A(1, COUNT),
        "batch_size": A(4, COUNT),
        "optimizer": A(None, OR_NONE),
    }
    return [
        case(
            "bayes.svi",
            bayes.svi,
            **_trained(),
            **prior,
            **fast,
            num_particles=A(1, COUNT),
        ),
        case(
            "bayes.nuts",
            bayes.nuts,
            **_trained(),
            **prior,
            num_warmup=A(1, COUNT),
            num_draws=A(2, COUNT),
        ),
        case(
            "bayes.fit",
            bayes.fit,
            **_trained(),
            num_samples=A(2, COUNT),
            inference="svi",
            **fast,
        ),
    ]


def _of_bayes(folder: pathlib.Path) -> list[Case]:
    path = folder / "posterior.npz"
    bayes.save(path, _posterior())
    dropping = Dropping()
    variables = dropping.init(world.KEY, jnp.zeros((1, 8, 8, 1)))
    trees = frozenset({"empty dict"})
    return [
        case(
            "bayes.classifier",
            bayes.classifier,
            posterior=_posterior(),
            num_samples=A(2, COUNT),
            key=world.KEY,
        ),
        case(
            "bayes.mc_dropout",
            bayes.mc_dropout,
            module=dropping,
            variables=A(variables, trees),
            num_samples=A(2, COUNT),
            outputs="logits",
        ),
        case(
            "bayes.ensemble",
            bayes.ensemble,
            # A function of variables and images will do.
            module=A(_module(), CALLABLE),
            members=[_variables(), _variables()],
            outputs="logits",
        ),
        case(
            "bayes.save",
            bayes.save,
            path=A(folder / "other.npz", PATH - {"missing path"}),
            value=_posterior(),
        ),
        case("bayes.load", bayes.load, path=path, module=_module()),
        case(
            "Classifier.from_nnx",
            jaxrob.Classifier.from_nnx,
            module=nnx.Linear(4, 3, rngs=nnx.Rngs(0)),
            outputs="logits",
            **preprocessing(),
        ),
        case(
            "Classifier.from_linen",
            jaxrob.Classifier.from_linen,
            module=_module(),
            variables=A(_variables(), trees),
            outputs="logits",
            # A further argument of the module's call: whatever can be compared.
            train=A(False, ANYTHING),
        ),
    ]


def _of_data(folder: pathlib.Path) -> list[Case]:
    from PIL import Image

    for split in ("test", "train"):
        for kind, side in (("a", 8), ("b", 8)):
            (folder / split / kind).mkdir(parents=True)
            Image.new("RGB", (side, side)).save(folder / split / kind / "1.png")
    (folder / "idc").mkdir()
    Image.new("RGB", (50, 50)).save(folder / "idc" / "1_class0.png")
    (folder / "1.cls").write_text("0")
    with tarfile.open(folder / "shard.tar", "w") as shard:
        shard.add(folder / "1.cls", "1.cls")
        shard.add(folder / "test" / "a" / "1.png", "1.png")
    for name, shape in (("images-idx3", (2, 28, 28)), ("labels-idx1", (2,))):
        header = bytes((0, 0, 8, len(shape)))
        header += b"".join(length.to_bytes(4, "big") for length in shape)
        contents = header + bytes(int(np.prod(shape)))
        (folder / f"t10k-{name}-ubyte").write_bytes(contents)
    # A volume of 4 x 4 x 2 values of 16 bits, shown from 0 to 9 (NIfTI-1).
    header = bytearray(352)
    header[:4] = struct.pack("<l", 348)
    header[40:56] = struct.pack("<8h", 3, 4, 4, 2, 1, 1, 1, 1)
    header[70:74] = struct.pack("<hh", 4, 16)
    header[108:112] = struct.pack("<f", 352)
    header[124:132] = struct.pack("<ff", 9, 0)
    header[344:348] = b"n+1\0"
    (folder / "volume.nii").write_bytes(header + bytes(64))
    for name in _CIFAR:
        (folder / "cifar" / "test" / name).mkdir(parents=True)
        Image.new("RGB", (32, 32)).save(folder / "cifar" / "test" / name / "1.png")
    np.savez(folder / "digits.npz", images=world.images(), labels=world.labels())
    split, names = {"split": "test"}, A(("a", "b"), NAMES | PATH | OR_NONE)
    return [
        case(
            "data.load",
            data.load,
            name="digits",
            **split,
            # The digits need no folder.
            data_dir=A(None, PATH | OR_NONE),
        ),
        case("data.digits", data.digits, **split, size=A(8, COUNT)),
        case("data.mnist", data.mnist, directory=folder, **split),
        case("data.cifar10", data.cifar10, directory=folder / "cifar", **split),
        case("data.idc_patches", data.idc_patches, directory=folder / "idc"),
        case(
            "data.image_folder",
            data.image_folder,
            path=folder / "test",
            size=A((4, 4), OR_NONE),
            grey=A(False, FLAG),
            resize=A(None, OR_NONE),
            crop=A(4, COUNT | OR_NONE),
            interpolation="bicubic",
            labels=A("folders", PATH | OR_NONE),
            class_names=names,
            orientation="exif",
            max_bytes=A(1000, COUNT),
            background=A("white", OR_NONE),
            value_range=A(None, OR_NONE),
            slice_at=A(None, OR_NONE),
        ),
        case(
            "data.tar_shards",
            data.tar_shards,
            shards=folder / "shard.tar",
            size=A((4, 4), OR_NONE),
            grey=A(False, FLAG),
            resize=A(None, OR_NONE),
            crop=A(4, COUNT | OR_NONE),
            interpolation="bicubic",
            labels=A("cls", OR_NONE),
            class_names=names,
            orientation="exif",
            max_bytes=A(1000, COUNT),
            background=A("white", OR_NONE),
            value_range=A(None, OR_NONE),
            slice_at=A(None, OR_NONE),
        ),
        case(
            "data.slices",
            data.slices,
            path=folder / "volume.nii",
            axis=A(2, OR_NONE),
            indices=A((0, 1), OR_NONE),
            labels=A((0, 1), OR_NONE),
            size=A((4, 4), OR_NONE),
            grey=A(False, FLAG),
            value_range=A(None, OR_NONE),
        ),
        case(
            "data.npz",
            data.npz,
            path=folder / "digits.npz",
            images=A("images", TEXT),
            labels=A("labels", TEXT | OR_NONE),
            class_names=A(("a", "b", "c"), NAMES | PATH | OR_NONE),
        ),
    ]


def _of_networks(folder: pathlib.Path) -> list[Case]:
    weights = folder / "weights.npz"
    arrays: dict[str, Any] = _idc_arrays()
    np.savez(weights, **arrays)
    small = ("MnistCNN", "VGG16")
    return [
        *(
            case(f"networks.{name}", getattr(networks, name), num_classes=A(3, COUNT))
            for name in small
        ),
        case(
            "networks.MLP",
            networks.MLP,
            features=A((4,), EMPTY),
            num_classes=A(3, COUNT),
        ),
        case(
            "networks.StridedCNN",
            networks.StridedCNN,
            num_classes=A(3, COUNT),
            features=A((4,), EMPTY),
        ),
        case(
            "networks.ResNet",
            networks.ResNet,
            blocks=A((1,), EMPTY),
            width=A(4, COUNT),
            stem_stride=A(1, COUNT),
            num_classes=A(3, COUNT),
        ),
        case("networks.IdcCNN", networks.IdcCNN, channel_order="rgb"),
        case("networks.load_idc_weights", networks.load_idc_weights, path=weights),
    ]


def _idc_arrays() -> dict[str, np.ndarray]:
    """Arrays of the names and shapes of the 2020 paper's network."""
    shapes: dict[str, tuple[int, ...]] = {"dense_1/kernel": (1024, 2)}
    shapes["dense_1/bias"] = (2,)
    for number, channels in enumerate(((3, 32), (32, 64), (64, 64)), 1):
        shapes[f"conv2d_{number}/kernel"] = (3, 3, *channels)
        shapes[f"conv2d_{number}/bias"] = channels[1:]
    for number, width in enumerate((32, 64, 64, 1024), 1):
        for name in ("gamma", "beta", "moving_mean", "moving_variance"):
            shapes[f"batch_normalization_{number}/{name}"] = (width,)
    return {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
