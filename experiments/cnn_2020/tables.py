"""Tables II and III of the paper, with a fifth method."""

from collections.abc import Sequence

from cnn_2020.results import METHODS, NETWORKS, Seed, mean


def robustness(seeds: Sequence[Seed], names: Sequence[str], threshold: float) -> str:
    """Returns table II: robustness by alteration and method, and differences [%]."""
    means = {network: 100 * mean(seeds, network, "robustness") for network in NETWORKS}
    head = f"{'':5}{'C_o':>8} "
    under = f"{'Alt.':5}{'rob':>8} "
    for method, other in METHODS.items():
        width = 22 if other is None else 29
        head += " |" + f"C_{method}".center(width)
        under += f" |{'xn':>5}{'rob':>8}{'d C_o':>8} "
        under += "" if other is None else f"{f'd {other}':>7}"
    lines = [
        f"Table II, robustness [%], mean over seeds: {len(seeds)} "
        f"(accuracy of at least {threshold:g})",
        head,
        under,
    ]
    for i, name in enumerate(names):
        values = {network: some[i] for network, some in means.items()}
        copies = {
            method: f"{mean(seeds, method, 'copies')[i]:.3g}" for method in METHODS
        }
        lines.append(_robustness_line(name, values, copies))
    averages = {network: some.mean() for network, some in means.items()}
    lines.append(_robustness_line("AVG", averages, dict.fromkeys(METHODS, "")))
    return "\n".join(lines)


def _robustness_line(
    name: str, values: dict[str, float], copies: dict[str, str]
) -> str:
    line = f"{name:5}{values['original']:8.2f} "
    for method, other in METHODS.items():
        line += f" |{copies[method]:>5}{values[method]:8.2f}"
        line += f"{values[method] - values['original']:+8.2f} "
        if other is not None:
            line += f"{values[method] - values[other]:+7.2f}"
    return line


def summary(seeds: Sequence[Seed]) -> str:
    """Returns table III: a summary of the methods."""
    lines = [
        f"Table III, mean over seeds: {len(seeds)}",
        f"{'C':8}{'input size':>12}{'train. time':>13}{'accuracy':>10}"
        f"{'avg rob.':>10}{'adversariability':>18}",
    ]
    for name in NETWORKS:
        score = "-"
        if seeds[0][name]["adversariability"] is not None:
            score = f"{mean(seeds, name, 'adversariability'):.3f}"
        lines.append(
            f"{name:8}{mean(seeds, name, 'input_size'):12,.0f}"
            f"{mean(seeds, name, 'seconds'):11.0f} s"
            f"{mean(seeds, name, 'accuracy'):10.2%}"
            f"{mean(seeds, name, 'robustness').mean():10.2%}{score:>18}"
        )
    return "\n".join(lines)
