r"""All that is to be measured on a GPU, for the day when one is at hand.

    python experiments/gpu_day.py
    python experiments/gpu_day.py --parts=forms,steps

A GPU may be there for minutes, on a machine that is cut off at any time. So the parts,
of rows each, come in the order of their importance:

* agreement: pixels and answers on the GPU beside the CPU's;
* evaluate: from the call to the answers: `evaluate` of each alteration, alternating
  with the bare forward pass on pictures that are on the device ("share"), and what it
  adds to that, beside one read and one write of its pictures; `assess`;
* forms: each form of each part of an alteration (`jaxrob/alterations/_forms.py`), and
  the kernel of `gpu/kernels.py`, beside the form that a GPU takes, with a verdict;
* steps: RoMA's steps and a Bayesian one, beside the forward pass;
* compilation: the first call of a process, without and with the persistent cache.

What is found is written after each row to `gpu_day.json` in the folder `--output`. A
row that fails does not end the run, and the same command goes on where an earlier one
ended; rows for which the time, `--seconds`, is not enough are named. `--tiny` runs
everything small, on a CPU, to see that it works. `accelerator.py` compiles the same
steps without a GPU, `throughput.py` compares with other tools.
"""

import functools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from accelerators import bench, programs, targets
from accelerators.programs import NETWORKS, Network
from common import datasets, define, files, hosts, startup, timing
from gpu import kernels, ledger
from jax.sharding import Mesh

import jaxrob
from jaxrob import roma
from jaxrob._classifiers.trace import fingerprinted_classifier
from jaxrob._devices.blocks import shapes_of, shapes_whole
from jaxrob._devices.mesh import mesh_for, sharded
from jaxrob.alterations import Alteration, _forms
from jaxrob.alterations._blur import BLUR
from jaxrob.alterations._geometric import ROTATION
from jaxrob.alterations._jpeg import JPEG_FORMS
from jaxrob.alterations._lens import OWN_SHIFTS, SHIFTS
from jaxrob.alterations._resample import BILINEAR, GRID
from jaxrob.roma._algorithm1 import NORMALITY
from jaxrob.roma._draws import HITS, SPLITTING, Inputs, Pairs, Statistic, Work, drawing
from jaxrob.roma._perturbation import fingerprinted_perturbation
from jaxrob.roma._rare import _particles, _splitting

# By part of an alteration: an alteration that has it, and its forms.
_FORMS = {
    # "shifts" took 4 times as long on an H100, and minutes to compile.
    "blur": ("gaussian_blur", tuple(form for form in BLUR if form != "shifts")),
    "jpeg": ("jpeg_compression", tuple(JPEG_FORMS)),
    "grid": ("zoom", tuple(GRID)),
    "bilinear": ("rotation", tuple(BILINEAR)),
    "rotation": ("rotation", tuple(ROTATION)),
    "shifts": ("defocus_blur", tuple(SHIFTS)),
    "own shifts": ("motion_blur", tuple(OWN_SHIFTS)),
}
# Forms of pictures up to 64 px: a matrix with a number for each pair of pixels, and
# products by the hundred, which take minutes to compile at 224 px.
_SMALL_ONLY = ("product", "tiles")
# Inputs and draws of the steps of RoMA; sets of weights of the Bayesian one.
_INPUTS, _DRAWS, _WEIGHTS = 64, 1000, 10


class _Size(NamedTuple):
    """What is measured."""

    # Networks, pictures and levels of `evaluate`.
    evaluated: tuple[tuple[str, int, int], ...]
    # Networks whose pictures are altered, how many, and at how many levels.
    altered: tuple[tuple[str, int, int], ...]
    alterations: tuple[str, ...]  # the names of those of `evaluate`
    parts: tuple[str, ...]  # of `_FORMS`
    pace: float  # seconds that a program may take
    repeats: int  # timed runs


