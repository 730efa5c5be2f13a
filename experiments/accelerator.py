r"""The cost of the library's steps on a GPU or TPU, which need not be present.

    python experiments/accelerator.py --target=h100 --networks=mnist_cnn,idc_cnn
    python experiments/accelerator.py --target=v5e --networks=vgg16 \
        --alterations=rotation,zoom --compare=results/accelerator/v5e.json
    python experiments/accelerator.py --target=h100 --what=alter --networks=resnet50
    python experiments/accelerator.py --measure --networks=mnist_cnn

The compilers for GPUs and TPUs run on any Linux machine (`pip install -e ".[tpu]"` or
`".[cuda]"`, each in an environment of its own), and write their estimate of each
instruction into the programs. This script compiles the library's steps for a target's
devices and adds up the estimates: a loop's body times its iterations, instructions
without an estimate by their operations or bytes (`accelerators/costs.py`). The targets
are files in `accelerators/targets`. `--what` selects the programs:

* steps: evaluate's step and preparation for each alteration, beside the forward pass;
* alter: the same for the smallest possible network (mean colour and a dense layer),
  beside reading each picture once and writing it once for each level.

For a GPU the table gives the time that a program with its preparation adds to the
forward pass: in microseconds, as a share of it, and as a share of its kernels without
convolutions. For a TPU it gives the ratio of the two, 1 if altering costs nothing.
"of best" is the ratio to the best forward pass over as many images: on a GPU the same
one, on a TPU one in batches whose arrays stay on the chip, which a line names. "times"
is a multiple of the forward pass's bytes, or memory. "launched" counts at least 2 us a
kernel.

`--measure` runs the same programs on the device that is present, prints their time
beside the estimate and how many times the estimate that is ("of est."), and writes the
figures to `measured/TARGET.json` in the output folder. Copied to
`docs/measurements/measured`, they stand beside the estimates of later runs.
"""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence

import jax
import numpy as np
from absl import app, flags
from accelerators import bench, compiling, measured, programs, targets
from accelerators.programs import NETWORKS
from common import define, files, hosts, startup
from jax.sharding import Mesh

_COMPILERS = {"tpu": ("libtpu",), "cuda": ("jax_cuda13_plugin", "jax_cuda12_plugin")}
#: XLA's cost model for GPUs then writes its estimates into the program's text.
_ESTIMATES = "--xla_gpu_collect_cost_model_stats=true"
_PAPERS = programs.alterations_by_name()
_ALTERATIONS = _PAPERS | programs.further_alterations()

_TARGET = flags.DEFINE_enum("target", None, targets.NAMES, "What is compiled for.")
_WHAT = define.choices("what", ["steps"], bench.KINDS, "What is compiled")
_NETWORKS = define.choices("networks", ["mnist_cnn"], tuple(NETWORKS), "Networks")
_WHICH = define.choices(
    "alterations", list(_PAPERS), tuple(_ALTERATIONS), "Alterations"
)
_NUM_IMAGES = flags.DEFINE_integer(
    "num_images", None, "Images in a step; by default as the network's memory is.", 1
)
_NUM_LEVELS = flags.DEFINE_integer(
    "num_levels", None, "Levels in a step; by default 16, or 4 at 224 px.", 1
)
_MEASURE = flags.DEFINE_bool(
    "measure", False, "Whether the programs are run, on the device that is there."
)
_COMPARE = flags.DEFINE_string(
    "compare", None, "The JSON of an earlier run, to be compared with."
)
_OUTPUT = define.output("results/accelerator")


