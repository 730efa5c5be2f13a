"""The networks that the scripts train, by name."""

import hosts
import jax

import jaxrob
from jaxrob import networks, training

# Name: module and training epochs by which it has learnt the small data sets.
_MODELS = {
    "mlp": (networks.MLP, 10),
    "mnist_cnn": (networks.MnistCNN, 10),
    "strided_cnn": (networks.StridedCNN, 10),
    "idc_cnn": (networks.IdcCNN, 30),
    "vgg16": (networks.VGG16, 30),
}
NAMES = tuple(_MODELS)


def train(
    name: str,
    dataset: jaxrob.Dataset,
    key: jax.Array,
    epochs: int | None = None,
    progress: bool = True,
) -> jaxrob.Classifier:
    """Trains the network called `name` (one of `NAMES`) on a data set.

    Args:
      name: one of `NAMES`.
      dataset: the training set; its class names tell the number of classes.
      key: a random key.
      epochs: passes over the data; by default a number for the network.
      progress: whether a progress bar is shown.
    """
    make, usual_epochs = _MODELS[name]
    num_classes = len(dataset.class_names)
    sizes = {} if name == "idc_cnn" else {"num_classes": num_classes}
    if name == "idc_cnn" and num_classes != 2:
        raise ValueError(f"idc_cnn has 2 classes; {dataset.name} has {num_classes}")
    return training.fit(
        make(**sizes),
        dataset,
        key=key,
        epochs=usual_epochs if epochs is None else epochs,
        batch_size=min(64, len(dataset)),
        outputs="sigmoid" if name == "idc_cnn" else "logits",
        mesh=hosts.mesh(),
        progress=progress,
    )
