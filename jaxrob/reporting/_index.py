"""The index of a folder of results."""

from typing import Annotated, NamedTuple

from jaxrob._codec import Layout, Text, document
from jaxrob.reporting._differences import Difference
from jaxrob.reporting._plan import Plan, Required
from jaxrob.reporting._results import Picture

# The name of a file in the folder itself, without a path, that ends in its digest.
_File = Text(
    "the name of a file in the folder, with its digest, such as "
    "rotation-0123456789abcdef.json",
    r"\w[^/\\:\0]{0,250}-[0-9a-f]{16}\.(json|npz)",
)


class Entry(NamedTuple):
    """The index's entry of one assessment.

    Attributes:
      file: the name of its file in the folder.
      why: why the range is plausible, or None.
      pictures: the pictures to show, without their images.
    """

    file: Annotated[str, _File]
    why: Annotated[str | None, Text()]
    pictures: tuple[Picture, ...]


@document("jaxrob results 1")
class Index(NamedTuple):
    """The index's contents: fields of `Results`, or the names of their files.

    Pictures are checked later, with their assessments; `images` is their pixels' file.
    """

    network: Annotated[str | None, Text()]
    class_names: tuple[str, ...] | None
    plan: Plan | None
    requirements: tuple[Required, ...]
    regressions: tuple[str, ...]
    differences: tuple[Difference, ...]
    entries: Annotated[tuple[Entry, ...], Layout("assessments")]
    roma: Annotated[str | None, _File]
    attack: Annotated[str | None, _File]
    images: Annotated[str | None, _File]