def main(argv: Sequence[str]) -> None:
    hosts.refuse_several()
    before = None if _COMPARE.value is None else bench.read(_COMPARE.value)
    if _MEASURE.value:
        _for_measuring()
    elif _TARGET.value is None:
        raise app.UsageError("--target says what is compiled for; or --measure")
    else:
        _for_compiling(targets.load(_TARGET.value))
    startup.start(argv)
    target, mesh = _devices()
    document = {
        "target": target.name,
        "device": mesh.devices.flat[0].device_kind,
        "devices": mesh.size,
        "measured": _MEASURE.value,
        "jax": jax.__version__,
        "results": [],
    }
    folder = files.output_folder(_OUTPUT.value)
    path = folder / f"{target.name}.json"
    written = [path]
    kept = None if _MEASURE.value else measured.kept(target.name)
    if _MEASURE.value:
        document["versions"] = measured.versions(mesh.devices.flat[0])
        written.append(folder / "measured" / path.name)
    elif kept is not None:
        print(measured.source(kept))
    altered = {name: _ALTERATIONS[name] for name in _WHICH.value}
    for name in _NETWORKS.value:
        network = NETWORKS[name]
        network = network._replace(
            num_images=_NUM_IMAGES.value or network.num_images,
            num_levels=_NUM_LEVELS.value or network.num_levels,
        )
        given = target, mesh, name, network, altered
        one = bench.Bench(*given, _MEASURE.value, kept)
        for kind in _WHAT.value:
            print(f"\n{name}, {kind}: {network.size} levels, {target.device}")
            found = {"network": name, "what": kind, "size": network.size}
            document["results"].append(found | {"programs": one.table(kind)})
            # After each program, because compiling takes long.
            files.write_json(path, document)
            if _MEASURE.value:
                figures = measured.text(measured.figures(document))
                files.write(written[-1], figures.encode())
    if before is not None:
        print("\n".join(["", *bench.compared(document, before)]))
    print(f"wrote {' and '.join(map(str, written))}")


def _devices() -> tuple[targets.Target, Mesh]:
    """Returns the target, and the devices that programs are compiled for."""
    if not _MEASURE.value:
        target = targets.load(_TARGET.value)
        return target, compiling.mesh_of(target)
    if jax.default_backend() == "cpu":
        raise app.UsageError("--measure needs a GPU or TPU; JAX finds none here")
    kind = jax.local_devices()[0].device_kind
    target = targets.of_device(kind)
    if _TARGET.value is not None:
        target = targets.load(_TARGET.value)
    if target is None:
        raise app.UsageError(
            f"there is no target for {kind}: name one that is like it with --target, "
            "or describe it in a file in accelerators/targets"
        )
    return target, Mesh(np.array(jax.local_devices()[:1]), ("images",))


def _for_compiling(target: targets.Target) -> None:
    """Starts the script anew in the target's environment, unless it is in it."""
    if not _installed(target.platform):
        raise app.UsageError(
            f"there is no compiler for {target.device} here: "
            f'pip install -e ".[{target.extra}]", in an environment of its own'
        )
    wanted = {"JAX_PLATFORMS": "cpu"} | target.environment
    if target.platform == "cuda" and target.estimates:
        wanted |= _with_estimates()
    _enter(wanted)


def _for_measuring() -> None:
    """Starts the script anew so that a GPU's compiler, if it can, writes estimates."""
    if not _installed("cuda") or not (wanted := _with_estimates()):
        return
    # In another process, because a variable that is set later has no effect.
    asked = subprocess.run(
        [sys.executable, "-c", "import jax; print(jax.local_devices()[0].device_kind)"],
        env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        capture_output=True,
        text=True,
    )
    target = targets.of_device(asked.stdout) if asked.returncode == 0 else None
    if target is not None and target.estimates:
        _enter(wanted)


def _installed(platform: str) -> bool:
    return any(importlib.util.find_spec(name) for name in _COMPILERS[platform])


def _with_estimates() -> dict[str, str]:
    flags = os.environ.get("XLA_FLAGS", "")
    if _ESTIMATES in flags:
        return {}
    return {"XLA_FLAGS": f"{flags} {_ESTIMATES}".strip()}


def _enter(wanted: dict[str, str]) -> None:
    if all(os.environ.get(name) == value for name, value in wanted.items()):
        return
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | wanted)


if __name__ == "__main__":
    app.run(main)
