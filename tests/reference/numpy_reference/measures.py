"""Quality measures as exact fractions, from counts of one level `[K, K + 1]`.

None is a measure that is not defined.
"""

import math
from fractions import Fraction
from statistics import NormalDist


def accuracy(counts):
    decided = sum(int(counts[k, :-1].sum()) for k in range(len(counts)))
    return ratio(correct(counts), decided, otherwise=Fraction(1))


def decided_ratio(counts):
    return 1 - Fraction(int(counts[:, -1].sum()), int(counts.sum()))


def indecision(counts):
    return Fraction(int(counts[:, -1].sum()), int(counts.sum()))


def effectiveness(counts):
    return Fraction(correct(counts), int(counts.sum()) + int(counts[:, -1].sum()))


def recall(counts):
    return of_classes(counts, class_recall)


def precision(counts):
    return of_classes(counts, class_precision)


def f1(counts):
    return of_classes(counts, class_f1)


def class_recall(counts, k):
    return ratio(int(counts[k, k]), int(counts[k, :-1].sum()))


def class_precision(counts, k):
    # A class that is never given has precision 0, if it has decided inputs.
    never = Fraction(0) if counts[k, :-1].sum() else None
    return ratio(int(counts[k, k]), int(counts[:, k].sum()), otherwise=never)


def class_f1(counts, k):
    of_given, of_class = class_precision(counts, k), class_recall(counts, k)
    if of_given is None:
        return None
    if not of_given or not of_class:
        return Fraction(0)
    return 2 / (1 / of_given + 1 / of_class)


def of_classes(counts, measure):
    """Class 1 of two; of more the mean over those for which it is defined."""
    if len(counts) == 2:
        return measure(counts, 1)
    values = [measure(counts, k) for k in range(len(counts))]
    values = [value for value in values if value is not None]
    return sum(values, Fraction(0)) / len(values) if values else None


MEASURES = {
    "accuracy": accuracy,
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "effectiveness": effectiveness,
    "decided_ratio": decided_ratio,
}


def wilson(successes, total, confidence=0.95):
    """The ends of Wilson's interval, the roots of (s/n - p)^2 = z^2 p (1 - p) / n."""
    if total == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / total
    # (1 + z^2/n) p^2 - (2 share + z^2/n) p + share^2 = 0
    a, b, c = 1 + z**2 / total, 2 * share + z**2 / total, share**2
    root = math.sqrt(b**2 - 4 * a * c)
    return (b - root) / (2 * a), (b + root) / (2 * a)


def shares(counts, measure):
    """The measure as a proportion, (successes, total); None if it is none."""
    if measure == "accuracy":
        return correct(counts), int(counts[:, :-1].sum())
    if measure == "decided_ratio":
        return int(counts[:, :-1].sum()), int(counts.sum())
    if measure == "recall" and len(counts) == 2:
        return int(counts[1, 1]), int(counts[1, :-1].sum())
    return None


def correct(counts):
    return sum(int(counts[k, k]) for k in range(len(counts)))


def ratio(above, below, otherwise=None):
    return Fraction(above, below) if below else otherwise
