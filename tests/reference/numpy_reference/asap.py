"""The 2022 paper's Algorithm 1 with one concavity, breadth first, and Theorem 1."""

from fractions import Fraction


def asap(value_at, accepted_at, threshold, parts, concavity):
    """The steps 0 ... parts that are evaluated, and the bound on the error.

    Args:
      value_at: the measure at a step, a fraction.
      accepted_at: whether it is at least the threshold.
      threshold: the threshold.
      parts: a power of 2; refinement stops at intervals of one part.
      concavity: on the range mapped to [0, 1].
    """
    threshold, concavity = Fraction(threshold), Fraction(concavity)

    def may_cross(left, right):
        if accepted_at(left) != accepted_at(right):
            return True
        # The parabola through both ends that bends towards the threshold.
        first, last = value_at(left), value_at(right)
        a = concavity if accepted_at(left) else -concavity
        width = Fraction(right - left, parts)
        slope = (last - first) / width
        # first + slope u + a u (u - width); its vertex:
        vertex = (a * width - slope) / (2 * a)
        if not 0 <= vertex <= width:
            return False
        height = first + slope * vertex + a * vertex * (vertex - width)
        return height < threshold if accepted_at(left) else height >= threshold

    steps, frontier, still_open = {0, parts}, [(0, parts)], 0
    while frontier:
        following = []
        for left, right in frontier:
            if not may_cross(left, right):
                continue
            if right - left == 1:
                still_open += 1
                continue
            middle = (left + right) // 2
            steps.add(middle)
            following += [(left, middle), (middle, right)]
        frontier = following
    return sorted(steps), Fraction(still_open, parts)