_LARGE = _Size(
    evaluated=(
        ("idc_cnn", 10000, 16),
        ("resnet50", 256, 4),
        ("idc_cnn", 1000, 16),
        ("mnist_cnn", 10000, 16),
        ("mnist_cnn", 1000, 16),
    ),
    altered=(("idc_cnn", 1000, 16), ("resnet50", 32, 4), ("mnist_cnn", 1000, 16)),
    # A vertical translation costs what a horizontal one does.
    alterations=tuple(
        name for name in programs.alterations_by_name() if "vertical" not in name
    ),
    parts=tuple(_FORMS),
    pace=1.2,
    repeats=7,
)
_SMALL = _Size(
    evaluated=(("mlp", 8, 2),),
    altered=(("mlp", 4, 2),),
    alterations=("brightness",),
    parts=("blur",),
    pace=20.0,
    repeats=1,
)

_PARTS = ("agreement", "evaluate", "forms", "steps", "compilation")
_WHICH = define.choices("parts", list(_PARTS), _PARTS, "Parts")
_SECONDS = flags.DEFINE_float("seconds", 480, "The time for all.", 1)
_TINY = flags.DEFINE_bool("tiny", False, "Whether it runs small, and on a CPU.")
_CHILD = flags.DEFINE_list("child", None, "What a process of its own evaluates.")
_OUTPUT = define.output("results/gpu_day")


def main(argv: Sequence[str]) -> None:
    hosts.refuse_several()
    # Else JAX takes three quarters of the memory, and other processes have the rest.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    startup.start(argv)
    if _CHILD.value is not None:
        return _evaluate_once(*_CHILD.value)
    on_cpu = jax.default_backend() == "cpu"
    if on_cpu and not _TINY.value:
        raise app.UsageError(
            "there is no GPU: JAX finds a CPU alone. --tiny runs everything on it, "
            "small, to see that it works"
        )
    day = _Day(
        _SMALL if _TINY.value else _LARGE,
        Mesh(np.array(jax.local_devices()[:1]), ("images",)),
        "cpu" if on_cpu else "gpu",
    )
    about = {"device": day.device.device_kind, "tiny": _TINY.value}
    about |= {"jax": jax.__version__, "jaxrob": jaxrob.__version__}
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    path = files.output_folder(_OUTPUT.value) / "gpu_day.json"
    document = ledger.opened(path, about)
    parts = {part: _TASKS[part](day) for part in _WHICH.value}
    with kernels.as_form(interpret=on_cpu):
        done = ledger.work(parts, document, path, _SECONDS.value, day.size.pace)
    sys.exit(not done)


class _Day(NamedTuple):
    """Where it is measured."""

    size: _Size  # what is
    mesh: Mesh  # the device
    platform: _forms.Platform  # whose forms are tried

    @property
    def device(self) -> jax.Device:
        """The one device."""
        return self.mesh.devices.flat[0]

    def bench(self, name: str, num_images: int, num_levels: int) -> bench.Bench:
        """Compiles and times programs of a network."""
        sizes = {"num_images": num_images, "num_levels": num_levels}
        network = NETWORKS[name]._replace(**sizes)
        altered = programs.alterations_by_name() | programs.further_alterations()
        target = targets.load("h100")  # Whose estimates stand beside what is measured.
        return bench.Bench(target, self.mesh, name, network, altered, True)


