"""The record of a run of the command: who, when, with which files and where."""

from typing import Annotated, NamedTuple

from jaxrob._codec import Text, document


class File(NamedTuple):
    """A file that a run was given.

    Attributes:
      role: "network", "pictures", "labels" or "plan".
      name: its path as it was given.
      digest: the SHA-256 of its bytes; None of a folder.
    """

    role: str
    name: str
    digest: Annotated[str | None, Text("64 hexadecimal digits", "[0-9a-f]{64}")]


class Run(NamedTuple):
    """A run of the command.

    Attributes:
      command: the command line as it was typed, quoted for a shell.
      started: the date and time at which it began, in UTC, as ISO 8601 writes them.
      machine: the operating system, its version and the kind of processor.
      tester: who ran it; None if nobody said.
      organisation: for whom; None if nobody said.
      files: the files that it was given.
      warnings: the warnings that it printed.
    """

    command: str
    started: str
    machine: str
    tester: str | None = None
    organisation: str | None = None
    files: tuple[File, ...] = ()
    warnings: tuple[str, ...] = ()


@document("jaxrob runs 1")
class Runs(NamedTuple):
    """The runs that a folder of results came from, in the order in which they ended."""

    runs: tuple[Run, ...]
