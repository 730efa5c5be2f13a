"""A classifier, from any framework, as a function from images to class outputs."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxrob._arguments.checks import (
    check_choice,
    check_type,
    checked_flag,
    checked_names,
    checked_sequence,
)
from jaxrob._arguments.messages import named
from jaxrob._classifiers.keras_model import keras_network
from jaxrob._classifiers.network import (
    Network,
    Preprocessing,
    Size,
    class_columns,
    equinox_network,
    host_network,
    linen_network,
    nnx_network,
    program_of,
)
from jaxrob._classifiers.onnx_file import onnx_network
from jaxrob._classifiers.torch_module import (
    timm_network,
    torch_network,
    transformers_network,
)
from jaxrob._numbers import log_normalised

OUTPUTS = ("logits", "probabilities", "sigmoid", "scores", "any")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Classifier:
    """A pure function from images to class outputs, whose robustness is measured.

    Wrap a network of your own in it, or use a method such as `from_torch`. It is a
    pytree whose leaves are the variables: new ones of the same shapes do not cause a
    recompilation.

    Example::

        def apply_fn(variables, images):
            return images.reshape(len(images), -1) @ variables["weights"]

        variables = {"weights": jnp.zeros((784, 10))}
        classifier = jaxrob.Classifier(apply_fn, variables)

    Attributes:
      apply_fn: `apply_fn(variables, images)`, or `apply_fn(variables, images, keys)`
        if `stochastic`, with float32 images `[B, H, W, C]` and one key for each
        image. It returns one array, `[B, K]`, or `[S, B, K]` from S posterior samples
        or members of an ensemble. Of a tuple, a dict or another object the array
        called `logits` is taken, or else the only one that is `[B, K]`. Another
        function object is recompiled, even if it does the same. Whatever it takes from
        around it (arrays, numbers, attributes) is looked at in each call: a change
        recompiles it and draws a warning. Within a `jax.jit`, a `jax.checkpoint` or a
        loop or branch of `jax.lax`, JAX keeps first values.
      variables: a pytree of arrays; weights belong here.
      outputs: what `apply_fn` returns:

        * "logits" (a single column is the logit of class 1 of 2);
        * "probabilities", which sum to 1;
        * "sigmoid", an activation in [0, 1] for each class, normalised to sum to 1
          (a single column is the activation of class 1 of 2);
        * "scores", of which only the largest counts. Functions that need probabilities
          reject them;
        * "any": no classes, but a pytree of arrays with the images first, such as masks
          or boxes, or, on the host, a list with an entry for each image. Only
          `evaluate` and `assess` take it, with a `Score`.
      stochastic: whether `apply_fn` takes keys.
      name: its name in provenance and journals, or None.
      class_names: one name for each class, in the order of the outputs, or None. A data
        set with other names is rejected.

    Raises:
      TypeError: if `apply_fn` is not callable.
      ValueError: if `outputs` is not one of the above.
    """

    apply_fn: Callable[..., Any] = dataclasses.field(metadata={"static": True})
    variables: Any = dataclasses.field(default=None, repr=False)
    outputs: str = dataclasses.field(default="logits", metadata={"static": True})
    stochastic: bool = dataclasses.field(default=False, metadata={"static": True})
    name: str | None = dataclasses.field(default=None, metadata={"static": True})
    class_names: tuple[str, ...] | None = dataclasses.field(
        default=None, metadata={"static": True}, repr=False
    )

    def __post_init__(self) -> None:
        check_type(
            "apply_fn", self.apply_fn, Callable, "a function of variables and images"
        )
        check_choice("outputs", self.outputs, OUTPUTS)
        checked_flag("stochastic", self.stochastic)
        check_type("name", self.name, str | None, "text or None")
        if self.class_names is not None:
            names = checked_names("class_names", self.class_names)
            object.__setattr__(self, "class_names", names)
        for leaf in jax.tree.leaves(self.variables):
            is_text = isinstance(leaf, np.ndarray) and leaf.dtype.kind in "US"
            if is_text or isinstance(leaf, str | bytes):
                raise TypeError(f"variables must hold arrays; got {named(leaf)}")

    @staticmethod
    def from_linen(
        module: Any, variables: Any, outputs: str = "logits", **call: Any
    ) -> "Classifier":
        """Wraps a Flax Linen module with its variables; for `outputs` see `Classifier`.

        Example::

            module = jaxrob.networks.MLP()
            variables = module.init(jax.random.key(0), jnp.zeros((1, 28, 28, 1)))
            classifier = jaxrob.Classifier.from_linen(module, variables)

        Args:
          module: the module; `module.apply(variables, images, **call)` is called.
          variables: all collections, as `module.init` returns them: parameters, batch
            statistics and so on. They are not changed.
          **call: further arguments of the module's call, such as `train=False`, with
            hashable values.
        """
        return _from_network(linen_network(module, variables, outputs, call))

    @staticmethod
    def from_nnx(
        module: Any,
        outputs: str = "logits",
        *,
        preprocessing: Preprocessing | None = None,
        name: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "Classifier":
        """Wraps a copy of a Flax NNX module in its present state, in evaluation mode.

        For `outputs` see `Classifier`, for what is not below `from_torch`.

        Args:
          module: the module, called with images `[B, H, W, C]`.
        """
        network = nnx_network(module, outputs, preprocessing, name)
        return _from_network(network, class_names)

    @staticmethod
    def from_equinox(
        module: Any,
        state: Any = None,
        outputs: str = "logits",
        *,
        preprocessing: Preprocessing | None = None,
        name: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "Classifier":
        """Wraps an Equinox module of one image, applied in inference mode.

        It runs inside the compiled step, with gradients. The classifier has a copy of
        all arrays. Needs the extra `jaxrob[equinox]`.

        Example::

            module, state = eqx.nn.make_with_state(Net)(jax.random.key(0))
            classifier = jaxrob.Classifier.from_equinox(module, state)

        For `outputs` see `Classifier`, for what is not below `from_torch`.

        Args:
          module: the module, called with one image, `[C, H, W]` by default, under
            `jax.vmap`: `module(image)`, or `module(image, state)` if there is a state,
            which returns the outputs `[K]` and a state.
          state: its `equinox.nn.State`, of batch statistics for instance; or None.

        Raises:
          TypeError: if it is no Equinox module, or holds what cannot be hashed.
        """
        network = equinox_network(module, state, outputs, preprocessing, name)
        return _from_network(network, class_names)

    @staticmethod
    def from_torch(
        module: Any,
        outputs: str | None = None,
        *,
        preprocessing: Preprocessing | None = None,
        batch_size: int | None = None,
        name: str | None = None,
        version: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "Classifier":
        """Wraps a torch module in its present state, run by torch on the host.

        The classifier has a copy of the module, in evaluation mode; yours is not
        changed. torch's autograd gives gradients in the images, so attacks and RoMA's
        importance sampling work. Needs the extra `jaxrob[torch]`.

        Example::

            classifier = jaxrob.Classifier.from_torch(module, name="mine")

        Args:
          module: a `torch.nn.Module` from a batch of images to a tensor `[B, K]`; see
            `Classifier` where it returns more.
          outputs: by default given by the layer registered last ("probabilities" for
            a Softmax, "sigmoid" for a Sigmoid), otherwise "logits".
          preprocessing: what is done to pixels before its first layer; by default they
            are in [0, 1], in the layout of the framework.
          batch_size: the number of images in each call, by default by the memory; the
            last image is repeated to fill it.
          name: its name in provenance and journals; by default that of its class.
          version: identifies it in a journal; by default a digest of its contents and
            of the code of its classes, not of globals and functions elsewhere; none if
            it holds what cannot be looked into.
          class_names: one for each output; a data set with other names is rejected.

        Raises:
          TypeError: if an argument has a wrong type.
          ValueError: if the module cannot be copied, or an argument is outside its
            range; in the first call, if `outputs` contradicts its last operation.
          ImportError: if the framework is missing.
        """
        network = torch_network(
            module, outputs, preprocessing, name, version, batch_size
        )
        return _from_network(network, class_names)

    @staticmethod
    def from_transformers(
        model: Any,
        processor: Any = None,
        *,
        size: Size = None,
        batch_size: int | None = None,
        name: str | None = None,
        version: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "Classifier":
        """Wraps an image classifier of Hugging Face, run by torch on the host.

        As `from_torch`, with the preprocessing of the image processor and the class
        names of the configuration. Images must have the size that the processor makes,
        because it is not used later, nor its `resample`. Needs the extra
        `jaxrob[transformers]`.

        Example::

            model = AutoModelForImageClassification.from_pretrained(path)
            processor = AutoImageProcessor.from_pretrained(path)
            classifier = jaxrob.Classifier.from_transformers(model, processor)

        Args:
          model: a `transformers.PreTrainedModel` for image classification.
          processor: its image processor. By default what lies beside the model's
            weights on this machine; nothing is downloaded.
          size: see `Preprocessing`. By default what the processor makes of any picture,
            after cropping; needed if it keeps the pictures' aspect ratio.
          class_names: by default those of the configuration, unless they are its
            placeholders ("LABEL_0").

        Raises:
          TypeError: if the model or the processor is none of transformers'.
          ValueError: if the model is no image classifier, no processor is found, or it
            does more than resize, crop, rescale and normalise; else as `from_torch`.
        """
        network = transformers_network(
            model, processor, size, name, version, batch_size
        )
        return _from_network(network, class_names)

    @staticmethod
    def from_timm(
        model: Any,
        *,
        size: Size = None,
        batch_size: int | None = None,
        name: str | None = None,
        version: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "Classifier":
        """Wraps a model of timm, run by torch on the host.

        As `from_torch`, with the mean, the standard deviation, the size and the class
        names, if any, that timm has for the weights. Its `crop_pct` and `interpolation`
        are not kept: load the pictures by them. Needs the extra `jaxrob[timm]`.

        Example::

            model = timm.create_model("resnet10t", pretrained=True)
            classifier = jaxrob.Classifier.from_timm(model)

        Args:
          model: what `timm.create_model` returns.
          size: see `Preprocessing`. By default the `img_size` that the model was made
            with, or else `input_size` in `model.pretrained_cfg`.
          class_names: by default those of the weights, if any.

        Raises:
          TypeError: if it is not a model of timm.
          ValueError: if it returns features, not classes; else as `from_torch`.
        """
        network = timm_network(model, size, name, version, batch_size)
        return _from_network(network, class_names)

    @staticmethod
    def from_onnx(
        path: str | os.PathLike[str],
        outputs: str | None = None,
        *,
        preprocessing: Preprocessing | None = None,
        batch_size: int | None = None,
        name: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "Classifier":
        """Wraps a network in an ONNX file, run by onnxruntime on the host.

        It has no gradient: attacks reject it, and RoMA's "auto" uses splitting. Needs
        the extra `jaxrob[onnx]`. An untrusted file cannot run code of its own. Weights
        in other files must lie in the same folder.

        Example::

            classifier = jaxrob.Classifier.from_onnx("detector.onnx")

        What `from_torch` says of an argument holds here too, unless it is below.

        Args:
          path: the file, with one input, the images (uint8 ones are 255 times the
            pixels), and one floating output `[B, K]` or `[B, K, 1, 1]`. With
            outputs="any", several outputs are given to the score by name.
          outputs: by default given by the last operation, as in `from_torch`.
          batch_size: by default given by the shape of its input.
          name: by default the file's. Its SHA-256, and that of weights beside it, is
            recorded too.

        Raises:
          FileNotFoundError: if there is nothing at `path`.
          ValueError: if it is no ONNX file of one input and one floating output, keeps
            weights outside its folder, or contradicts an argument.
        """
        network = onnx_network(path, outputs, preprocessing, name, batch_size)
        return _from_network(network, class_names)

    @staticmethod
    def from_keras(
        model: Any,
        outputs: str | None = None,
        *,
        preprocessing: Preprocessing | None = None,
        batch_size: int | None = None,
        name: str | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "Classifier":
        """Wraps a Keras model in its present state, or the model in a `.keras` file.

        The classifier has a copy of the weights. On Keras's JAX backend the model runs
        inside the compiled step, with gradients; if a layer changes later, make a new
        classifier. On another backend it runs on the host, without gradients, and a
        warning says so. Keras reads KERAS_BACKEND when it is first imported; if this
        call imports it, the default is JAX. Needs the extra `jaxrob[keras]`.

        Example::

            classifier = jaxrob.Classifier.from_keras("digits.keras")

        What `from_torch` says of an argument holds here too, unless it is below.

        Args:
          model: a `keras.Model` or the path of a `.keras` file, which cannot run code
            of its own in Keras's safe mode. Files of other formats are rejected.
          outputs: by default given by the last layer's activation.
          batch_size: only for a model on the host.
          name: by default the model's.

        Raises:
          FileNotFoundError: if there is nothing at the path.
          ValueError: if the file is rejected, or the model is not built, has several
            inputs or outputs, or cannot be copied.
        """
        network = keras_network(model, outputs, preprocessing, name, batch_size)
        return _from_network(network, class_names)

    @staticmethod
    def from_host(
        function: Callable[[np.ndarray], np.ndarray],
        num_classes: int | None = None,
        outputs: str = "logits",
        *,
        name: str | None = None,
        version: str | None = None,
        batch_size: int | None = None,
        preprocessing: Preprocessing | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "Classifier":
        """Wraps a function on the host, of any framework or service, without gradients.

        An exception that it raises is passed on, with a note of the batch's shape.
        For `outputs` see `Classifier`, for what is not below `from_torch`.

        Args:
          function: takes float32 images `[B, H, W, C]` as a NumPy array, which it may
            write to, and returns `[B, num_classes]`, real numbers of any type. An
            image's answer must not depend on its batch.
          num_classes: number of classes, K; None for outputs="any".
          name: identifies the function with the version; a journal needs both.
          version: to be changed whenever the function's answers may change, such as the
            date or the checksum of its weights.
        """
        network = host_network(
            function, num_classes, outputs, preprocessing, name, version, batch_size
        )
        return _from_network(network, class_names)

    def log_probabilities(
        self, images: jax.Array, keys: jax.Array | None = None
    ) -> jax.Array:
        """Computes the log-probabilities of the classes.

        Args:
          images: float32 `[B, H, W, C]` in [0, 1].
          keys: `[B]` random keys, needed if the classifier is stochastic.

        Returns:
          float32 `[S, B, K]`. Rows that are not a distribution (NaN, activations
          outside [0, 1], probabilities that do not sum to 1 within 1e-2) are NaN.

        Raises:
          ValueError: if the outputs are "scores" or "any", or their shape is not
            `[B, K]` or `[S, B, K]` with at least two classes.
        """
        if self.outputs == "scores":
            raise ValueError(
                'a classifier with outputs="scores" has no probabilities; this needs '
                'outputs="logits", "probabilities" or "sigmoid"'
            )
        return log_normalised(self.raw_outputs(images, keys), self.outputs)

    def raw_outputs(
        self, images: jax.Array, keys: jax.Array | None = None
    ) -> jax.Array:
        """Computes the outputs of `apply_fn`, as float32 `[S, B, K]` with K at least 2.

        The single column `s` of a binary head becomes `[1 - s, s]` if it is "sigmoid",
        `[0, s]` if it is "logits".

        Raises:
          TypeError: if `apply_fn` returns several arrays, none of them the outputs.
          ValueError: as `log_probabilities`, but "scores" are allowed.
        """
        check_has_classes(self)
        return class_columns(self.returned(images, keys), len(images), self.outputs)

    def returned(self, images: jax.Array, keys: jax.Array | None = None) -> Any:
        """Computes what `apply_fn` returns, unchanged, see `log_probabilities`."""
        check_type("images", images, jax.Array | np.ndarray, "an array [B, H, W, C]")
        if self.stochastic and keys is None:
            raise ValueError("the classifier is stochastic and needs keys; got None")
        # JAX may read a NumPy array later, when it is filled with other images.
        images = images.copy() if isinstance(images, np.ndarray) else images
        args = (images, keys) if self.stochastic else (images,)
        return self.apply_fn(self.variables, *args)

    def num_classes(self, image_shape: tuple[int, ...]) -> int:
        """Finds the number of classes, K, without running the classifier.

        Args:
          image_shape: the shape of one image, `(H, W, C)`.

        Raises:
          ValueError: if the images, or the outputs for them, have a wrong shape.
        """
        image_shape = checked_sequence("image_shape", image_shape, int, "integers")
        check_has_classes(self)
        return program_of(self, image_shape)[1].shape[-1]


def check_has_classes(classifier: Classifier) -> None:
    if classifier.outputs == "any":
        raise ValueError(
            'a network with outputs="any" has no classes: only evaluate and assess '
            "take it, with score=, a function of its outputs and the labels, see "
            "jaxrob.Score"
        )


def _from_network(network: Network, class_names: Any = None) -> Classifier:
    names = network.class_names if class_names is None else class_names
    function, outputs, name, *_ = network
    classifier = Classifier(
        function, network.variables, outputs, name=name, class_names=names
    )
    names, number = classifier.class_names, network.num_classes
    if names is not None and number is not None and len(names) != number:
        raise ValueError(
            f"class_names must be {number}, one for each of the network's "
            f"outputs; got {len(names)}: {', '.join(names[:10])}"
        )
    return classifier