def _agreement(day: _Day) -> Iterator[ledger.Task]:
    devices = day.device, jax.local_devices(backend="cpu")[0]
    known = programs.alterations_by_name()
    some = {which: known[which] for which in day.size.alterations}
    for name, *_ in day.size.altered:

        def pixels(rows: ledger.Rows, name: str = name) -> ledger.Found:
            there, here = (_altered(name, some, device) for device in devices)
            off = {one: _difference(there[one], here[one]) for one in some}
            words = ", ".join(f"{one} {most:.1g}" for one, most in off.items())
            return f"differ at most by {words}", off

        yield ledger.Task(f"pixels, {name}", 8, pixels)
    name, *_ = day.size.altered[0]
    for which in some:
        if which not in ("brightness", "gaussian_noise", "jpeg_compression"):
            continue

        def answers(rows: ledger.Rows, which: str = which) -> ledger.Found:
            there, here = (
                _evaluate(name, 100, 4, which, Mesh(np.array([one]), "images"))()
                for one in devices
            )
            off = float((there.predicted != here.predicted).mean())
            most = _difference(there.confidence, here.confidence)
            words = f"{off:.2%} differ, confidences by at most {most:.1g}"
            return words, {"answers": off, "confidence": most}

        yield ledger.Task(f"answers, {name}, {which}", 8, answers)


def _altered(
    name: str, some: Mapping[str, Alteration], device: jax.Device
) -> dict[str, np.ndarray]:
    """Four pictures of a network's size at three levels, altered on a device."""

    def at_levels(one: Alteration, pictures: Any, keys: Any) -> jax.Array:
        key = keys if one.stochastic else None
        alter = jax.vmap(one, (0, None, None if key is None else 0))
        levels = jnp.linspace(one.lower, one.upper, 3)
        return jax.vmap(lambda level: alter(pictures, level, key))(levels)

    @jax.jit
    def altered(pictures: jax.Array, keys: jax.Array) -> dict[str, jax.Array]:
        return {which: at_levels(one, pictures, keys) for which, one in some.items()}

    _, dataset = _subject(name, 4)
    pictures = datasets.unit_range(np.asarray(dataset.images))
    keys = jax.random.split(jax.random.key(0), 4)
    return jax.tree.map(np.asarray, altered(*jax.device_put((pictures, keys), device)))


def _difference(one: Any, other: Any) -> float:
    return float(np.max(np.abs(np.asarray(one) - np.asarray(other))))


@functools.lru_cache(maxsize=1)
def _subject(name: str, number: int) -> tuple[jaxrob.Classifier, jaxrob.Dataset]:
    """A network with random weights, and pictures for it: bytes on the host."""
    network = NETWORKS[name]
    size, _, channels = network.image_shape
    some = datasets.smooth_pictures(min(number, 256), size, 0)[..., :channels]
    pictures = np.resize(some, (number, *network.image_shape))
    image = jnp.zeros((1, *network.image_shape), jnp.float32)
    variables = jax.jit(network.module().init)(jax.random.key(0), image)
    for layer, own in variables["params"].items():
        if layer.startswith("Dense"):
            # Or else its confidences look like those of probabilities taken as logits,
            # which costs a look at a few images.
            own["kernel"] *= 30
    labels = np.zeros(number, np.int32)
    return network.classifier(variables), jaxrob.Dataset(pictures, labels)


def _evaluate(
    name: str, num_images: int, num_levels: int, which: str, mesh: Mesh | None = None
) -> Callable[[], Any]:
    one = programs.alterations_by_name()[which]
    given = *_subject(name, num_images), one
    levels = np.linspace(one.lower, one.upper, num_levels)
    key = jax.random.key(0)
    return lambda: jaxrob.evaluate(*given, levels, key=key, mesh=mesh)


def _evaluated(day: _Day) -> Iterator[ledger.Task]:
    for where in day.size.evaluated:
        name, num_images, num_levels = where
        about = f"{name}, {num_images:,} x {num_levels}"

        def copy(rows: ledger.Rows, where: Any = where) -> ledger.Found:
            one = day.bench(*where)
            return _kept(one.row(programs.read_and_write(one.network, day.mesh)))

        yield ledger.Task(f"{about}, read and write", 1, copy)
        for which in day.size.alterations:
            run = functools.partial(_beside_forward, day, where, which, about)
            yield ledger.Task(f"{about}, {which}", 4, run)
        if num_images < 10000:
            run = functools.partial(_assessed, day, where)
            yield ledger.Task(f"{about}, assess gaussian_blur", 3, run)


