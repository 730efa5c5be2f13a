"""What identifies values and functions: texts and digests, the same in every process.

What is this package's is identified by name and parameters, other functions by what
they compute, once they are `Fingerprinted`.
"""

import copyreg
import dataclasses
import enum
import functools
import hashlib
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from jaxrob._devices.blocks import in_pieces, is_split
from jaxrob._keys import is_key

_PACKAGE = __name__.partition(".")[0]
_MOST_NUMBERS = 16
#: Metadata of a field that says nothing new while it holds the library's functions.
FOLLOWS = {"follows": True}

T = TypeVar("T")

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
ARRAYS = (np.ndarray, np.generic, jax.Array)
Parts = Iterator[str | np.ndarray]
# Gives what a framework's own value holds; other values as they are.
Simpler = Callable[[Any], Any]


def digest(parts: Iterable[str | np.ndarray | jax.Array]) -> str:
    """A hexadecimal digest of texts and arrays, of 128 bits."""
    # A sharded array has the digest of the whole one, and is read piece by piece.
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, str):
            found.update(part.encode() + b"\0")
            continue
        found.update(f"{part.dtype}{part.shape}".encode() + b"\0")
        for piece in in_pieces(part) if is_split(part) else [part]:
            found.update(contiguous(piece))
    return found.hexdigest()


def array_text(array: Any) -> str:
    # Anew each time: one of JAX's may share memory that is written to.
    on_host = host_array(array)
    return f"{on_host.dtype}{on_host.shape} {digest([contiguous(on_host)])}"


def contiguous(array: Any) -> Any:
    if isinstance(array, np.ndarray) and array.dtype.hasobject:
        return b"".join(map(object_bytes, array))
    return np.ascontiguousarray(array)


def object_bytes(value: Any) -> bytes:
    """Bytes that identify a label: array, text, number, or a list or dict of them."""
    if isinstance(value, Mapping):
        parts = [part for one in sorted(value.items(), key=str) for part in one]
        kind = "dict"
    elif isinstance(value, list | tuple):
        parts, kind = [*value], "list"
    elif value is None or isinstance(value, str | bytes):
        return f"{len(repr(value))} {value!r}".encode()
    else:
        array = np.asarray(value)
        if array.dtype.kind not in "biufUS":
            raise TypeError(
                "must be an array, a text or a number, or lists and dicts of these; "
                f"got {type(value).__name__}"
            )
        return f"{array.dtype}{array.shape} ".encode() + array.tobytes()
    return f"{kind} {len(parts)} ".encode() + b"".join(map(object_bytes, parts))


def host_array(leaf: Any) -> np.ndarray:
    """A leaf of a pytree as a NumPy array. Random keys become their data."""
    return np.asarray(_data(leaf))


def host_or_sharded(leaf: Any) -> np.ndarray | jax.Array:
    """A leaf as `host_array` returns it, but one that is sharded over devices stays."""
    data = _data(leaf)
    return data if is_split(data) else np.asarray(data)


