"""The numbers of images that the methods train on."""

from collections.abc import Sequence

from jaxrob._arguments.checks import check_type, checked_integer, checked_sequence
from jaxrob.alterations import Alteration


def copies(alteration: Alteration) -> int:
    """The number of altered copies of an image: "xn" in table II of the paper.

    It is 4 if levels lie on both sides of the identity, 2 if on one side only, and 2
    for rotation, whose two sides meet.

    Source: Arcaini, Bombarda, Bonfanti and Gargantini, Dealing with robustness of
    convolutional neural networks for image classification, 2020, section VI.A.
    """
    check_type("alteration", alteration, Alteration, "a jaxrob.Alteration")
    one_sided = alteration.identity in (alteration.lower, alteration.upper)
    return 2 if one_sided or alteration.name == "rotation" else 4


def input_sizes(
    num_images: int, alterations: Sequence[Alteration], weak: Sequence[Alteration]
) -> dict[str, int]:
    """The images in an epoch of each method: "input size" in table III of the paper.

    For its 210,593 originals, the paper's DA and NP have 824 fewer images than this
    function returns: its scripts lose some copies.

    Args:
      num_images: the number of originals.
      alterations: all alterations.
      weak: the alterations that the limited methods use.

    Returns:
      The sizes of "original", "DA", "LDA", "NP" and "LNP".
    """
    num_images = checked_integer("num_images", num_images, at_least=1)
    for name, some in (("alterations", alterations), ("weak", weak)):
        checked_sequence(name, some, Alteration, "jaxrob.Alteration", min_length=0)
    half = num_images // 2
    altered = half * sum(map(copies, alterations))
    weakly_altered = num_images * sum(map(copies, weak))
    return {
        "original": num_images,
        "DA": num_images + altered,
        "LDA": num_images + weakly_altered,
        "NP": altered,
        "LNP": weakly_altered,
    }