@functools.lru_cache(maxsize=1)
def _forward(
    name: str, num_images: int, num_levels: int
) -> tuple[Callable[[], None], int]:
    classifier, dataset = _subject(name, num_images)
    pictures, batches = np.asarray(dataset.images), (256, 1000, 4000, 16000)
    return timing.best_forward(classifier, pictures, batches, num_levels)


def _beside_forward(
    day: _Day, where: tuple[str, int, int], which: str, about: str, rows: ledger.Rows
) -> ledger.Found:
    name, num_images, num_levels = where
    forward, batch_size = _forward(*where)
    runs = {"evaluate": _evaluate(*where, which), "forward": forward}
    found = timing.side_by_side(runs, num_images * num_levels, day.size.repeats)
    whole, bare = (statistics.median(found[one]["seconds"]) for one in runs)
    share, adds = found["forward"]["ratio"], 1e6 * (whole - bare)
    words = f"{1e3 * whole:8.2f} ms, share {share:.2f}, adds {adds:,.0f} us"
    copy = rows.get(f"{about}, read and write", {}).get("seconds")
    if copy:
        words += f" ({adds / copy / 1e6:.1f} times a read and a write)"
    good = whole <= _least(name, num_images, which, bare)
    row = {"share": share, "as_asked": good, "batch_size": batch_size}
    return f"{words}, {'as asked' if good else 'LESS THAN ASKED'}", row | found


def _least(name: str, num_images: int, which: str, bare: float) -> float:
    """The seconds that are asked for, beside a forward pass of so many."""
    if name == "resnet50":
        return bare / 0.95
    if num_images < 10000:
        return 1.1 * bare + 1.5e-3
    return bare / (0.8 if which in ("gaussian_blur", "jpeg_compression") else 0.9)


def _assessed(
    day: _Day, where: tuple[str, int, int], rows: ledger.Rows
) -> ledger.Found:
    """A row of `assess`, beside the forward passes of the levels that it asked for."""
    name, num_images, num_levels = where
    forward, _ = _forward(*where)
    classifier, dataset = _subject(name, num_images)
    # Labels that the network answers, or there would be nothing to search for.
    labels = _evaluate(name, num_images, 1, "gaussian_blur")().predicted[0]
    dataset = jaxrob.Dataset(dataset.images, labels)
    blur = programs.alterations_by_name()["gaussian_blur"]

    def run() -> Any:
        return jaxrob.assess(classifier, dataset, blur)

    number = len(run().levels)
    times = [
        (timing.seconds(run), timing.seconds(forward) * number / num_levels)
        for _ in range(day.size.repeats)
    ]
    whole = statistics.median(one for one, _ in times)
    share = statistics.median(bare / one for one, bare in times)
    words = f"{1e3 * whole:8.2f} ms, {number} levels, share {share:.2f}"
    return words, {"seconds": whole, "levels": number, "share": share}


def _formed(day: _Day) -> Iterator[ledger.Task]:
    for part in day.size.parts:
        for name, *size in day.size.altered:
            # Pictures of one channel differ in the blur and in JPEG.
            if part not in ("blur", "jpeg") and name == "mnist_cnn":
                continue
            shape = NETWORKS[name].image_shape
            usual = _forms.form_for(part, day.platform, max(shape[:2]))
            about = f"{part}, {'x'.join(map(str, shape))}"
            # The one that is taken comes first, because others stand beside it.
            own = (kernels.NAME,) if part == "blur" else ()
            names = usual, *own, *_FORMS[part][1]
            for form in dict.fromkeys(names):
                if form in _SMALL_ONLY and max(shape[:2]) > 64:
                    continue
                given = day, (name, *size), part, form, f"{about}, {usual}"
                run = functools.partial(_in_form, *given)
                yield ledger.Task(f"{about}, {form}", 3, run)