def _data(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


@dataclasses.dataclass(frozen=True)
class HashablePartial:
    """A `functools.partial` that equals one of the same parts, for `jax.jit`."""

    function: Callable[..., Any]
    keywords: tuple[tuple[str, Any], ...]  # sorted by name

    def __call__(self, *args: Any) -> Any:
        return self.function(*args, **dict(self.keywords))


def hashable_partial(
    function: Callable[..., Any], /, **keywords: Any
) -> HashablePartial:
    return HashablePartial(function, tuple(sorted(keywords.items())))


def text(value: Any) -> str:
    """Describes a value in full. Digests stand for arrays; no text is shortened."""
    head, children, _ = _node(value)
    if children is None:
        return head
    return f"{head}({', '.join(name + text(child) for name, child in children)})"


def is_identifiable(value: Any) -> bool:
    """Tests whether equal texts, of one library version, mean equal values."""
    _, children, identifiable = _node(value)
    return identifiable and all(is_identifiable(child) for _, child in children or ())


def name_of(value: Any) -> str:
    """The name of a function or a callable's class; its module too if it is ours."""
    if isinstance(value, functools.partial | Fingerprinted | HashablePartial):
        return name_of(
            value.func if isinstance(value, functools.partial) else value.function
        )
    if not hasattr(value, "__qualname__"):
        value = type(value)
    return f"{value.__module__}." * _is_ours(value) + value.__qualname__


@functools.cache
def library() -> str:
    return f"{_PACKAGE} {metadata.version(_PACKAGE)}"


class _Node(NamedTuple):
    head: str
    children: list[tuple[str, Any]] | None = None
    identifiable: bool = True


def _node(value: Any) -> _Node:
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        array = value if np.shape(value) else host_array(value)
        item = array_text(value) if array.shape else f"{array.dtype} {array.item()!r}"
        return _Node(item)
    if isinstance(value, enum.Enum):
        return _Node(f"{name_of(type(value))}.{value.name}")
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return _Node(repr(value))
    if isinstance(value, np.dtype):
        return _Node(str(value))
    if isinstance(value, Fingerprinted):
        return _Node(
            f"{name_of(value.function)} {value.token}",
            identifiable=value.is_identifiable,
        )
    if isinstance(value, HashablePartial):
        children = [(f"{key}=", part) for key, part in value.keywords]
        return _Node(name_of(value.function), children, _is_own(value.function))
    if isinstance(value, functools.partial):
        children = [("", value.func), ("", value.args), ("", value.keywords)]
        return _Node("partial", children)
    if isinstance(value, tuple | list):
        if len(value) > _MOST_NUMBERS and all(
            type(one) in (int, float) for one in value
        ):
            return _Node(f"{len(value)} numbers {digest(map(repr, value))}")
        head = "" if type(value) in (tuple, list) else name_of(type(value))
        return _Node(head, [("", part) for part in value])
    if isinstance(value, dict):
        return _Node("", [(f"{key!r}: ", part) for key, part in value.items()])
    if isinstance(value, set | frozenset):
        return _Node("", [("", part) for part in sorted(value, key=text)])
    if isinstance(value, types.MethodType) and _is_ours(value):
        return _Node(name_of(value), [("", value.__self__)], _is_own(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _Node(name_of(type(value)), list(_fields(value)), _is_own(type(value)))
    if callable(value) and hasattr(value, "__qualname__"):
        return _Node(name_of(value), identifiable=_is_own(value))
    return _Node(name_of(type(value)), identifiable=False)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    fields = dataclasses.fields(value)
    parts = [getattr(value, field.name) for field in fields]
    is_own = not any(isinstance(part, Fingerprinted) for part in parts)
    fn = getattr(value, "fn", None)
    for field, part in zip(fields, parts):
        # Fields that are not compared distinguish no values.
        # One that `FOLLOWS` says nothing new beside a library's `fn` of its parameters.
        parameters = [getattr(one, "keywords", ()) for one in (fn, part)]
        is_alike = is_own and (not callable(part) or parameters[0] == parameters[1])
        follows = "follows" in field.metadata and (is_alike or part is field.default)
        if field.compare and not (follows and is_identifiable(part)):
            yield f"{field.name}=", part


def _is_own(value: Any) -> bool:
    """Tests whether a function or class is the library's and has no closure."""
    return _is_ours(value) and getattr(value, "__closure__", None) is None


def _is_ours(value: Any) -> bool:
    module = getattr(value, "__module__", None) or ""
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")


@dataclasses.dataclass(frozen=True)
class Fingerprinted:
    """A function that equals another only if both compute the same now.

    Otherwise `jax.jit` would reuse a program compiled for other captured values.
    """

    token: str  # a digest of what it computes; first, because it is compared fast
    function: Callable[..., Any]
    on_host: tuple[Any, ...] = ()  # functions that it calls, which no trace looks into
    info: Any = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def is_identifiable(self) -> bool:
        return not self.on_host

    def __hash__(self) -> int:
        return hash(self.token)

    def __call__(self, *args: Any) -> Any:
        return with_own_arrays(self.function, *args)


def traced(function: Callable[..., Any], *args: Any) -> tuple[ClosedJaxpr, Any]:
    # A new function object, because JAX keeps the traces of those that it knows.
    return jax.make_jaxpr(lambda *args: function(*args), return_shape=True)(*args)


def with_own_arrays(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function so that a traced program holds none of the user's arrays."""
    # JAX converts one of 64 bits once, whatever is written into it meanwhile.
    leaves, tree = jax.tree.flatten(args)
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, Tracer)]
    inputs, returned = [leaves[at] for at in places], []

    def outputs(*inputs: Any) -> list[Any]:
        for at, one in zip(places, inputs):
            leaves[at] = one
        returned[:] = jax.tree.flatten(function(*jax.tree.unflatten(tree, leaves)))
        return [one for one in returned[0] if isinstance(one, Tracer)]

    if not places:
        return function(*args)
    program, _ = traced(outputs, *inputs)
    _make_own(program.jaxpr)
    own = ClosedJaxpr(program.jaxpr, list(map(_own, program.consts)))
    found = iter(jaxpr_as_fun(own)(*inputs))
    parts = (
        next(found) if isinstance(one, Tracer) else _own(one) for one in returned[0]
    )
    return jax.tree.unflatten(returned[1], parts)


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _make_own(jaxpr: Any) -> None:
    """Copies arrays of no axes, which are within the equations."""
    for equation in jaxpr.eqns:
        for one in equation.invars:
            if isinstance(one, Literal):
                one.val = _own(one.val)
        for within in programs_within(equation.params):
            _make_own(within)


def programs_within(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """Yields the programs that an operation calls, such as a loop's body."""
    for value in params.values():
        for one in value if isinstance(value, tuple | list) else [value]:
            if isinstance(one, ClosedJaxpr):
                yield one.jaxpr
            elif isinstance(one, Jaxpr):
                yield one


def contents(values: Iterable[Any], framework: str, simpler: Simpler) -> Parts:
    """Yields all that tells values apart: what they hold, and the code of classes."""
    # Not globals. `TypeError` is raised of what cannot be looked into.
    met: dict[int, tuple[int, Any]] = {}

    def of(value: Any) -> Parts:
        if isinstance(value, types.CodeType):
            value = value.co_code, value.co_names, value.co_consts
        if _is_array(value):
            yield np.asarray(value)
        elif type(value) in _PLAIN:
            yield repr(value)
        elif type(value) is tuple:  # Equal constants may be one object or two.
            yield f"tuple {len(value)}"
            for part in value:
                yield from of(part)
        elif id(value) in met:
            yield f"value {met[id(value)][0]}"
        else:
            met[id(value)] = len(met), value
            # Without the module, whose name differs when a script is run.
            yield getattr(value, "__qualname__", type(value).__qualname__)
            made_of = simpler(value)
            if made_of is value:
                made_of = tuple(_held(value, framework))
            yield from of(made_of)

    for value in values:
        yield from of(value)


def _is_array(value: Any) -> bool:
    # Not a masked one, which holds more.
    own = isinstance(value, np.generic | jax.Array) or type(value) is np.ndarray
    return own and not value.dtype.hasobject


def _held(value: Any, framework: str) -> Iterable[Any]:
    if type(value) is list:
        return value
    if type(value) is dict:
        return value.items()
    if type(value) in (set, frozenset):
        if any(type(one) not in _PLAIN for one in value):
            raise TypeError(f"the order of {value} is not known")
        return sorted(value, key=repr)
    if isinstance(value, type):
        known = value.__module__.partition(".")[0] in (framework, "numpy")
        return () if known else _of_class(value)
    if isinstance(value, types.FunctionType):
        parts = value.__code__, value.__defaults__, value.__kwdefaults__, vars(value)
        return *parts, *map(_in_cell, value.__closure__ or ())
    if isinstance(value, types.MethodType):
        return value.__func__, value.__self__
    if isinstance(value, types.ModuleType):
        return (value.__name__,)
    if isinstance(value, types.GeneratorType):  # Of a context manager.
        return (value.gi_code,)
    registered = copyreg.dispatch_table.get(type(value))
    copied = registered(value) if registered else value.__reduce_ex__(4)
    if isinstance(copied, str):  # A compiled cache, for instance, around a function.
        return copied, getattr(value, "__wrapped__", None)
    return ([*one] if isinstance(one, Iterator) else one for one in copied)


def _in_cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # Not assigned yet.
        return None


def _of_class(kind: type) -> Iterator[Any]:
    yield from kind.__bases__
    for name, member in sorted(vars(kind).items()):
        function = member
        for wrapped in ("__func__", "fget", "func", "__wrapped__"):
            function = getattr(function, wrapped, function)
        is_value = not (name.startswith(("__", "_abc_")) or hasattr(member, "__get__"))
        if is_value or isinstance(function, types.FunctionType):
            yield name, function, getattr(member, "keywords", None)
