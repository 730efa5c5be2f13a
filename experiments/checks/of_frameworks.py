"""Cases of networks of other frameworks, as far as these are installed."""

import os
import pathlib
from importlib.util import find_spec
from typing import Any

import numpy as np

import jaxrob
from checks import world
from checks.cases import Argument as A
from checks.cases import Case, case
from checks.hostile import (
    COUNT,
    FLAG,
    INDEX,
    INSIDE_SHARE,
    NAMES,
    NUMBER,
    OR_NONE,
    POSITIVE,
    SHARE,
    TEXT,
)

_LISTS = frozenset({"array of -1", "array of 300"})
_LARGE = frozenset({"1e300"})


def preprocessing() -> dict[str, A]:
    """What every network takes, whatever it is made with."""
    return {
        "scale": A(None, NUMBER - {"0"} - _LARGE | _LISTS | OR_NONE),
        "mean": A((0.5,), NUMBER - _LARGE | _LISTS | OR_NONE),
        "std": A(0.25, POSITIVE - _LARGE | OR_NONE),
        "channels_first": A(False, FLAG),
        "size": A(None, COUNT | OR_NONE),
        "name": A("net", TEXT | OR_NONE | {"empty text"}),
        "class_names": A(("a", "b", "c"), NAMES | OR_NONE),
    }


def of_frameworks(folder: pathlib.Path) -> list[Case]:
    """Those whose framework is there; the folder is for files that they read."""
    makers = {"torch": _of_torch, "onnxruntime": _of_onnx, "keras": _of_keras}
    return [
        *_of_maite(),
        *(make(folder) for name, make in makers.items() if find_spec(name)),
    ]


def _settings() -> dict[str, A]:
    return {
        "outputs": A(None, OR_NONE),
        "batch_size": A(4, COUNT | OR_NONE),
        **preprocessing(),
    }


def _of_torch(folder: pathlib.Path) -> Case:
    del folder
    import torch

    layers = torch.nn.Flatten(), torch.nn.Linear(world.SIZE**2, world.CLASSES)
    return case(
        "Classifier.from_torch",
        jaxrob.Classifier.from_torch,
        module=torch.nn.Sequential(*layers),
        version=A("1", TEXT | OR_NONE | {"empty text"}),
        **_settings(),
    )


def _of_onnx(folder: pathlib.Path) -> Case:
    import onnx
    from onnx import helper

    value, kind = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    weights = np.zeros((world.SIZE**2, world.CLASSES), np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["x"], ["flat"]),
            helper.make_node("MatMul", ["flat", "w"], ["y"]),
        ],
        "net",
        [value("x", kind, ["N", "H", "W", "C"])],
        [value("y", kind, ["N", world.CLASSES])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    opset = helper.make_opsetid("", 17)
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return case(
        "Classifier.from_onnx", jaxrob.Classifier.from_onnx, path=path, **_settings()
    )


def _of_keras(folder: pathlib.Path) -> Case:
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import keras

    del folder
    shape = (world.SIZE, world.SIZE, 1)
    layers = keras.layers.Flatten(), keras.layers.Dense(world.CLASSES)
    settings: dict[str, Any] = _settings()
    if keras.backend.backend() == "jax":  # It has no batches on the host.
        settings["batch_size"] = A(None, OR_NONE)
    return case(
        "Classifier.from_keras",
        jaxrob.Classifier.from_keras,
        model=keras.Sequential([keras.Input(shape), *layers]),
        **settings,
    )


class _Maite:
    """A data set and a model, as MAITE's protocols have them."""

    metadata = {"id": "tiny"}

    def __len__(self) -> int:
        return len(world.images())

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        label = np.eye(world.CLASSES)[world.labels()[index]]
        return np.moveaxis(world.images()[index], -1, 0), label, {"id": index}

    def __call__(self, images: list[np.ndarray]) -> list[np.ndarray]:
        return [np.zeros(world.CLASSES)] * len(images)


def _of_maite() -> list[Case]:
    blur, names = world.blur(), A(("a", "b", "c"), NAMES | OR_NONE)
    return [
        case(
            "maite.dataset",
            jaxrob.maite.dataset,
            source=_Maite(),
            class_names=names,
            max_bytes=A(2**30, INDEX),
        ),
        case(
            "maite.classifier",
            jaxrob.maite.classifier,
            model=_Maite(),
            outputs="logits",
            pixels="unit",
            num_classes=A(3, COUNT | OR_NONE),
            batch_size=A(None, COUNT | OR_NONE),
            version=A("1", TEXT | OR_NONE | {"empty text"}),
            class_names=names,
        ),
        case(
            "maite.Augmentation",
            jaxrob.maite.Augmentation,
            alteration=blur,
            levels=A([0.0, 1.0], SHARE),
            key=A(None, OR_NONE),
        ),
        case(
            "maite.Robustness",
            jaxrob.maite.Robustness,
            alteration=blur,
            threshold=A(0.5, SHARE),
            measure="accuracy",
            confidence_level=A(0.9, INSIDE_SHARE),
        ),
    ]