def _in_form(
    day: _Day, where: Any, part: str, form: str, usual: str, rows: ledger.Rows
) -> ledger.Found:
    which, _ = _FORMS[part]
    one = day.bench(*where)
    one = one._replace(network=one.network.alone())
    is_compared = form == kernels.NAME
    few = where[0], {which: one.alterations[which]}, day.device
    plain = _altered(*few)[which] if is_compared else None
    with kernels.chosen(part, day.platform, form):
        before, step = one.step(which)
        other = _altered(*few)[which] if is_compared else None
    words, row = _kept(step, before)
    if "seconds" in (beside := rows.get(usual, {})):
        row["ratio"] = ratio = row["seconds"] / beside["seconds"]
        known = "BETTER" if ratio < 0.95 else "worse" if ratio > 1.05 else "as good"
        words += f", {known}: {ratio:.2f} of the seconds of the form taken"
    if is_compared:
        row["differs"] = _difference(plain, other)
        words += f", differs by {row['differs']:.1g}"
    return words, row


def _kept(row: dict[str, Any], before: dict[str, Any] | None = None) -> ledger.Found:
    def whole(name: str) -> Any:
        return row[name] + (before[name] if before else 0)

    names = "bytes", "launches", "compile_seconds", "temporary_bytes"
    found = {name: whole(name) for name in names}
    found |= {"estimated_seconds": whole("seconds"), "programs": 2 if before else 1}
    words = f"{found['bytes'] / 1e9:.3f} GB, {found['launches']} kernels"
    found["seconds"] = whole("measured_seconds")
    return f"{1e6 * found['seconds']:9,.0f} us, {words}", found


def _stepped(day: _Day) -> Iterator[ledger.Task]:
    name, *size = day.size.altered[-1]
    mesh, known = day.mesh, programs.alterations_by_name()
    makers = {
        "forward": lambda one: programs.forward(one.network, one.network.rows, mesh),
        # Statistics included; what they add is the difference to the counts.
        "RoMA, drawn": lambda one: _roma_draws(NORMALITY, one.network, mesh),
        "RoMA, counted": lambda one: _roma_draws(HITS, one.network, mesh),
        "RoMA, splitting": lambda one: _roma_splitting(one.network, mesh),
        "Bayesian": lambda one: _bayesian(one.network, known["brightness"], mesh),
    }
    for which, make in makers.items():
        # Its draws are as many as ever.
        if "RoMA" in which and _TINY.value:
            continue

        def run(rows: ledger.Rows, which: str = which, make: Any = make) -> Any:
            one, prepared = day.bench(name, *size), None
            if which == "Bayesian":
                _, prepared = one.preparation(known["brightness"])
            program = make(one)
            words, row = _kept(one.row(program, prepared))
            row["passes"] = program.passes
            bare = rows.get(f"{name}, forward", {})
            if "seconds" in bare:
                least = bare["seconds"] / bare["passes"] * row["passes"]
                row["share"] = least / row["seconds"]
                words += f", share {row['share']:.2f}"
            return words, row

        yield ledger.Task(f"{name}, {which}", 2, run)


def _roma_splitting(network: Network, mesh: Mesh) -> programs.Program:
    """A level of splitting, with as many inputs as rows allow."""
    work, particles = _work(network, mesh), _splitting.NUM_PARTICLES
    most = programs.rows_at_once(network, mesh) // particles
    number = _splitting.num_slots(_INPUTS, most, mesh.size)
    image = jax.ShapeDtypeStruct(network.image_shape, jnp.float32)
    systems = jax.eval_shape(
        lambda: _particles.empty_systems(work.perturbation, image, number, particles)
    )
    split = sharded(work.mesh)
    active = jax.ShapeDtypeStruct((number,), bool, sharding=split)
    given = shapes_of(systems, split), _pairs(work, network, number), active
    call = _particles.stepping(work, *given, SPLITTING, particles)
    moves = _particles.num_moves(work.perturbation, math.prod(network.image_shape))
    # Fewer turns where all inputs are new: the loop's bound is known when it runs.
    about = call.args, number * particles * moves, moves
    return programs.Program("RoMA splitting", call.lower, *about)


