r"""Tables II and III of the 2020 paper: four ways to retrain a network, and a fifth.

    python experiments/retraining_tables.py
    python experiments/retraining_tables.py --dataset=mnist --data_dir=... --seeds=3

Trains, for each seed, a network on unaltered images and then by data augmentation (DA),
limited data augmentation (LDA), network parallelization (NP), its limited form (LNP)
and at worst levels (WL), each on equally many images (or, with `--epochs`, for as many
epochs over its own input, as the paper). Assesses all at 41 levels of eight alterations
and prints both tables, means over the seeds, and which of the paper's findings hold,
with 95 % intervals over the seeds. What the limited methods take is measured on a tenth
of the training set, on which no network is trained.

Writes `tables.json` and one figure a method, the paper's figures 3 to 6. Networks are
kept as checkpoints and answers as JSON, so that a second run only prints; one that is
interrupted goes on where it was.
"""

import functools
import json
import pathlib
import time

import gate
import hosts
import jax
import journals
import numpy as np
import startup
from absl import app, flags
from matplotlib import pyplot as plt
from scipy import stats
from wide_ranges import WIDE

import jaxrob
from jaxrob import (
    adversarial,
    alterations,
    data,
    networks,
    retraining,
    training,
)

# The paper's abbreviations of the alterations, in the order of its table I.
_SHORT = ("HT", "VT", "Rot", "BV", "Z", "GN", "BA", "JC")

_DATASET = flags.DEFINE_enum(
    "dataset", "digits", ("digits", "mnist", "cifar10"), "Data set."
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder of data sets; by default $JAXROB_DATA_DIR."
)
_NETWORKS = {
    "mnist_cnn": networks.MnistCNN,
    "strided_cnn": networks.StridedCNN,
    "mlp": networks.MLP,
}
_NETWORK = flags.DEFINE_enum("network", "mnist_cnn", tuple(_NETWORKS), "Network.")
_SEEDS = flags.DEFINE_integer("seeds", 2, "Networks of each kind.", 1)
_IMAGES_SEEN = flags.DEFINE_integer(
    "images_seen",
    None,
    "Images that each network is trained on; by default 30,000 digits, else 600,000.",
    1,
)
_EPOCHS = flags.DEFINE_integer(
    "epochs", None, "The paper's schedule: epochs over each method's input.", 1
)
_CHOICE = flags.DEFINE_multi_enum(
    "alterations", _SHORT, _SHORT, "Which of them, one flag each; by default all."
)
_DRAW = flags.DEFINE_enum(
    "draw", "random", ("random", "grid"), "Levels trained on; grid: the authors' few."
)
_NUM_IMAGES = flags.DEFINE_integer("num_images", 2000, "Test images at most.", 1)
_LEVELS = flags.DEFINE_integer("levels", 41, "Levels of each alteration.", 2)
_THRESHOLD = flags.DEFINE_float(
    "threshold",
    None,
    "Lowest accepted accuracy; by default 0.8, 0.5 on CIFAR-10.",
    0,
    1,
)
_ATTACKED = flags.DEFINE_integer(
    "attacked", 50, "Test images attacked for the adversariability; 0: left out.", 0
)
_OUTPUT = flags.DEFINE_string("output", "results/retraining", "Folder written to.")
_PROGRESS = flags.DEFINE_bool("progress", True, "Whether progress bars are shown.")

_RANGES = {
    "digits": WIDE,
    "mnist": WIDE,
    "cifar10": alterations.presets.cnn_2020(),
}
# Images seen, batch size and threshold.
_USUAL = {
    "digits": (30_000, 64, 0.8),
    "mnist": (600_000, 128, 0.8),
    "cifar10": (600_000, 128, 0.5),
}

# Each method and the one that it is compared with, as in table II.
_METHODS = {"DA": None, "LDA": "DA", "NP": "DA", "LNP": "NP", "WL": "DA"}
_FIGURES = {"DA": 3, "LDA": 4, "NP": 5, "LNP": 6, "WL": None}
_VALIDATION = 1000

_requirements = gate.define_require("original", *_METHODS)


