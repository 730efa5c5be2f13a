"""The index of a folder of results."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from jaxrob._codec import Layout, Text, document, refuse
from jaxrob.reporting._differences import Difference
from jaxrob.reporting._plan import Plan, Required
from jaxrob.reporting._results import Picture, Results

# The name of a file in the folder itself, without a path.
_File = Text(
    "the name of a file in the folder, such as rotation.json",
    r"(?!results\.json$)\w[^/\\:\0]{0,250}\.json",
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


@document("jaxrob results 1", sealed=lambda one: False)
class Index(NamedTuple):
    """The index's contents: fields of `Results`, or the names of their files.

    Pictures are checked later, with their assessments.
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

    def _check_together(self) -> None:
        files = {entry.file for entry in self.entries}
        refuse(len(files) < len(self.entries), "assessments must be of different files")


def index_of(
    results: Results, files: Sequence[str], roma: str | None, attack: str | None
) -> Index:
    """Makes the index of results.

    Args:
      results: the results.
      files: the names of the assessments' files.
      roma: the name of RoMA's file, or None.
      attack: the name of the attack's file, or None.
    """
    return Index(
        network=results.network,
        class_names=results.class_names,
        plan=results.plan,
        requirements=results.requirements,
        regressions=results.regressions,
        differences=results.differences,
        entries=tuple(map(Entry, files, results.reasons, results.pictures)),
        roma=roma,
        attack=attack,
    )
