"""What tables, plots and reports say of a robustness from few images."""

from jaxrob._assessment.assessment import Assessment
from jaxrob._assessment.sampling import Sampling

_ENDED = {
    "precise": "the half width asked for was reached",
    "certain": "it was certain whether what is required is reached",
    "budget": "the budget was spent",
    "resolution": "the levels lie as close as the choice of levels allows",
}


def sampling_of(one: Assessment) -> Sampling:
    """What was looked at.

    Raises:
      ValueError: if all images were.
    """
    if one.sampling is None:
        raise ValueError(f"{one.alteration} was assessed on all images")
    return one.sampling


def of_all_images(one: Assessment) -> int:
    """How many altered images all images at these levels would have been."""
    return one.diagnostics.points * sampling_of(one).num_images


def asked_for(sampling: Sampling) -> str:
    """What was asked of the number of images, in words."""
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


def how_sure(sampling: Sampling) -> str:
    """The certainty of what is said of the data set, in words."""
    if sampling.error is None:
        return "as its strategy says"
    if not sampling.error:
        return "for certain"
    return f"with {100 * (1 - sampling.error):g} % confidence"


def ended(sampling: Sampling) -> str:
    """Why no more images were looked at, in words."""
    if sampling.error is None and sampling.status == "precise":
        return "its strategy found it precise enough"
    return _ENDED[sampling.status]


def is_open_by_levels(sampling: Sampling) -> bool:
    """Whether only the levels leave something open, as with all images.

    That is where the answer of all images was wanted and found, or no finer levels are.
    """
    is_found = sampling.status == "precise" and not sampling.half_width
    return (is_found and sampling.error is not None) or sampling.status == "resolution"


def seen(sampling: Sampling) -> str:
    """How many images were looked at, at the levels with the fewest and the most."""
    fewest, most = int(sampling.seen.min()), int(sampling.seen.max())
    return f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"


def images_at_levels(one: Assessment) -> str:
    """How many images stand behind the values: a number, or from the fewest on."""
    if one.sampling is None:
        return f"{int(one.curve.confusion[0].sum()):,}"
    return f"{seen(one.sampling)} of {one.sampling.num_images:,}"
