r"""Figures 5 to 10 of the 2022 paper, each as PNG with its numbers as JSON.

    python experiments/asap_figures.py
    python experiments/asap_figures.py --benchmark=idc --data_dir=...

5: two synthetic functions of known robustness. 6: the levels of numerical integration.
7: the scatter of random sampling. 8 and 9: ASAP's levels, over n. 10: ASAP's
robustness, over n. Figures 6 to 10 replay each strategy on curves of many levels:
ASAP's levels are among the curves' levels; other values are interpolated linearly.
All results are written into the folder `--output`; the curves are kept there, so an
interrupted run resumes. On the digits it takes a few minutes on two CPU cores; seconds
if `asap_table1.py` has left its curves.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from absl import app, flags
from common import benchmarks, define, files, startup
from common.quadrature import Quadrature, robustness_by_quad
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import jaxrob
from jaxrob.metrics import heaviside_robustness
from jaxrob.strategies import ASAP, History, Random, Strategy, Task, Uniform, sample

flags.adopt_module_key_flags(benchmarks)
_N = define.n()
_REPETITIONS = flags.DEFINE_integer("repetitions", 100, "Of random sampling.", 1)

_COLOURS = [f"C{number}" for number in range(10)]

# Assessments at all levels of the grid, by the alteration's name.
_Curves = Mapping[str, jaxrob.Assessment]
# A figure, and its numbers as values that JSON can hold.
_Result = tuple[Figure, Any]


def main(argv: Sequence[str]) -> None:
    startup.start(argv)
    output = benchmarks.output()
    _save(output / "figure5", _figure_5())
    benchmark = benchmarks.load()
    curves = {
        alteration.name: benchmarks.dense(benchmark, alteration, _N.value + 1, "right")
        for alteration in benchmark.alterations
    }
    figures = (_figure_6, _figure_7, _figure_8, _figure_9, _figure_10)
    for number, figure in enumerate(figures, 6):
        _save(output / f"figure{number}-{benchmarks.title()}", figure(curves))


def _save(path: Path, result: _Result) -> None:
    figure, numbers = result
    figure.savefig(path.with_suffix(".png"), dpi=110)
    plt.close(figure)
    files.write_json(path.with_suffix(".json"), numbers)
    print(f"wrote {path}.png and .json")


# Two accuracy curves over [0, 1] whose robustness at 0.8 is exact: the paper prints the
# robustness of its curves, but no formula.


def bump(level: np.ndarray) -> np.ndarray:
    """Is at least 0.8 on [0.35, 0.75]: a robustness of 40.00 %."""
    around = np.cos(2 * np.pi * (level - 0.55) / 1.1)
    return 0.8 + 0.18 * (around - math.cos(2 * np.pi * 0.2 / 1.1))


def dip(level: np.ndarray) -> np.ndarray:
    """Is below 0.8 on (0.3, 0.43) and (0.934, 1]: a robustness of 80.40 %."""
    return 0.8 + 1.5 * (level - 0.3) * (level - 0.43) * (0.934 - level) * (1 + level)


def _figure_5() -> _Result:
    figure, panels = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained")
    task, fine, numbers = Task(0.0, 1.0, 0.8), np.linspace(0, 1, 1001), []
    strategies = Uniform(50), ASAP(64, 256.0), ASAP(1024)
    names = "uniform", "ASAP a=256", "ASAP auto"
    print("figure 5: levels, robustness by the paper's sum and with crossings on lines")
    for function, truth, row in zip((bump, dip), (0.4, 0.804), panels):
        for strategy, which, axes in zip(strategies, names, row):
            found, _ = sample(strategy, task, function)
            by_rule = {
                rule: heaviside_robustness(found.levels, found.values, 0.8, rule)
                for rule in (strategy.rule, "linear")
            }
            name, levels = f"{function.__name__}, {which}", len(found.levels)
            own, linear = (f"{by_rule[rule]:.2%}" for rule in (strategy.rule, "linear"))
            print(f"  {name}: {levels} levels, {own}, {linear}; true {truth:.2%}")
            title = f"{name}\n{levels} levels, {own} of {truth:.2%}"
            _plot_levels(axes, (fine, function(fine)), found, 0.8, title, 4)
            number = {"function": function.__name__, "strategy": repr(strategy)}
            number |= {"truth": truth, "robustness": by_rule}
            numbers.append(number | {"levels": found.levels, "values": found.values})
    return figure, numbers


def _plot_levels(
    axes: Axes, curve: Any, found: History, threshold: float, title: str, size: int
) -> None:
    axes.plot(*curve, color="0.6", linewidth=1)
    axes.plot(found.levels, found.values, "o", color=_COLOURS[0], markersize=size)
    axes.axhline(threshold, color="#c0392b", linestyle="--", linewidth=1)
    axes.set_title(title, fontsize=10)
    axes.set(xlabel="level", ylabel="accuracy")


def _figure_6(curves: _Curves) -> _Result:
    name = _nearest_to_half(curves)
    curve = curves[name]
    found = _replay(curve, Quadrature())
    robustness = robustness_by_quad(
        found.levels, found.values, curve.threshold, (curve.lower, curve.upper)
    )
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    result = "timeout" if math.isnan(robustness) else f"{robustness:.2%}"
    title = (
        f"numerical integration, {name}: {len(found.levels)} levels, {result} "
        f"of {curve.robustness:.2%}"
    )
    values = curve.levels, curve.values
    _plot_levels(axes, values, found, curve.threshold, title, 3)
    print(f"figure 6: {name}: {len(found.levels)} levels, {result}")
    numbers = {"alteration": name, "robustness": files.without_nan(robustness)}
    numbers |= {"oracle": curve.robustness, "levels": found.levels}
    return figure, numbers | {"values": found.values}


def _figure_7(curves: _Curves) -> _Result:
    """Shows vertical translation and brightness, as the paper, and one more."""
    names = dict.fromkeys(
        ("vertical translation", "brightness", _nearest_to_half(curves))
    )
    sizes = [size for size in (10, 20, 50, 100, 200, 500) if size <= _N.value]
    figure, panels = plt.subplots(
        1, len(names), figsize=(4.6 * len(names), 4), layout="constrained"
    )
    numbers = []
    for name, axes in zip(names, np.atleast_1d(panels)):
        curve = curves[name]
        seeds = range(_REPETITIONS.value)
        robustness = {
            size: [_robustness(curve, Random(size, seed)) for seed in seeds]
            for size in sizes
        }
        axes.boxplot([100 * np.array(some) for some in robustness.values()])
        axes.set_xticks(range(1, len(sizes) + 1), sizes)
        axes.axhline(100 * curve.robustness, color="#c0392b", linestyle="--")
        axes.set_title(f"random sampling, {name}", fontsize=10)
        axes.set(xlabel="levels", ylabel="robustness [%]", ylim=(-3, 103))
        number = {"alteration": name, "oracle": curve.robustness}
        numbers.append(number | {"robustness": robustness})
        scatter = ", ".join(
            f"{np.std(some):.2%} of {size}" for size, some in robustness.items()
        )
        print(
            f"figure 7: {name}: robustness {curve.robustness:.2%}, standard deviation "
            f"{scatter} levels"
        )
    return figure, numbers


def _figure_8(curves: _Curves) -> _Result:
    strategies = {
        name: [ASAP(n, benchmarks.concavity(curve, 2)) for n in _sizes()]
        for name, curve in curves.items()
    }
    return _points_over_n("figure 8", "a = 2", curves, strategies)


def _figure_9(curves: _Curves) -> _Result:
    """Shows Gaussian noise, as the paper, for fixed and automatic concavities."""
    name = "gaussian noise"
    strategies = _by_concavity(curves[name])
    same = dict.fromkeys(strategies, curves[name])
    return _points_over_n("figure 9", name, same, strategies)


def _figure_10(curves: _Curves) -> _Result:
    """Shows the error on Gaussian noise, as the paper, and a second alteration."""
    names = dict.fromkeys(("gaussian noise", _nearest_to_half(curves)))
    figure, panels = plt.subplots(
        1, len(names), figsize=(5.2 * len(names), 4.2), layout="constrained"
    )
    numbers = []
    for name, axes in zip(names, np.atleast_1d(panels)):
        curve = curves[name]
        for colour, (label, some) in zip(_COLOURS, _by_concavity(curve).items()):
            robustness = [_robustness(curve, strategy) for strategy in some]
            axes.plot(_sizes(), 100 * np.array(robustness), color=colour, label=label)
            about = {"alteration": name, "name": label, "n": _sizes()}
            found = {"robustness": robustness, "oracle": curve.robustness}
            numbers.append(about | found)
            errors = [abs(some - curve.robustness) for some in robustness]
            middle = len(errors) // 2
            print(
                f"figure 10: {name}, {label}: off the oracle by {errors[0]:.2%} at "
                f"n = {_sizes()[0]}, {errors[middle]:.2%} at "
                f"{_sizes()[middle]}, {errors[-1]:.2%} at {_sizes()[-1]}"
            )
        axes.axhline(100 * curve.robustness, color="0.4", linestyle=":")
        axes.set_xscale("log", base=2)
        axes.set_title(f"ASAP's robustness over n, {name}", fontsize=10)
        axes.set(xlabel="n", ylabel="robustness [%]")
        axes.legend(fontsize=8)
    return figure, numbers


def _points_over_n(
    which: str,
    title: str,
    curves: _Curves,
    strategies: Mapping[str, Iterable[Strategy]],
) -> _Result:
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    numbers = []
    for colour, (name, some) in zip(_COLOURS, strategies.items()):
        points = [len(_replay(curves[name], strategy).levels) for strategy in some]
        axes.plot(_sizes(), points, marker="o", markersize=3, color=colour, label=name)
        numbers.append({"name": name, "n": _sizes(), "points": points})
        print(f"{which}: {name}: {points[-1]} levels at n = {_N.value}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_title(f"ASAP's levels over n, {title}", fontsize=10)
    axes.set(xlabel="n", ylabel="levels")
    axes.legend(fontsize=8)
    return figure, numbers


def _by_concavity(curve: jaxrob.Assessment) -> dict[str, list[ASAP]]:
    strategies = {
        f"a = {a}": [ASAP(n, benchmarks.concavity(curve, a)) for n in _sizes()]
        for a in (2, 32, 128, 256)
    }
    auto = [ASAP(n, statistical_stopping=False) for n in _sizes()]
    return strategies | {"auto": auto}


def _sizes() -> list[int]:
    return [2**k for k in range(3, _N.value.bit_length())]


def _robustness(curve: jaxrob.Assessment, strategy: Strategy) -> float:
    found = _replay(curve, strategy)
    return heaviside_robustness(
        found.levels, found.values, curve.threshold, strategy.rule
    )


def _replay(curve: jaxrob.Assessment, strategy: Strategy) -> History:
    num_inputs = int(curve.curve.confusion[0].sum())
    task = Task(curve.lower, curve.upper, curve.threshold, curve.identity)
    step = (curve.upper - curve.lower) / (len(curve.levels) - 1)

    def value(levels: np.ndarray) -> np.ndarray:
        position = (levels - curve.lower) / step
        nearest = np.rint(position).astype(int)
        # Exact on the grid, because a value there may lie on the threshold.
        return np.where(
            np.abs(position - nearest) < 1e-6,
            curve.values[nearest],
            np.interp(levels, curve.levels, curve.values),
        )

    return sample(strategy, task, value, num_inputs)[0]


def _nearest_to_half(curves: _Curves) -> str:
    return min(curves, key=lambda name: abs(curves[name].robustness - 0.5))


if __name__ == "__main__":
    app.run(main)