def main(argv):
    startup.start(argv)
    output = hosts.output(_OUTPUT.value)
    train_set = data.load(_DATASET.value, "train", _DATA_DIR.value)
    test_set = data.load(_DATASET.value, "test", _DATA_DIR.value)
    # CIFAR-10 may come ordered by class.
    test_set = test_set[:: -(-len(test_set) // _NUM_IMAGES.value)]
    tenth = np.arange(len(train_set)) % 10 == 9
    train_set, validation = train_set[~tenth], train_set[tenth]
    validation = validation[:: -(-len(validation) // _VALIDATION)]
    print(
        f"{_NETWORK.value} on {train_set.name}: {len(train_set):,} images to train on, "
        f"{len(validation):,} to find what is weak, {len(test_set):,} to test with"
    )
    seeds = [
        _one_seed(seed, train_set, validation, test_set) for seed in range(_SEEDS.value)
    ]
    print("\n".join(["", *_table_two(seeds), "", *_table_three(seeds)]))
    answers = _answers(seeds)
    print("\n" + "\n".join(answers))
    document = {
        "dataset": _DATASET.value,
        "num_images": len(test_set),
        "threshold": _threshold(),
        "settings": _settings(),
        "seeds": seeds,
        "answers": answers,
    }
    (output / "tables.json").write_text(json.dumps(document, indent=1))
    for method, number in _FIGURES.items():
        figure = _figure(seeds, method)
        name = method if number is None else f"figure{number}-{method}"
        figure.savefig(output / f"{name}.png", dpi=110)
        plt.close(figure)
    print(f"wrote {output / 'tables.json'} and {len(_FIGURES)} figures")
    gate.require(
        _requirements(),
        {
            column: {
                name: _mean(seeds, name, "robustness")[i]
                for name in ("original", *_METHODS)
            }
            for i, column in enumerate(_names())
        },
    )


def _one_seed(seed, train_set, validation, test_set):
    """For each network its size, time, accuracy, robustness and curves."""
    some = _alterations()
    folder = pathlib.Path(_OUTPUT.value) / "networks" / _settings() / f"seed{seed}"
    key, train_key, validation_key = jax.random.split(jax.random.key(seed), 3)
    module = _NETWORKS[_NETWORK.value](num_classes=len(train_set.class_names))
    original, seconds = _timed(
        folder / "original",
        lambda **kept: training.fit(module, train_set, key=train_key, **kept),
    )
    measured = _measured(
        folder / "weak.json",
        lambda: {
            "robustness": [
                assessment.robustness
                for assessment in _assess(
                    original, validation, validation_key, f"seed{seed}-weak"
                )
            ]
        },
        num_images=len(validation),
    )["robustness"]
    weak = [a for a, value in zip(some, measured) if value < 1]
    sizes = retraining.input_sizes(len(train_set), some, weak)
    sizes["WL"] = sizes["DA"]
    print(
        f"seed {seed}: weak at "
        + ", ".join(name for name, value in zip(_names(), measured) if value < 1)
    )
    limited = {"robustness": measured}
    ways = {
        "DA": (retraining.data_augmentation, {"levels": _DRAW.value}),
        "LDA": (
            retraining.limited_data_augmentation,
            limited | {"levels": _DRAW.value},
        ),
        "NP": (
            retraining.network_parallelization,
            {"classifier": original, "levels": _DRAW.value},
        ),
        "LNP": (
            retraining.limited_network_parallelization,
            limited | {"classifier": original, "levels": _DRAW.value},
        ),
        "WL": (retraining.worst_level, {}),
    }
    found = {}
    for name in ("original", *ways):
        if name == "original":
            classifier = original
        else:
            method, given = ways[name]

            def train(method=method, given=given, **kept):
                return method(module, train_set, some, key=train_key, **given, **kept)

            classifier, seconds = _timed(folder / name, train)
        answers = _measured(
            folder / f"{name}.json",
            lambda classifier=classifier, name=name: _answers_of(
                classifier, test_set, key, f"seed{seed}-{name}"
            ),
            num_images=len(test_set),
        )
        found[name] = {
            "input_size": sizes[name],
            "seconds": seconds,
            "copies": _copies(name, weak),
            **answers,
        }
        print(
            f"  {name:8} {found[name]['accuracy']:.2%} right, robustness "
            f"{np.mean(found[name]['robustness']):.2%}, trained in {seconds:.0f} s"
        )
    return found


def _timed(folder, train):
    """A network, from its checkpoint if it is there, and the seconds it took."""
    usual_images, batch_size, _ = _USUAL[_DATASET.value]
    schedule = {"images_seen": _IMAGES_SEEN.value or usual_images}
    if _EPOCHS.value is not None:
        schedule = {"epochs": _EPOCHS.value}
    clock = folder.with_name(f"{folder.name}-seconds.json")
    start = time.perf_counter()
    classifier = train(
        **schedule,
        batch_size=batch_size,
        checkpoint=folder,
        mesh=hosts.mesh(),
        progress=_PROGRESS.value,
    )
    if (kept := hosts.read(clock)) is None:
        # Of one that was interrupted, the time of its last part.
        kept = json.dumps(time.perf_counter() - start).encode()
        hosts.write(clock, kept)
    return classifier, json.loads(kept)


def _measured(path, measure, **settings):
    """What `measure` finds, from its file if that has the same settings."""
    settings |= {
        "levels": _LEVELS.value,
        "threshold": _threshold(),
        "attacked": _ATTACKED.value,
        "alterations": [
            f"{alteration.name} {alteration.lower:g} {alteration.upper:g}"
            for alteration in _alterations()
        ],
    }
    if (kept := hosts.read(path)) is not None:
        known = json.loads(kept)
        if known["settings"] == settings:
            return known["found"]
    found = measure()
    hosts.write(path, json.dumps({"settings": settings, "found": found}).encode())
    return found


def _assess(classifier, dataset, key, name):
    return jaxrob.assess(
        classifier,
        dataset,
        _alterations(),
        _threshold(),
        strategy=jaxrob.strategies.Uniform(_LEVELS.value),
        key=key,
        journal=journals.path(f"{_settings()}-{name}"),
        mesh=hosts.mesh(),
        progress=_PROGRESS.value,
    )


def _answers_of(classifier, test_set, key, name):
    assessments = _assess(classifier, test_set, key, name)
    at_identity = jaxrob.evaluate(
        classifier,
        test_set,
        alterations.brightness(),
        [0.0],
        key=key,
        mesh=hosts.mesh(),
    )
    found = {
        "accuracy": float(at_identity.accuracy[0]),
        "robustness": [assessment.robustness for assessment in assessments],
        "curves": [
            {"levels": list(a.levels), "accuracy": [float(v) for v in a.values]}
            for a in assessments
        ],
        "adversariability": None,
    }
    if _ATTACKED.value:
        attacked = test_set[:: -(-len(test_set) // _ATTACKED.value)]
        score = adversarial.adversariability(
            classifier,
            attacked.images,
            attacked.labels,
            attack=functools.partial(adversarial.lbfgs, mesh=hosts.mesh()),
        )
        found["adversariability"] = float(score.value)
    return found


def _copies(name, weak):
    if name == "original":
        return [0] * len(_names())
    return [
        retraining.copies(alteration) if "L" != name[0] or alteration in weak else 0
        for alteration in _alterations()
    ]


def _names():
    return [name for name in _SHORT if name in _CHOICE.value]


def _alterations():
    named = zip(_SHORT, _RANGES[_DATASET.value])
    return [alteration for name, alteration in named if name in _CHOICE.value]


def _threshold():
    return _USUAL[_DATASET.value][2] if _THRESHOLD.value is None else _THRESHOLD.value


def _settings():
    """The folder of networks trained alike."""
    seen = _IMAGES_SEEN.value or _USUAL[_DATASET.value][0]
    schedule = f"{seen}-images" if _EPOCHS.value is None else f"{_EPOCHS.value}-epochs"
    chosen = "-".join(_names()) if len(_names()) < len(_SHORT) else "all"
    return f"{_DATASET.value}-{_NETWORK.value}-{schedule}-{_DRAW.value}-{chosen}"


def _mean(seeds, method, what):
    return np.mean([seed[method][what] for seed in seeds], axis=0)


def _table_two(seeds):
    """Robustness by alteration and method, and the differences [%]."""
    mean = {
        name: 100 * _mean(seeds, name, "robustness") for name in ("original", *_METHODS)
    }
    head = f"{'':5}{'C_o':>8} "
    under = f"{'Alt.':5}{'rob':>8} "
    for method, other in _METHODS.items():
        width = 22 if other is None else 29
        head += " |" + f"C_{method}".center(width)
        under += f" |{'xn':>5}{'rob':>8}{'d C_o':>8} "
        under += "" if other is None else f"{f'd {other}':>7}"
    lines = [
        f"Table II, robustness [%], mean over seeds: {len(seeds)} "
        f"(accuracy of at least {_threshold():g})",
        head,
        under,
    ]
    for i, name in enumerate((*_names(), "AVG")):
        values = {
            method: some.mean() if name == "AVG" else some[i]
            for method, some in mean.items()
        }
        line = f"{name:5}{values['original']:8.2f} "
        for method, other in _METHODS.items():
            copies = _mean(seeds, method, "copies")
            times = "" if name == "AVG" else f"{copies[i]:.3g}"
            line += f" |{times:>5}{values[method]:8.2f}"
            line += f"{values[method] - values['original']:+8.2f} "
            if other is not None:
                line += f"{values[method] - values[other]:+7.2f}"
        lines.append(line)
    return lines


def _table_three(seeds):
    """A summary of the methods."""
    lines = [
        f"Table III, mean over seeds: {len(seeds)}",
        f"{'C':8}{'input size':>12}{'train. time':>13}{'accuracy':>10}"
        f"{'avg rob.':>10}{'adversariability':>18}",
    ]
    for name in ("original", *_METHODS):
        score = seeds[0][name]["adversariability"]
        score = (
            "-" if score is None else f"{_mean(seeds, name, 'adversariability'):.3f}"
        )
        lines.append(
            f"{name:8}{_mean(seeds, name, 'input_size'):12,.0f}"
            f"{_mean(seeds, name, 'seconds'):11.0f} s"
            f"{_mean(seeds, name, 'accuracy'):10.2%}"
            f"{_mean(seeds, name, 'robustness').mean():10.2%}{score:>18}"
        )
    return lines


def _answers(seeds):
    """Which of the paper's findings hold."""

    def rob(name):
        return np.array([np.mean(seed[name]["robustness"]) for seed in seeds])

    def acc(name):
        return np.array([seed[name]["accuracy"] for seed in seeds])

    lines = ["findings; differences in percentage points [95 % interval over seeds]"]
    fewer = _mean(seeds, "LDA", "input_size") < _mean(seeds, "DA", "input_size")
    lines += [
        _line("robustness LDA - DA (paper: +2.48)", rob("LDA") - rob("DA"), equal=True)
        + f"; of {'fewer' if fewer else 'more'} inputs",
        _line("robustness NP - original (paper: +6.71)", rob("NP") - rob("original")),
        _line("robustness DA - NP (paper: +14.63)", rob("DA") - rob("NP")),
        _line("robustness LDA - LNP (paper: +16.20)", rob("LDA") - rob("LNP")),
        _line("robustness LNP - NP (paper: +0.91)", rob("LNP") - rob("NP"), equal=True),
    ]
    for name in _METHODS:
        paper = {"DA": 0.11, "LDA": 0.18, "NP": 0.64, "LNP": 0.05}.get(name)
        paper = "" if paper is None else f" (paper: +{paper:.2f})"
        lines.append(
            _line(
                f"accuracy on unaltered images {name} - original{paper}",
                acc(name) - acc("original"),
                equal=True,
            )
        )
    for name in _METHODS:
        far, near = _gains(seeds, name)
        lines.append(
            _line(f"accuracy gained by {name}, far levels - near ones", far - near)
        )
    lines.append(_line("robustness WL - DA (not in the paper)", rob("WL") - rob("DA")))
    lines.append(_line("robustness WL - LDA (likewise)", rob("WL") - rob("LDA")))
    return lines + _correlation(seeds)


def _gains(seeds, name):
    """Mean accuracy gained beyond half of the range's way from the identity, within.

    Of the alterations to which the original's robustness is below 100 %.
    """
    far, near = [], []
    for seed in seeds:
        original, retrained = seed["original"], seed[name]
        gains = [[], []]
        for i, alteration in enumerate(_alterations()):
            if original["robustness"][i] == 1:
                continue
            levels = np.array(original["curves"][i]["levels"])
            away = levels - alteration.identity
            end = np.where(away < 0, alteration.lower, alteration.upper)
            span = np.where(away == 0, 1.0, end - alteration.identity)
            share = away / span
            gain = np.subtract(
                retrained["curves"][i]["accuracy"], original["curves"][i]["accuracy"]
            )
            gains[0].append(gain[share > 0.5].mean())
            gains[1].append(gain[share <= 0.5].mean())
        far.append(np.mean(gains[0]) if gains[0] else 0.0)
        near.append(np.mean(gains[1]) if gains[1] else 0.0)
    return np.array(far), np.array(near)


def _line(what, differences, equal=False):
    """A difference with its interval and verdict; `equal`: none is as good as more."""
    mean = 100 * np.mean(differences)
    text = f"{what}: {mean:+.2f}"
    if len(differences) < 2:
        return f"{text}; one seed, no interval"
    if np.ptp(differences) < 1e-9:
        # Robustness comes in multiples of a level's share.
        return f"{text} for every seed; no interval"
    low, high = _interval(100 * differences)
    if low > 0:
        verdict = "holds"
    elif high < 0:
        verdict = "does not hold"
    else:
        verdict = "equal within the interval" if equal else "not decided"
    return f"{text} [{low:+.2f}, {high:+.2f}]; {verdict}"


def _interval(values):
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return np.mean(values) - half, np.mean(values) + half


def _correlation(seeds):
    """Of robustness and adversariability, over the methods' means."""
    if not _ATTACKED.value:
        return []
    names = ("original", *_METHODS)
    robustness = [_mean(seeds, name, "robustness").mean() for name in names]
    score = [_mean(seeds, name, "adversariability") for name in names]
    found = stats.spearmanr(robustness, score)
    verdict = "no correlation shown" if found.pvalue > 0.05 else "correlated"
    return [
        f"robustness and adversariability, rank correlation over the {len(names)} "
        f"networks' means: {found.statistic:+.2f}, p = {found.pvalue:.2f}; {verdict}"
    ]


def _figure(seeds, method):
    """Accuracy over the level: original dashed, retrained solid."""
    figure, panels = plt.subplots(2, 4, figsize=(14, 6.4), layout="constrained")
    some = _alterations()
    for i, (axes, alteration) in enumerate(zip(panels.flat, some)):
        for name, style, colour in (
            ("original", "--", "tab:gray"),
            (method, "-", "tab:blue"),
        ):
            levels = seeds[0][name]["curves"][i]["levels"]
            curves = [seed[name]["curves"][i]["accuracy"] for seed in seeds]
            axes.plot(levels, np.mean(curves, axis=0), style, color=colour, label=name)
            axes.fill_between(
                levels,
                np.min(curves, 0),
                np.max(curves, 0),
                color=colour,
                alpha=0.2,
                lw=0,
            )
        axes.axhline(_threshold(), color="black", lw=0.8, ls=":", label="threshold")
        robustness = [
            _mean(seeds, name, "robustness")[i] for name in ("original", method)
        ]
        axes.set_title(
            f"{alteration.name}\nrobustness {robustness[0]:.1%} to {robustness[1]:.1%}",
            fontsize=10,
        )
        axes.set_xlabel(f"level [{alteration.unit}]" if alteration.unit else "level")
        axes.set_ylim(-0.02, 1.02)
    for axes in panels.flat[len(some) :]:
        axes.set_axis_off()
    for axes in panels[:, 0]:
        axes.set_ylabel("accuracy")
    panels.flat[0].legend(loc="lower center", fontsize=9)
    return figure


if __name__ == "__main__":
    app.run(main)
