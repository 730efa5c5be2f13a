"""Texts about a robustness from few images, for tables, plots and reports."""

from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.document import Sampling

_ENDED = {
    "precise": "it is as precise as was asked for",
    "certain": "it was certain whether what is required is reached",
    "compared": "the comparison that it is part of was decided",
    "budget": "the budget was spent",
    "resolution": "the levels lie as close as the choice of levels allows",
}


def sampling_of(one: Assessment) -> Sampling:
    """Returns an assessment's sampling."""
    if one.sampling is None:
        raise ValueError(f"{one.alteration} was assessed on all images")
    return one.sampling


def full_evaluations(one: Assessment) -> int:
    """Returns the number of altered images that all images would take."""
    return one.diagnostics.points * sampling_of(one).num_images


def request_text(sampling: Sampling) -> str:
    """Describes the half width or the budget that was asked for."""
    said = []
    if sampling.half_width:
        said.append(f"within {sampling.half_width:g}")
    elif sampling.curtail or sampling.half_width == 0:
        said.append("the answer of all images")
    if sampling.budget is not None:
        said.append(f"at most {sampling.budget:,} altered images in all")
    if sampling.error is None:
        return "nothing, the strategy decides"
    return ", ".join(said) or "whether what is required is reached"


def confidence_text(sampling: Sampling) -> str:
    """Describes the confidence in statements about the data set."""
    if sampling.error is None:
        return "as its strategy says"
    if not sampling.error:
        return "for certain"
    return f"with {100 * (1 - sampling.error):g} % confidence"


def ending_text(sampling: Sampling) -> str:
    """Describes why sampling ended."""
    if sampling.error is None and sampling.status == "precise":
        return "its strategy found it precise enough"
    return _ENDED[sampling.status]


def is_open_by_levels(sampling: Sampling) -> bool:
    """Whether only the choice of levels leaves an error, as with all images."""
    # It does if the answer of all images was requested and found, or if no finer levels
    # exist.
    is_found = sampling.status == "precise" and not sampling.half_width
    return (is_found and sampling.error is not None) or sampling.status == "resolution"


def seen(sampling: Sampling) -> str:
    """Returns the number of images, at the levels with the fewest and the most."""
    fewest, most = int(sampling.seen.min()), int(sampling.seen.max())
    return f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"


def images_at_levels(one: Assessment) -> str:
    """Returns the number of images at each level, or its range over the levels."""
    if one.sampling is None:
        return f"{int(one.curve.counts.at(0).inputs.sum()):,}"
    return f"{seen(one.sampling)} of {one.sampling.num_images:,}"
