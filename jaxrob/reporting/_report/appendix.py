"""A report's words, methods, and what it says of many intervals at once."""

import contextlib
from collections.abc import Mapping, Sequence

from jaxrob._arguments.texts import counted
from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.paired import most_swaps
from jaxrob._curve import ScoreCurve
from jaxrob.metrics._bands import num_resamples
from jaxrob.metrics._measures import MeanScore, any_measure, in_words, top_k
from jaxrob.metrics._testing import num_rank_resamples
from jaxrob.reporting._report.parts import line, sentences
from jaxrob.reporting._results import Results
from jaxrob.reporting._words import level_of, percent_of

Pairs = list[tuple[str, str]]


def glossary(results: Sequence[Results]) -> Pairs:
    """The words of these results that not every reader knows, and their meanings."""
    ones = [each for one in results for each in one.assessments]
    say = sentences()["words"]
    found: Pairs = []
    if ones:
        level = level_of(ones)
        scores = {one.measure: one for one in ones if isinstance(one.curve, ScoreCurve)}
        tops = sorted({top_k(one.measure) or 0 for one in ones} - {0})
        found += _of(say, "level", "accepted, good enough")
        found += _of(
            say, *["accuracy"] * any(one.measure == "accuracy" for one in ones)
        )
        found += [
            (name, say["score"].format(score=getattr(one.curve, "score", "")))
            for name, one in scores.items()
        ]
        found += [(f"top-{k} accuracy", say["top_k"].format(k=k)) for k in tops]
        found.append(
            (f"{level} interval, {level} band", say["interval"].format(level=level))
        )
        found += _of(say, "points", "digest")
        found += _of(say, *["ASAP"] * any("ASAP(" in one.strategy for one in ones))
        found += _of(say, *["p-value"] * (len(results) > 1))
        rules = sentences()["rules"]
        used = dict.fromkeys(one.rule for one in ones if one.rule in rules)
        found += [(f"rule “{rule}”", rules[rule]) for rule in used]
        found += _of(say, "seen by half", "jitter")
        unknown = any(one.curve.alpha is not None for one in ones)
        found += _of(say, *["decided"] * unknown)
    return found + _of(say, *["RoMA"] * any(one.roma is not None for one in results))


def methods(results: Sequence[Results], comparisons: int) -> Pairs:
    """The statistical methods of these results: pairs of a number and a text."""
    ones = [each for one in results for each in one.assessments]
    every = [one for one in ones if one.sampling is None]
    say = sentences()["methods"]
    found = [
        (f"band of {measure} at a level", _band(one))
        for measure, one in {in_words(one.measure): one for one in every}.items()
    ]
    found += _of(say, *["interval of a robustness"] * bool(every))
    found += _of(say, *["few images"] * (len(every) < len(ones)))
    if comparisons:
        level = max(one.confidence_level for one in ones)
        swaps, number = most_swaps(level), num_resamples(level)
        names = "interval of a difference", "p-value of a difference"
        found += _of(say, *names, number=number, swaps=swaps, least=1 / (swaps + 1))
    if len(results) > 1 and ones:
        level = min(one.confidence_level for one in ones)
        # Beyond that there are no ranks, as the first page says.
        with contextlib.suppress(ValueError):
            found += _of(say, "ranks", number=num_rank_resamples(level))
    return found


def _of(say: Mapping[str, str], *names: str, **values: object) -> Pairs:
    return [(name, say[name].format(**values)) for name in names]


def _band(one: Assessment) -> str:
    measure = any_measure(one.measure)
    if isinstance(measure, MeanScore) or isinstance(one.curve, ScoreCurve):
        return "Gaffke's interval for the mean of bounded scores (2005)"
    if measure.is_proportion and measure.single_ratio(one.curve.counts) is not None:
        return "Wilson's score interval (1927)"
    number = num_resamples(one.confidence_level)
    return f"percentile bootstrap over images (Efron, 1979), {number:,} resamples"


def multiplicity(results: Sequence[Results], comparisons: int) -> list[str]:
    ones = [each for one in results for each in one.assessments]
    romas = [one.roma for one in results if one.roma is not None]
    number, level = len(ones), level_of(ones or romas)
    # The lowest of several confidence levels.
    error = 1 - min((one.confidence_level for one in ones or romas), default=0.95)
    intervals = counted(number, "interval")
    words = [line("number_of_intervals", intervals=intervals, level=level)]
    if number > 1:
        chance = f"{100 * min(1, error * number):.3g}"
        # 100 % less an error, in as many digits as that takes.
        each = f"{100 - float(f'{100 * error / number:.3g}'):.10g}"
        words.append(
            line(
                "adjusted",
                number=number,
                miss=f"{error * number:.3g}",
                chance=chance,
                each=each,
                all=percent_of(1 - error),
            )
        )
    of_classes = not ones or any(one.curve.num_classes for one in ones)
    more = line("bands_of_classes") * of_classes
    words.append(line("bands", level=level, of_classes=more))
    if comparisons:
        words.append(
            line(
                "comparisons",
                comparisons=counted(comparisons, "comparison"),
                level=level,
                number=2 * comparisons,
                error=percent_of(error),
            )
        )
    if romas:
        inputs = counted(sum(len(one.plr) for one in romas), "interval")
        words.append(line("intervals_of_roma", intervals=inputs, level=level_of(romas)))
    return [*words, line("verdicts", level=level)]
