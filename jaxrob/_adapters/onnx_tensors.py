"""The files in which an ONNX file keeps its weights."""

import os
import pathlib
from collections.abc import Iterator
from typing import Any

from jaxrob._files.regular import check_regular

# The value of `TensorProto.data_location` for weights in another file.
_EXTERNAL = 1
# Real graphs are nested a few levels deep; thousands would exhaust the stack.
_MAX_DEPTH = 50


def external_files(model: Any, path: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of weights beside an ONNX file, sorted."""
    folder = path.parent.resolve()
    found = set()
    for location in sorted(set(_locations(model))):
        file = folder / location
        inside = file.resolve().is_relative_to(folder)
        if not location or os.path.isabs(location) or not inside:
            raise ValueError(
                f"{path}: it keeps weights in {location!r}; they must lie in its own "
                "folder"
            )
        try:
            check_regular(file)
        except FileNotFoundError:
            raise ValueError(
                f"{path}: it keeps weights in {location!r}, which is not there"
            ) from None
        found.add(file)
    return sorted(found)


def _locations(model: Any) -> Iterator[str]:
    for tensor in _tensors(model.graph, 0):
        yield from _location(tensor)
    for function in model.functions:
        for node in function.node:
            for tensor in _of_node(node, 0):
                yield from _location(tensor)


def _location(tensor: Any) -> Iterator[str]:
    if tensor.data_location == _EXTERNAL:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        yield entries.get("location", "")


def _tensors(graph: Any, depth: int) -> Iterator[Any]:
    if depth > _MAX_DEPTH:
        raise ValueError(f"graphs lie within graphs, more than {_MAX_DEPTH} deep")
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _of_node(node, depth)


def _of_node(node: Any, depth: int) -> Iterator[Any]:
    for attribute in node.attribute:
        yield from (attribute.t, *attribute.tensors)
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        for graph in (attribute.g, *attribute.graphs):
            yield from _tensors(graph, depth + 1)
