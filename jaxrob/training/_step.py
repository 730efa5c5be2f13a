"""One step of training: network, batches, schedule, state, compiled update."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.core import Tracer

from jaxrob._arguments.messages import failed_on_images
from jaxrob._classifiers.classifier import Classifier
from jaxrob._classifiers.network import snapshot
from jaxrob._dataset import Dataset
from jaxrob._devices.mesh import ImageMesh, put, put_rows, replicated, sharded
from jaxrob._keys import is_key
from jaxrob._numbers import as_floats

# The loss of each image, `[B]`, from images and labels.
Losses = Callable[[jax.Array, jax.Array], jax.Array]


class Batches(NamedTuple):
    """The batches of an epoch: the images that each step reads, and how it uses them.

    Attributes:
      size: images in an epoch.
      draw: `draw(rng)` is called on the host once for each epoch, in order, with a
        NumPy generator seeded by the training's key. It returns arrays `[T, ...]` by
        name, with a row for each of the T = size // batch_size steps. One of them is
        "index" `[T, R]`, the rows of the data set that the step reads.
      make: `make(images, labels, drawn, key, losses)` is traced into the step. It takes
        the R images read (float32), their labels and the step's rows of the other
        arrays, and returns the `batch_size` images and labels to train on.
        `losses(images, labels)` returns each image's loss under the current parameters,
        in evaluation mode.
      description: a text that is the same for the same settings. A checkpoint is only
        resumed by a training with the same description.
    """

    size: int
    draw: Callable[[np.random.Generator], dict[str, np.ndarray]]
    make: Callable[..., tuple[jax.Array, jax.Array]]
    description: str


def every_image(num_images: int) -> Callable[[int], Batches]:
    def batches(batch_size: int) -> Batches:
        steps = num_images // batch_size

        def draw(rng: np.random.Generator) -> dict[str, np.ndarray]:
            index = rng.permutation(num_images)[: steps * batch_size]
            return {"index": index.reshape(steps, batch_size)}

        def make(images: jax.Array, labels: jax.Array, *_: Any) -> Any:
            return images, labels

        return Batches(num_images, draw, make, "images as they are")

    return batches


class Network(NamedTuple):
    """A module as pure functions of parameters and other variables."""

    start: Callable[..., tuple[Any, Any]]  # (key, images) -> params, others
    # (params, others, images, key) -> outputs in training mode, others
    train: Callable[..., tuple[jax.Array, Any]]
    evaluate: Callable[..., jax.Array]  # (params, others, images) -> outputs
    classifier: Callable[..., Classifier]  # (params, others, outputs)

    def trained(self, key: jax.Array, images: jax.Array) -> Any:
        params, others = self.start(key, images)
        evaluated = self.evaluate(params, others, images)

        def total(params: Any) -> tuple[jax.Array, Any]:
            returned, after = self.train(params, others, images, key)
            return returned.sum(), (returned, after)

        # With the gradient, whose rules are in no other trace.
        return params, evaluated, jax.grad(total, has_aux=True)(params)


def network_of(module: Any) -> Network:
    from flax import linen

    return _of_linen(module) if isinstance(module, linen.Module) else _of_nnx(module)


def _of_linen(module: Any) -> Network:
    def start(key: jax.Array, images: jax.Array) -> tuple[Any, Any]:
        # On a CPU, LLVM would spend one to three seconds on what runs once; same bits.
        is_run = jax.default_backend() == "cpu" and not isinstance(images, Tracer)
        options = {"xla_backend_optimization_level": 1} if is_run else None
        variables = jax.jit(module.init, compiler_options=options)(key, images)
        params = variables["params"]
        return params, {k: value for k, value in variables.items() if k != "params"}

    def train(
        params: Any, others: dict[str, Any], images: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, Any]:
        return module.apply(
            {"params": params, **others},
            images,
            train=True,
            rngs={"dropout": key},
            mutable=list(others),
        )

    def evaluate(params: Any, others: dict[str, Any], images: jax.Array) -> jax.Array:
        return module.apply({"params": params, **others}, images)

    def classifier(params: Any, others: dict[str, Any], outputs: str) -> Classifier:
        return Classifier.from_linen(module, {"params": params, **others}, outputs)

    return Network(start, train, evaluate, classifier)


def _of_nnx(module: Any) -> Network:
    from flax import nnx

    own = nnx.clone(module)
    own.train()
    training, *states = nnx.split(own, nnx.Param, nnx.RngState, ...)
    own.eval()
    evaluating, *_ = nnx.split(own, nnx.Param, nnx.RngState, ...)
    (params, params_tree), (rngs, rngs_tree), (others, others_tree) = (
        _by_path(snapshot(state)) for state in states
    )

    def merge(graph: Any, *states: Any) -> Any:
        trees = params_tree, rngs_tree, others_tree
        # Dictionaries may come back in another order.
        parts = [
            jax.tree.unflatten(tree, [state[path] for path in paths])
            for (tree, paths), state in zip(trees, states)
        ]
        return nnx.merge(graph, *parts)

    def train(
        params: Any, others: Any, images: jax.Array, key: jax.Array
    ) -> tuple[jax.Array, Any]:
        merged = merge(training, params, _reseeded(rngs, key), others)
        returned = merged(images)
        *_, after = nnx.split(merged, nnx.Param, nnx.RngState, ...)
        return returned, _by_path(after)[0]

    def evaluate(params: Any, others: Any, images: jax.Array) -> jax.Array:
        return merge(evaluating, params, rngs, others)(images)

    def classifier(params: Any, others: Any, outputs: str) -> Classifier:
        return Classifier.from_nnx(merge(evaluating, params, rngs, others), outputs)

    def start(key: jax.Array, images: jax.Array) -> tuple[Any, Any]:
        return params, others

    return Network(start, train, evaluate, classifier)


def _by_path(state: Any) -> tuple[dict[str, jax.Array], tuple[Any, list[str]]]:
    """Returns the arrays of a state by their paths, and the structure to rebuild it."""
    leaves, tree = jax.tree_util.tree_flatten_with_path(state)
    paths = [jax.tree_util.keystr(path) for path, _ in leaves]
    return dict(zip(paths, (leaf for _, leaf in leaves))), (tree, paths)


def _reseeded(rngs: dict[str, jax.Array], key: jax.Array) -> dict[str, jax.Array]:
    return {
        path: jax.random.split(jax.random.fold_in(key, number), value.shape)
        if is_key(value)
        else jnp.zeros_like(value)
        for number, (path, value) in enumerate(rngs.items())
    }


_EPOCHS = 5


class Schedule(NamedTuple):
    epoch_steps: int  # steps in a whole epoch
    num_steps: int  # steps in all; the last epoch may end early
    checkpoint_every: int | None = None  # steps between checkpoints


class PlannedStep(NamedTuple):
    done: int  # the number of steps done including this one
    epoch: int  # the number of its epoch, from 1
    ends_epoch: bool  # whether it is the last step of the epoch
    is_kept: bool  # whether a checkpoint follows it
    image_index: np.ndarray  # `[R]`, the rows of the data set that it reads
    drawn: dict[str, np.ndarray]  # its rows of the other arrays of `Batches.draw`


def make_schedule(
    size: int, batch_size: int, epochs: int | None, images_seen: int | None
) -> Schedule:
    steps = size // batch_size
    if not steps:
        raise ValueError(
            f"batch_size must be at most {size}, one epoch; got {batch_size}"
        )
    if images_seen is None:
        return Schedule(steps, steps * (_EPOCHS if epochs is None else epochs))
    if epochs is not None:
        raise ValueError(f"epochs must be None beside images_seen; got {epochs}")
    if images_seen < batch_size:
        raise ValueError(
            f"images_seen must be at least batch_size, {batch_size}; got {images_seen}"
        )
    return Schedule(steps, images_seen // batch_size)


def usual_optimizer(schedule: Schedule) -> optax.GradientTransformation:
    """Adam, its rate decaying from 1e-3 along a cosine."""
    return optax.adam(optax.cosine_decay_schedule(1e-3, schedule.num_steps))


def remaining_steps(
    batches: Batches, schedule: Schedule, rng: np.random.Generator, done: int
) -> Iterator[PlannedStep]:
    epoch_steps, num_steps, every = schedule
    for epoch in range(math.ceil(num_steps / epoch_steps)):
        # Finished epochs are drawn too, to restore the generator's state.
        drawn = batches.draw(rng)
        first = epoch * epoch_steps
        last = min(first + epoch_steps, num_steps)
        for number in range(max(done, first), last):
            count = number + 1
            rows = {name: array[number - first] for name, array in drawn.items()}
            yield PlannedStep(
                done=count,
                epoch=epoch + 1,
                ends_epoch=count == last,
                is_kept=bool(every) and (count % every == 0 or count == num_steps),
                image_index=rows.pop("index"),
                drawn=rows,
            )


class TrainingState(NamedTuple):
    params: Any
    collections: dict[str, Any]  # other variables, such as batch statistics
    optimizer: optax.OptState


# (state, images, labels, rows drawn, the step's number) -> the next state, the loss
Step = Callable[..., tuple[TrainingState, jax.Array]]


def initial_state(
    network: Network,
    optimizer: optax.GradientTransformation,
    key: jax.Array,
    images: Any,
) -> TrainingState:
    """Returns the state before the first step; it may be traced."""
    try:
        params, collections = network.start(key, as_floats(images))
    except Exception as error:  # The user's code may raise anything.
        raise failed_on_images("the module", images.shape[1:], error) from error
    return TrainingState(params, collections, optimizer.init(params))


def num_outputs(
    module: Any, image_shape: tuple[int, ...], outputs: str, key: jax.Array
) -> int:
    network = network_of(module)

    def returned(key: jax.Array, images: jax.Array) -> jax.Array:
        return network.classifier(*network.start(key, images), outputs).raw_outputs(
            images
        )

    images = jax.ShapeDtypeStruct((1, *image_shape), jnp.float32)
    try:
        return jax.eval_shape(returned, key, images).shape[-1]
    except Exception as error:  # The user's code may raise anything.
        raise failed_on_images("the module", image_shape, error) from error


def compiled_step(
    network: Network,
    outputs: str,
    optimizer: optax.GradientTransformation,
    make_batch: Callable[..., tuple[jax.Array, jax.Array]],
    batch_key: jax.Array,
    dropout_key: jax.Array,
    mesh: ImageMesh,
) -> Step:
    def loss(
        params: Any,
        collections: dict[str, Any],
        images: jax.Array,
        labels: jax.Array,
        key: jax.Array,
    ) -> tuple[jax.Array, Any]:
        returned, collections = network.train(params, collections, images, key)
        return _cross_entropy(returned, labels, outputs).mean(), collections

    @functools.partial(jax.jit, out_shardings=replicated(mesh))
    def step(
        state: TrainingState,
        images: jax.Array,
        labels: jax.Array,
        drawn: dict[str, jax.Array],
        number: jax.Array,
    ) -> tuple[TrainingState, jax.Array]:
        params, collections, optimizer_state = state

        def losses(images: jax.Array, labels: jax.Array) -> jax.Array:
            returned = network.evaluate(params, collections, images)
            return _cross_entropy(returned, labels, outputs)

        key = jax.random.fold_in(batch_key, number)
        # Without the padding that gives all devices equally many images.
        images = as_floats(images[: len(labels)])
        batch = make_batch(images, labels, drawn, key, losses)
        images, labels = jax.lax.with_sharding_constraint(batch, sharded(mesh))
        gradient = jax.value_and_grad(loss, has_aux=True)
        key = jax.random.fold_in(dropout_key, number)
        (value, collections), updates = gradient(
            params, collections, images, labels, key
        )
        updates, optimizer_state = optimizer.update(updates, optimizer_state, params)
        params = optax.apply_updates(params, updates)
        return TrainingState(params, collections, optimizer_state), value

    return step


def step_inputs(
    dataset: Dataset, planned: PlannedStep, mesh: ImageMesh
) -> tuple[Any, ...]:
    index = planned.image_index
    others = dataset.labels[index], planned.drawn, np.uint32(planned.done - 1)
    # All devices take equally many images, so the last image is repeated.
    index = np.pad(index, (0, -len(index) % mesh.size), "edge")
    if mesh.size == 1:
        # The step is fastest with arrays of the host.
        return np.asarray(dataset.images[index]), *others

    def read(rows: slice) -> np.ndarray:
        return np.asarray(dataset.images[index[rows]])

    images = put_rows(read, len(index), sharded(mesh))
    return images, *put(others, replicated(mesh))


def _cross_entropy(returned: jax.Array, labels: jax.Array, outputs: str) -> jax.Array:
    """Computes the loss of each image, `[B]`, from the module's outputs."""
    classifier = Classifier(lambda variables, images: returned, None, outputs)
    # Labels stand in for images: only their number matters here.
    log_probabilities = classifier.log_probabilities(labels)[0]
    return -jnp.take_along_axis(log_probabilities, labels[:, None], axis=1)[:, 0]
