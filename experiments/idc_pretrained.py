r"""The 2020 paper's own trained network on breast-histology patches.

    python experiments/idc_pretrained.py --data_dir=...

Assesses the published network at 41 levels of the paper's eight alterations with the
threshold 0.8, and attacks it with L-BFGS. Prints robustness and adversariability, per
class too. The paper has an adversariability of 0.38: its authors' script attacks the
network on other inputs than those of its training, and a table shows the effect.

Writes, into the folder `--output`, JSON and two figures: the accuracy over the level
with altered patches below it, and adversarial patches beside the originals. It takes
two or three minutes on two CPU cores.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from common import (
    classifiers,
    datasets,
    define,
    files,
    gate,
    hosts,
    journals,
    ranges,
    startup,
)
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import jaxrob
from jaxrob import adversarial, alterations, data, reporting

_DATA_DIR = define.data_dir()
_LEVELS = define.levels(41)
_THRESHOLD = define.threshold()
_ATTACKED = flags.DEFINE_integer("attacked", 214, "Patches attacked, at most.", 1)
_SEED = define.seed()
_OUTPUT = define.output("results/idc")
_PROGRESS = define.progress()
_requirements = gate.define_require("robustness", "robustness.low")
_REGRESSIONS = gate.define_regressions()

_SHOWN = 5
# The authors' attack script subtracts these means from bytes, here in the order RGB.
# Unlike their training, it does not divide them by 255.
_SUBTRACTED = (123.0, 116.0, 104.0)


class AttackResult(NamedTuple):
    """An attack's results on patches that the network classifies correctly."""

    num_inputs: int  # the number of these patches
    # The share that is misclassified unaltered, as the network is fed. The script takes
    # these as their own adversarial examples.
    already_wrong: float
    attackable: float  # the share for which the attack finds an adversarial example
    similarity: float | None  # the mean of these examples; None if there are none
    # The mean similarity over all these patches, 1 for those that are misclassified
    # unaltered and 0 where no example is found.
    adversariability: float


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    output = files.output_folder(_OUTPUT.value)
    chosen = alterations.presets.cnn_2020()
    earlier = gate.earlier(_REGRESSIONS, chosen)
    test_set = data.load("idc", "test", _DATA_DIR.value)
    classifier = classifiers.published_idc(_DATA_DIR.value)
    key = jax.random.key(_SEED.value)

    results = ranges.assessed(
        classifier, test_set, chosen, _THRESHOLD.value, _LEVELS.value, key,
        journals.path("idc"),
        progress=_PROGRESS.value,
    )  # fmt: skip
    unaltered = results[0].values[results[0].levels == results[0].identity]
    print(f"{len(test_set)} patches, {float(unaltered[0]):.2%} right unaltered")
    print(reporting.table(results))

    # Evenly over a set that is ordered by class.
    number = min(_ATTACKED.value, len(test_set))
    places = np.linspace(0, len(test_set) - 1, number)
    attacked = test_set[np.unique(places.astype(int))]
    attack = functools.partial(adversarial.lbfgs, mesh=hosts.mesh())
    found = adversarial.adversariability(
        classifier, attacked.images, attacked.labels, attack=attack
    )
    print(
        f"adversariability {found.value:.4f} over {found.num_inputs} patches that are "
        f"right unaltered, {found.success_rate:.1%} of them fooled"
    )
    names = datasets.class_names(test_set)
    for name, value, number in zip(names, found.per_class, found.num_inputs_per_class):
        print(f"  {name}: {value:.4f} over {number}")
    right = attacked[found.attack.correct]
    fed = {
        "as trained": classifier,
        "as the script": _as_the_script_feeds_it(classifier),
    }
    ways = {
        way: _attacked(one, right.images, right.labels, attack)
        for way, one in fed.items()
    }
    print(_table(ways))
    document = {
        "robustness": {result.alteration: result.robustness for result in results},
        "adversariability": found.value,
        "adversariability_per_class": found.per_class.tolist(),
        "success_rate": found.success_rate,
        "num_attacked": found.num_inputs,
        "fed": {way: one._asdict() for way, one in ways.items()},
    }
    files.write_json(output / "idc.json", document)
    files.write_assessments(output, results)
    image = np.asarray(test_set.images[0])
    figure = reporting.figure(results, chosen, image, key, num_examples=_SHOWN)
    figure.savefig(output / "idc.png", dpi=110)
    _adversarial(found.attack, attacked).savefig(output / "adversarial.png", dpi=110)
    print(f"wrote {output / 'idc.json'}, idc.png and adversarial.png")
    gate.require_of_assessments(_requirements(), results, earlier)


def _as_the_script_feeds_it(classifier: jaxrob.Classifier) -> jaxrob.Classifier:
    """Feeds the network bytes less the means of other pictures, instead of [0, 1]."""
    trained = classifier.apply_fn

    def apply(variables: Any, images: jax.Array) -> jax.Array:
        return trained(variables, 255 * images - jnp.float32(_SUBTRACTED))

    return jaxrob.Classifier(apply, classifier.variables, classifier.outputs)


def _attacked(
    fed: jaxrob.Classifier,
    images: np.ndarray,
    labels: np.ndarray,
    attack: Callable[..., adversarial.Attack],
) -> AttackResult:
    found = attack(fed, images, labels)
    worth = np.where(found.correct, np.maximum(found.similarity, 0), 1)
    similar = found.similarity[found.success]
    similarity = float(similar.mean()) if len(similar) else None
    shares = float(np.mean(~found.correct)), float(np.mean(found.success))
    return AttackResult(len(labels), *shares, similarity, float(worth.mean()))


def _table(ways: dict[str, AttackResult]) -> str:
    lines = [
        f"{'network fed':14}  patches  already wrong  attackable  similarity  "
        "adversariability"
    ]
    for way, fed in ways.items():
        similarity = "-" if fed.similarity is None else f"{fed.similarity:.4f}"
        lines.append(
            f"{way:14}  {fed.num_inputs:7}  {fed.already_wrong:13.1%}  "
            f"{fed.attackable:10.1%}  {similarity:>10}  {fed.adversariability:16.4f}"
        )
    return "\n".join(lines)


def _adversarial(attack: adversarial.Attack, attacked: jaxrob.Dataset) -> Figure:
    names = datasets.class_names(attacked)
    best = np.argsort(-np.where(attack.success, attack.similarity, -1))[:_SHOWN]
    how = {"figsize": (10, 4.6), "layout": "constrained", "squeeze": False}
    figure, panels = plt.subplots(2, _SHOWN, **how)
    for number, (above, below) in zip(best, panels.T):
        above.imshow(attacked.images[number])
        above.set_title(names[attacked.labels[number]], fontsize=9)
        if attack.success[number]:
            below.imshow(np.asarray(attack.images[number]))
            below.set_title(
                f"taken for {names[attack.predicted[number]]}\n"
                f"SSIM {attack.similarity[number]:.5f}",
                fontsize=9,
            )
        above.set_axis_off()
        below.set_axis_off()
    return figure


if __name__ == "__main__":
    app.run(main)
