"""What is known of each image beside its label: whose it is, which device took it."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from jaxrob._arguments import checks
from jaxrob._codec import Array, Layout

_OfImages = Annotated[np.ndarray, Array("N", "int32", at_least=0, is_packed=True)]
# What tables write where there is no value, as text.
NO_VALUE = re.compile(r"(?i)(--|(#n/a )?#?n/?a|<na>|[+-]?nan|nat|none|null)?")
# What a slice of images without a value is called.
_MISSING = "(missing)"


class Column(NamedTuple):
    """The values of a column, and which of them each image has."""

    values: tuple[str, ...]  # as text; numbers ascend, a missing one comes last
    of_image: _OfImages  # int32 `[N]`, places among the values


class ImageTable(NamedTuple):
    """The metadata of N images, as results keep them: of groups, which belong together.

    The values of the column that groups are named by are not kept.
    """

    groups: Annotated[
        np.ndarray | None,
        Array("N", "int32", at_least=0, is_packed=True),
        Layout(may_lack=True),
    ] = None
    columns: dict[str, Column] = {}

    def of_images(self, which: Any) -> "ImageTable":
        groups = None if self.groups is None else self.groups[which]
        columns = {
            name: one._replace(of_image=one.of_image[which])
            for name, one in self.columns.items()
        }
        return ImageTable(groups, columns)


def checked_metadata(
    metadata: Any, groups: Any, length: int
) -> dict[str, np.ndarray] | None:
    """Returns the columns as arrays `[N]` of texts or numbers."""
    if metadata is None:
        if groups is not None:
            raise ValueError(
                f"groups must name a column of metadata, which is None; got {groups!r}"
            )
        return None
    checks.check_type("metadata", metadata, Mapping, "a mapping of names to columns")
    found = {}
    for name, column in metadata.items():
        name = checks.checked_text("metadata's name", name)
        what = "a value for each image"
        values: Any = checks.plain_array(f"metadata[{name!r}]", column, what)
        if values.shape != (length,):
            raise ValueError(
                f"metadata[{name!r}] must have a value for each of {length} images; "
                f"got the shape {values.shape}"
            )
        if values.dtype.kind not in "biufUT":
            # HDF5 has texts as bytes.
            values = [one.decode() if isinstance(one, bytes) else one for one in values]
            values = np.array([*map(str, values)])
        if values.dtype.kind in "UT":
            values = np.strings.strip(values)
        if values.dtype.kind == "f":
            highest = np.abs(values).max(initial=0, where=~np.isnan(values))
            if highest >= (whole := 2 / np.finfo(values.dtype).eps):
                raise ValueError(
                    f"metadata[{name!r}] must be texts where numbers exceed {whole:g}, "
                    f"which {values.dtype} does not tell apart; got {highest:g}"
                )
        found[name] = values.copy()
    if groups is not None:
        checks.check_choice("groups", groups, found)
        missing = np.flatnonzero(_is_missing(found[groups]))
        if len(missing):
            raise ValueError(
                f"metadata[{groups!r}] must say of each image which group it belongs "
                f"to; got none for {len(missing)} images, first image {missing[0]}. "
                "Leave these images out, or give each of them a group of its own"
            )
    return found


def table_of(
    metadata: Mapping[str, np.ndarray] | None, groups: str | None
) -> ImageTable | None:
    if metadata is None:
        return None
    columns = {name: _column(one) for name, one in metadata.items() if name != groups}
    of_image = None if groups is None else _column(metadata[groups]).of_image
    return ImageTable(of_image, columns)


def _column(values: np.ndarray) -> Column:
    missing = _is_missing(values)
    found, places = np.unique(values[~missing], return_inverse=True)
    found = checks.as_written(found) if found.dtype.kind == "f" else found
    names = [str(one) for one in found.tolist()] + [_MISSING] * bool(missing.any())
    of_image = np.full(len(values), len(found), np.int32)
    of_image[~missing] = places
    return Column(tuple(names), of_image)


def _is_missing(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "UT":
        return np.array([NO_VALUE.fullmatch(one) is not None for one in values], bool)
    return np.zeros(len(values), bool)
