"""The result of every entry point on a mesh; `test_devices` runs it in other processes.

    python tests/on_devices.py FOLDER NUM_PROCESSES PROCESS PORT

writes its results to `FOLDER/PROCESS.npz`; one process alone, those on its first device
and on all to `FOLDER/one.npz` and `FOLDER/all.npz`.
"""

import functools
import pathlib
import sys
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxrob
from jaxrob import adversarial, alterations, bayes, roma, training
from jaxrob._devices.blocks import Call
from jaxrob.networks import MLP

# Not a multiple of 2, 4 or 8.
NUM_IMAGES = 97
LEVELS = np.linspace(0, 0.2, 5)
NOISE = alterations.gaussian_noise(0.0, 0.2)
COLLECTIVES = (
    "all-reduce all-gather all-to-all collective-broadcast collective-permute "
    "reduce-scatter"
).split()


class Network(nn.Module):
    """A network with batch statistics and dropout, which depend on the whole batch."""

    num_classes: int = 4

    @nn.compact
    def __call__(self, x, train: bool = False):
        x = nn.Dense(16)(x.reshape(len(x), -1))
        x = nn.BatchNorm(use_running_average=not train, momentum=0.5)(x)
        x = nn.Dropout(0.3, deterministic=not train)(nn.relu(x))
        return nn.Dense(self.num_classes)(x)


def make_data():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (NUM_IMAGES, 8, 8, 1), dtype=np.uint8)
    return jaxrob.Dataset(images, rng.integers(0, 4, NUM_IMAGES))


@functools.cache
def make_classifier():
    module = Network()
    variables = jax.jit(module.init)(jax.random.key(0), jnp.zeros((1, 8, 8, 1)))
    # More certain answers than those of an initialised network.
    variables = jax.tree.map(lambda leaf: 3 * leaf, variables)
    return jaxrob.Classifier.from_linen(module, variables)


class Batches:
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        for first in range(0, NUM_IMAGES, 23):
            part = self.data[first : first + 23]
            yield part.images, part.labels


def measured(mesh, journal):
    """Results that must work across processes too: arrays by name."""
    data, classifier = make_data(), make_classifier()
    key = jax.random.key(7)
    evaluate = functools.partial(jaxrob.evaluate, key=key, mesh=mesh, batch_size=40)
    found = {}
    both = jaxrob.Domain([NOISE, alterations.brightness()])
    for name, given, alteration, levels in (
        ("whole", data, NOISE, LEVELS),
        ("batches", jaxrob.Dataset.from_batches(Batches(data)), NOISE, LEVELS),
        ("domain", data, both, np.stack([LEVELS, 0 * LEVELS], axis=1)),
    ):
        curve = evaluate(classifier, given, alteration, levels)
        for part in ("predicted", "confidence", "uncertainty"):
            found[f"curve {name} {part}"] = getattr(curve, part)
    reduced = evaluate(classifier, data, NOISE, LEVELS, reduced=True)
    found["reduced confusion"] = reduced.confusion
    for run in ("first", "resumed"):
        robust = jaxrob.assess(
            classifier, data, (NOISE,), 0.25, key=key, mesh=mesh, journal=journal
        )
        found[f"levels {run}"] = np.concatenate([one.levels for one in robust])
        found[f"robustness {run}"] = np.array([one.robustness for one in robust])
    found |= measured_parts(mesh, data)
    if mesh.size > 1:
        found |= measured_split(mesh, data, journal)
    local = roma.assess(
        classifier,
        data.images[:33],
        epsilon=0.5,
        num_samples=200,
        estimator="roma",
        key=key,
        mesh=mesh,
    )
    for part in ("status", "plr", "hits"):
        found[f"roma {part}"] = getattr(local, part)
    few = data.images[:13], found["curve whole predicted"][0][:13]
    attacked = adversarial.pgd(classifier, *few, epsilon=0.1, steps=5, mesh=mesh)
    found["pgd success"], found["pgd distance"] = attacked.success, attacked.distance
    fit = training.fit(Network(), data, optimizer=optax.sgd(0.1), **training_on(mesh))
    found["variables fitted"] = flat(fit.variables)
    return found


def measured_split(mesh, data, journal):
    """Answers of a network that is sharded along either axis, also from a journal.

    Of two processes, the first axis needs both for one network.
    """
    classifier, found = make_classifier(), {}
    digest = jaxrob.provenance(classifier, data)["classifier"]
    for axis in mesh.axis_names:

        def put(leaf, axis=axis):
            # The outputs' kernel by its rows, others by their columns.
            specs = {(16, 4): P(axis), (64, 16): P(None, axis), (16,): P(axis)}
            spec = specs.get(leaf.shape, P())
            return jax.device_put(np.asarray(leaf), NamedSharding(mesh, spec))

        split = jaxrob.Classifier(
            classifier.apply_fn, jax.tree.map(put, classifier.variables)
        )
        assert jaxrob.provenance(split, data)["classifier"] == digest
        path = journal.with_name(f"journal-{axis}")
        for run in ("first", "resumed"):
            curve = jaxrob.evaluate(
                split, data, NOISE, LEVELS, key=jax.random.key(7), journal=path
            )
            for part in ("predicted", "confidence"):
                found[f"split {axis} {run} {part}"] = getattr(curve, part)
    return found