def _bayesian(network: Network, alteration: Alteration, mesh: Mesh) -> programs.Program:
    """A step of `evaluate` for a classifier with T sets of weights."""
    module, members = network.module(), [network.variables()] * _WEIGHTS
    classifier = jax.eval_shape(
        lambda some: jaxrob.bayes.ensemble(module, some, network.outputs), members
    )
    return programs.step(network, alteration, mesh, classifier)


def _roma_draws(statistic: Statistic, network: Network, mesh: Mesh) -> programs.Program:
    work = _work(network, mesh)
    pairs = _pairs(work, network, _INPUTS)
    block = Inputs(pairs.images, pairs.indices, pairs.excluded)
    rows = programs.rows_at_once(network, mesh)
    call = drawing(work, block, _DRAWS, rows, statistic)
    return programs.Program("RoMA", call.lower, call.args, _INPUTS * _DRAWS)


def _work(network: Network, mesh: Mesh) -> Work:
    """RoMA's parts as shapes, which its entry points don't take."""
    classifier = network.classifier(network.variables())
    over = mesh_for(mesh, classifier.variables)
    classifier = fingerprinted_classifier(classifier, network.image_shape)
    ball = fingerprinted_perturbation(roma.ball("linf", 0.04), network.image_shape)
    logit_delta: Any = jax.ShapeDtypeStruct((), jnp.float32)
    key = jax.eval_shape(jax.random.key, 0)
    return shapes_whole(Work(classifier, ball, logit_delta, key, over), over)


def _pairs(work: Work, network: Network, number: int) -> Pairs[Any]:
    split = sharded(work.mesh)

    def array(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((number, *shape), dtype, sharding=split)

    images, indices = array(jnp.float32, *network.image_shape), array(jnp.uint32)
    classes = array(jnp.int32)
    return Pairs(images=images, indices=indices, classes=classes, excluded=classes)


def _first_calls(day: _Day) -> Iterator[ledger.Task]:
    for which in ("brightness", "jpeg_compression"):
        if which not in day.size.alterations:
            continue
        given = *day.size.evaluated[-1], which

        def run(rows: ledger.Rows, given: Any = given) -> ledger.Found:
            with tempfile.TemporaryDirectory() as cache:
                cold, warm = (_in_a_process(given, cache) for _ in range(2))
            row = {"cold": cold, "cached": warm}
            words = (f"{how} {one['first_seconds']:.2f} s" for how, one in row.items())
            return f"first call {', '.join(words)}, {cold['programs']} programs", row

        yield ledger.Task(f"{given[0]}, {which}", 16, run)


def _in_a_process(given: tuple[Any, ...], cache: str) -> dict[str, Any]:
    command = [sys.executable, __file__, f"--child={','.join(map(str, given))}"]
    command.append(f"--compilation_cache={cache}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise RuntimeError(" ".join(last))
    return json.loads(done.stdout.splitlines()[-1])


def _evaluate_once(name: str, num_images: str, num_levels: str, which: str) -> None:
    """Prints the seconds of the first call and of the second one, and the memory."""
    run = _evaluate(name, int(num_images), int(num_levels), which)
    with timing.compilations() as compiled:
        first = timing.seconds(run)
    found = {"first_seconds": first, "programs": len(compiled)}
    found |= {"second_seconds": timing.seconds(run), "memory": timing.memory()}
    print(json.dumps(found))


_TASKS = {
    "agreement": _agreement,
    "evaluate": _evaluated,
    "forms": _formed,
    "steps": _stepped,
    "compilation": _first_calls,
}


if __name__ == "__main__":
    app.run(main)
