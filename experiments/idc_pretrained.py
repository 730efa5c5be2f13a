r"""The 2020 paper's own trained network on breast-histology patches.

    python experiments/idc_pretrained.py --data_dir=...

Assesses the published network at 41 levels of the paper's eight alterations with the
threshold 0.8, attacks it with L-BFGS, prints robustness and adversariability,
per class too, and writes JSON and a figure: the accuracy over the level with altered
patches below it, and adversarial patches beside the originals.
"""

import functools
import json
import os
import pathlib

import assessment_files
import gate
import hosts
import jax
import journals
import numpy as np
import startup
from absl import app, flags
from matplotlib import pyplot as plt

import jaxrob
from jaxrob import adversarial, alterations, data, networks, reporting

_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder of data sets; by default $JAXROB_DATA_DIR."
)
_LEVELS = flags.DEFINE_integer("levels", 41, "Levels of each alteration.", 2)
_THRESHOLD = flags.DEFINE_float("threshold", 0.8, "Lowest accepted accuracy.", 0, 1)
_ATTACKED = flags.DEFINE_integer("attacked", 214, "Patches attacked, at most.", 1)
_SEED = flags.DEFINE_integer("seed", 0, "Random seed.", 0)
_OUTPUT = flags.DEFINE_string("output", "results/idc", "Folder written to.")
_PROGRESS = flags.DEFINE_bool("progress", True, "Whether progress bars are shown.")
_requirements = gate.define_require("robustness", "robustness.low")
_NO_WORSE_THAN = gate.define_no_worse_than()

_SHOWN = 5


def main(argv):
    startup.start(argv)
    output = hosts.output(_OUTPUT.value)
    chosen = alterations.presets.cnn_2020()
    earlier = gate.earlier(_NO_WORSE_THAN, chosen)
    test_set = data.load("idc", "test", _DATA_DIR.value)
    folder = pathlib.Path(_DATA_DIR.value or os.environ["JAXROB_DATA_DIR"], "idc")
    variables = networks.load_idc_weights(folder / "idc_cnn_weights.npz")
    classifier = jaxrob.Classifier.from_linen(networks.IdcCNN(), variables, "sigmoid")
    key = jax.random.key(_SEED.value)

    results = jaxrob.assess(
        classifier,
        test_set,
        chosen,
        _THRESHOLD.value,
        strategy=jaxrob.strategies.Uniform(_LEVELS.value),
        key=key,
        journal=journals.path("idc"),
        mesh=hosts.mesh(),
        progress=_PROGRESS.value,
    )
    unaltered = results[0].values[results[0].levels == results[0].identity]
    print(f"{len(test_set)} patches, {float(unaltered[0]):.2%} right unaltered")
    print(reporting.table(results))
    # Spread over the set, which comes ordered by class.
    which = np.unique(
        np.linspace(0, len(test_set) - 1, min(_ATTACKED.value, len(test_set))).astype(
            int
        )
    )
    attacked = test_set[which]
    found = adversarial.adversariability(
        classifier,
        attacked.images,
        attacked.labels,
        attack=functools.partial(adversarial.lbfgs, mesh=hosts.mesh()),
    )
    print(
        f"adversariability {found.value:.4f} over {found.num_inputs} patches that are "
        f"right unaltered, {found.success_rate:.1%} of them fooled"
    )
    for name, value, number in zip(
        test_set.class_names, found.per_class, found.num_inputs_per_class
    ):
        print(f"  {name}: {value:.4f} over {number}")
    document = {
        "robustness": {result.alteration: result.robustness for result in results},
        "adversariability": found.value,
        "adversariability_per_class": found.per_class.tolist(),
        "success_rate": found.success_rate,
        "num_attacked": found.num_inputs,
    }
    (output / "idc.json").write_text(json.dumps(document, indent=1))
    assessment_files.write(output, results)
    _curves(results, test_set, key).savefig(output / "idc.png", dpi=110)
    _adversarial(found.attack, attacked).savefig(output / "adversarial.png", dpi=110)
    print(f"wrote {output / 'idc.json'}, idc.png and adversarial.png")
    gate.require_of_assessments(_requirements(), results, earlier)


def _curves(results, test_set, key):
    """Each alteration's curve and, below it, a patch at five levels."""
    figure = plt.figure(figsize=(16, 9), layout="constrained")
    grid = figure.add_gridspec(4, 4, height_ratios=(3, 1, 3, 1))
    by_name = {one.name: one for one in alterations.presets.cnn_2020()}
    image = test_set.images[0]
    for number, result in enumerate(results):
        row, column = 2 * (number // 4), number % 4
        result.plot(figure.add_subplot(grid[row, column]))
        levels = np.linspace(result.lower, result.upper, _SHOWN)
        altered = reporting.examples(by_name[result.alteration], image, levels, key)
        axes = figure.add_subplot(grid[row + 1, column])
        axes.imshow(np.concatenate(list(altered.clip(0, 1)), axis=1))
        axes.set_axis_off()
    return figure


def _adversarial(attack, attacked):
    """The most similar adversarial patches, under the originals."""
    best = np.argsort(-np.where(attack.success, attack.similarity, -1))[:_SHOWN]
    figure, panels = plt.subplots(
        2, _SHOWN, figsize=(10, 4.6), layout="constrained", squeeze=False
    )
    for number, (above, below) in zip(best, panels.T):
        above.imshow(attacked.images[number])
        label = attacked.class_names[attacked.labels[number]]
        above.set_title(f"{label}", fontsize=9)
        if attack.success[number]:
            below.imshow(np.asarray(attack.images[number]))
            taken_for = attacked.class_names[attack.predicted[number]]
            below.set_title(
                f"taken for {taken_for}\nSSIM {attack.similarity[number]:.5f}",
                fontsize=9,
            )
        above.set_axis_off()
        below.set_axis_off()
    return figure


if __name__ == "__main__":
    app.run(main)