def measured_parts(mesh, data):
    """Answers on some of the images in a random order, in memory and in batches."""
    from jaxrob._devices.mesh import checked_mesh
    from jaxrob._engine.blocks import counted
    from jaxrob._engine.evaluate import fingerprint_inputs
    from jaxrob._engine.execution import progress_bar, set_up
    from jaxrob._engine.queue import answer_parts, random_order
    from jaxrob.strategies._drive import Span

    classifier, (noise,) = fingerprint_inputs(
        make_classifier(), [NOISE], data.images[0]
    )
    key = jax.random.key(7)
    order = random_order(key, NUM_IMAGES)
    parts = [Span(noise, 0.1, 0, NUM_IMAGES), Span(noise, 0.2, 13, 50)]
    found = {"parts order": order}
    with progress_bar("parts", False) as bar:
        shape, mesh = data.images.shape[1:], checked_mesh(mesh)
        execution = set_up(classifier, shape, key, mesh, bar, 40)
        for name, given in (
            ("whole", data),
            ("batches", jaxrob.Dataset.from_batches(Batches(data))),
        ):
            answers = answer_parts(execution, counted(given), parts, order)
            for part in ("predicted", "confidence", "uncertainty"):
                arrays = [getattr(one, part) for one in answers]
                found[f"parts {name} {part}"] = np.concatenate(arrays)
    return found


def measured_alone(mesh, predicted):
    """Results for which one process is enough, given its answers: arrays by name."""
    data, classifier = make_data(), make_classifier()
    few = data.images[:13], predicted[:13]
    attacked = adversarial.lbfgs(classifier, *few, target_confidence=0.6, mesh=mesh)
    posterior = bayes.svi(MLP(features=(8,), num_classes=4), data, **training_on(mesh))
    return {
        "lbfgs success": attacked.success,
        "lbfgs distance": attacked.distance,
        "variables posterior": flat((posterior.location, posterior.scale)),
    }


def measured_scores(mesh):
    """Scores of all images, by JAX and on the host, and of some in a random order."""
    data, classifier = make_data(), make_classifier()
    batches = jaxrob.Dataset.from_batches(Batches(data))

    def confidence(outputs, labels):
        return jnp.take_along_axis(jax.nn.softmax(outputs), labels[:, None], 1)[:, 0]

    def on_host(outputs, labels):
        return np.asarray(confidence(np.array(outputs), np.array(labels)))

    given = {"key": jax.random.key(7), "mesh": mesh, "batch_size": 40}
    found = {
        f"scores {name}": jaxrob.evaluate(
            classifier, images, NOISE, LEVELS, score=score, **given
        ).scores
        for name, images, score in (
            ("whole", data, confidence),
            ("batches", batches, confidence),
            ("on the host", data, on_host),
        )
    }
    given |= {"strategy": jaxrob.strategies.FewImages(curtail=True)}
    few = jaxrob.assess(classifier, data, NOISE, 0.3, score=confidence, **given)
    found["scores of some"] = few.curve.scores[0]
    return found


def training_on(mesh):
    # Batches that are not divisible by the devices.
    return {"key": jax.random.key(7), "epochs": 2, "batch_size": 10, "mesh": mesh}


def flat(variables):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(variables)])


def check_no_communication(mesh):
    """Reads the compiled programs of evaluations, estimates and attacks."""
    classifier, data = make_classifier(), make_data()
    few = data.images[:16], data.labels[:16]
    texts, run = {}, Call.run

    def looked_at(call):
        if call.function not in texts:
            texts[call.function] = call.lower().compile().as_text()
        return run(call)

    with mock.patch.object(Call, "run", looked_at):
        given = {"key": jax.random.key(0), "mesh": mesh}
        jaxrob.evaluate(classifier, data[:16], NOISE, [0.1], **given)
        adversarial.lbfgs(classifier, *few, mesh=mesh)
        for estimator in ("roma", "importance"):
            how = {"estimator": estimator, "num_samples": 40}
            roma.assess(classifier, few[0], **how, **given)
    assert len(texts) >= 5
    for text in texts.values():
        assert f"num_partitions={mesh.size}" in text, text[:500]
        for collective in COLLECTIVES:
            assert collective not in text, (text[:500], collective)


def main(folder, num_processes, process, port):
    several = num_processes > 1
    if several:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"localhost:{port}", num_processes, process)
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(2, -1), ("a", "b"))
    if several:
        # Only the first process touches the file: the others have a path that fails.
        name = "journal" if process == 0 else "nowhere/journal"
        found = measured(mesh, pathlib.Path(folder, name))
        check_refusals(mesh, folder, process)
        np.savez(pathlib.Path(folder, f"{process}.npz"), **found)
        return
    check_no_communication(mesh)
    for name, over in (("one", Mesh(devices[:1], ("images",))), ("all", mesh)):
        found = measured(over, pathlib.Path(folder, f"{name}-journal"))
        found |= measured_alone(over, found["curve whole predicted"][0])
        found |= measured_scores(over)
        np.savez(pathlib.Path(folder, f"{name}.npz"), **found)


def check_refusals(mesh, folder, process):
    """Differences between processes are rejected by all of them, as are bad answers."""
    data, classifier, key = make_data(), make_classifier(), jax.random.key(7)

    def message(**changes):
        arguments = {"classifier": classifier, "dataset": data, "key": key} | changes
        try:
            jaxrob.evaluate(alteration=NOISE, levels=LEVELS, mesh=mesh, **arguments)
        except ValueError as error:
            return str(error)

    assert "same in all processes" in message(key=jax.random.key(process))
    broken = jaxrob.Classifier(
        lambda variables, images: jnp.full((len(images), 4), jnp.nan)
    )
    assert "returned NaN" in message(classifier=broken)
    other = pathlib.Path(folder, "other")
    if process == 0:
        other.write_text("no journal at all")
    assert "is no journal" in message(journal=other)
    half = Mesh(mesh.devices[process], ("images",))
    jaxrob.evaluate(classifier, data, NOISE, [0.1], key=key, mesh=half)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
