"""A small assessment with a journal, to be killed and resumed.

    python tests/engine/interrupted.py --kills=20
    python tests/engine/interrupted.py --kills=30 --few

Kills so many runs of the assessment, each at a random moment, resumes them, and says
whether each ends as one that nothing disturbed. The tests do the same with fewer. With
`--few` it looks at few images of three alterations, and the runs that are killed have
one, two or four devices in turn.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np

import jaxrob
from jaxrob import alterations, strategies
from jaxrob._engine.journal import Journal, decoded

random = np.random.default_rng(0)
images = random.random((400, 8, 8, 1), np.float32)
# NumPy's, because nothing may touch a device before processes join.
weights = random.normal(size=(64, 3)).astype(np.float32)
dataset = jaxrob.Dataset(images, (images.sum((1, 2, 3)) % 3).astype(int))


def apply(weights, images):
    # Neither a matrix product nor a sum: how XLA orders one depends on the number of
    # rows, which depends on that of devices, and some CPUs then give other last bits.
    return sum((images[:, row, row] - 0.5) * weights[row] for row in range(8))


classifier = jaxrob.Classifier(apply, weights)
# Nine of ten labels are what the classifier answers.
many = random.random((3000, 8, 8, 1), np.float32)
answers = apply(weights, many).argmax(axis=1)
learnt = jaxrob.Dataset(
    many, np.where(random.random(3000) < 0.9, answers, (answers + 1) % 3)
)


def assess(strategy, journal, classifier=classifier, key=0, reduced=False, mesh=None):
    return jaxrob.assess(
        classifier,
        dataset,
        [alterations.gaussian_noise(0.0, 0.2), alterations.brightness(-0.5, 0.5)],
        0.3,
        strategy=strategy,
        key=jax.random.key(key),
        batch_size=20,
        reduced=reduced,
        journal=journal,
        mesh=mesh,
    )


def roma(journal, epsilon=0.3, classifier=classifier):
    return jaxrob.roma.assess(
        classifier,
        images,
        epsilon=epsilon,
        num_samples=50,
        key=jax.random.key(1),
        estimator="count",
        journal=journal,
    )


def assess_few(journal, mesh=None):
    """Three alterations by few images, with a budget that ends some of them."""
    return jaxrob.assess(
        classifier,
        learnt,
        [
            alterations.gaussian_noise(0.0, 0.2),
            alterations.brightness(-0.5, 0.5),
            alterations.gaussian_blur(0.0, 2.0),
        ],
        0.8,
        strategy=jaxrob.strategies.FewImages(half_width=0.01, budget=30_000),
        key=jax.random.key(2),
        journal=journal,
        mesh=mesh,
    )


def result(journal, few=False, mesh=None):
    """All that an assessment finds but its time and number of devices, as text."""
    if few:
        found = assess_few(journal, mesh)
    else:
        found = assess(strategies.Uniform(41), journal, mesh=mesh)
    documents = [json.loads(one.to_json()) for one in found]
    for document in documents:
        del document["seconds"], document["provenance"]["devices"]["count"]
        del document["digest"]  # Of the devices too.
    return json.dumps(documents)


def steps(path):
    """What each line of a journal is of: alteration, level, first image."""
    header = json.loads(path.read_bytes().partition(b"\n")[0].partition(b" ")[2])
    with Journal(path, header) as journal:
        return [
            (record["alteration"], level, record["start"])
            for record in journal.records
            for level in decoded(record["levels"]).tolist()
        ]


def kill(path, moment, few, devices):
    """Whether it was before its end, after `moment` seconds of computing."""
    flags = os.environ.get("XLA_FLAGS", "")
    flags += f" --xla_force_host_platform_device_count={devices}"
    command = [sys.executable, __file__, f"--journal={path}", *["--few"] * few]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, env=os.environ | {"XLA_FLAGS": flags}
    )
    # What comes before, importing and compiling, takes ten times as long.
    process.stdout.readline()
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate()
    return not rest


def check_kills(folder, kills, seed, few=False):
    """Kills runs at random moments; each resumed one must end as if undisturbed."""
    whole = folder / "whole"
    expected = result(whole, few)
    start = time.perf_counter()
    result(folder / "again", few)
    duration = time.perf_counter() - start
    if not few:
        found = steps(whole)
        assert len(found) == len(set(found)) == 2 * 41 * 20
    print(f"undisturbed: {whole.stat().st_size} bytes in {duration:.2f} s")
    for number, share in enumerate(np.random.default_rng(seed).random(kills)):
        path = folder / str(number)
        moment, devices = share * duration, [4, 1, 2][number % 3] if few else 1
        while not kill(path, moment, few, devices):
            path.unlink()
            moment /= 2
        left = path.read_bytes() if path.exists() else b""
        lines = left[: left.rfind(b"\n") + 1]
        assert result(path, few) == expected
        # Longer by what was missing alone: no step is there twice.
        assert path.read_bytes() == whole.read_bytes()
        assert whole.read_bytes().startswith(lines)
        print(
            f"killed after {moment:.3f} s with {len(left)} bytes, {devices} devices: "
            "resumed, the same result and journal"
        )


def _run(journal, few):
    # Compiled before the moment counts.
    result(None, few)
    print("computing", flush=True)
    result(journal, few)
    print("done")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--journal", type=pathlib.Path)
    parser.add_argument("--kills", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--few", action="store_true")
    flags = parser.parse_args()
    if flags.kills is not None:
        with tempfile.TemporaryDirectory() as folder:
            check_kills(pathlib.Path(folder), flags.kills, flags.seed, flags.few)
    else:
        _run(flags.journal, flags.few)
