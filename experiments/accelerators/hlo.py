"""The text of compiled programs (scheduled HLO), as computations and instructions.

XLA prints one instruction a line::

    %name = f32[4,8]{1,0} opcode(%operand, %operand), attribute=..., metadata={...}
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

_BITS = {
    "pred": 8,
    "s2": 2, "s4": 4, "s8": 8, "s16": 16, "s32": 32, "s64": 64,
    "u2": 2, "u4": 4, "u8": 8, "u16": 16, "u32": 32, "u64": 64,
    "bf16": 16, "f16": 16, "f32": 32, "f64": 64, "c64": 64, "c128": 128,
}  # fmt: skip
_ARRAY = re.compile(r"(\w+)\[([\d,<=]*)\](?:\{([^{}]*)\})?")
_HEADER = re.compile(r"(ENTRY\s+)?%?([\w.\-]+)\s.*->.*\{$")
_NAMED = re.compile(r"(ROOT\s+)?%?([\w.\-]+)\s=\s")
_CALLED = re.compile(
    r"(?:calls|to_apply|body|condition|true_computation|false_computation)="
    r"%?([\w.\-]+)"
)
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
# Those through which a parameter of a fusion is only seen in another shape.
_VIEWS = ("bitcast", "reshape", "copy", "convert")


class Array(NamedTuple):
    """An array's type."""

    dtype: str  # HLO's name of the element type
    dims: tuple[int, ...]
    # `2,1,0:T(8,128)S(1)`: the order from the innermost, tiles, memory space.
    layout: str

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.dims)

    @property
    def num_bytes(self) -> int:
        """What it takes in memory, with what tiles add to its sides."""
        dims = list(self.dims)
        order, _, tiling = self.layout.partition(":")
        tile = re.match(r"T\(([\d,]+)\)", tiling)
        if tile and order.replace(",", "").isdecimal():
            dims = [dims[int(which)] for which in order.split(",")]
            for place, size in enumerate(reversed(tile[1].split(","))):
                if place < len(dims):
                    dims[place] = -(-dims[place] // int(size)) * int(size)
        # Types of 8 bits that are not listed are floats such as f8e4m3fn.
        return math.prod(dims) * _BITS.get(self.dtype, 8) // 8

    @property
    def is_on_chip(self) -> bool:
        """Whether it lies in a memory of the chip, not in the large one."""
        return re.search(r"S\([1-9]", self.layout) is not None

    def lying_with(self, other: "Array") -> "Array":
        """This array in the memory where another one lies."""
        space = re.search(r"S\(\d+\)", other.layout)
        layout = re.sub(r"S\(\d+\)", "", self.layout)
        if space is not None:
            layout += space[0] if ":" in layout else f":{space[0]}"
        return self._replace(layout=layout)


class Instruction(NamedTuple):
    """A line."""

    name: str
    opcode: str  # what it does, such as "fusion"
    arrays: tuple[Array, ...]  # what it returns; several if that is a tuple
    operands: tuple[str, ...]  # the names of what it takes
    literal: str  # what stands in its brackets, as it is
    attributes: str  # the rest of the line
    is_root: bool  # whether it is what its computation returns

    @property
    def target(self) -> str:
        """The function that a custom call calls."""
        found = re.search(r'custom_call_target="([^"]*)"', self.attributes)
        return found[1] if found else ""

    @property
    def called(self) -> tuple[str, ...]:
        """The computations that it names, branches of a conditional among them."""
        branches = _BRANCHES.search(self.attributes)
        names = re.findall(r"%?([\w.\-]+)", branches[1]) if branches else []
        return (*_CALLED.findall(self.attributes), *names)


class Computation(NamedTuple):
    """A function of a program: its instructions by name, in order."""

    name: str
    instructions: dict[str, Instruction]

    @property
    def root(self) -> Instruction:
        """What it returns."""
        every = list(self.instructions.values())
        return next((one for one in every if one.is_root), every[-1])

    def operands(self, instruction: Instruction) -> list[Array]:
        """The arrays that an instruction takes; tuples one by one."""
        found = (self.instructions.get(name) for name in instruction.operands)
        return [array for one in found if one for array in one.arrays]

    def users(self, name: str) -> list[Instruction]:
        """The instructions that take what `name` gives, seen through views."""
        found = []
        for one in self.instructions.values():
            if name in one.operands:
                is_view = one.opcode in _VIEWS and not one.is_root
                found += self.users(one.name) if is_view else [one]
        return found


class Module(NamedTuple):
    """A program."""

    computations: Mapping[str, Computation]
    entry: str  # the name of the one that runs


def parse(text: str) -> Module:
    computations, entry = {}, ""
    inside: dict[str, Instruction] | None = None
    for line in text.splitlines():
        line = line.strip()
        if inside is not None:
            if line == "}" or line.startswith("}, "):
                inside = None
            elif (found := _instruction(line)) is not None:
                inside[found.name] = found
        elif (header := _HEADER.match(line)) and not line.startswith("HloModule"):
            inside = {}
            computations[header[2]] = Computation(header[2], inside)
            entry = header[2] if header[1] else entry
    if not entry:
        raise ValueError("the text has no ENTRY computation")
    return Module(computations, entry)


def arrays(text: str) -> tuple[Array, ...]:
    return tuple(
        Array(dtype, tuple(int(d.lstrip("<=")) for d in dims.split(",") if d), layout)
        for dtype, dims, layout in _ARRAY.findall(text)
        if dtype in _BITS or dtype.startswith("f8") or dtype.startswith("f4")
    )


def _instruction(line: str) -> Instruction | None:
    named = _NAMED.match(line)
    if named is None:
        return None
    rest = line[named.end() :]
    end = _closing(rest) if rest.startswith("(") else rest.index(" ")
    shape, rest = rest[:end], rest[end:].lstrip()
    opcode, _, _ = rest.partition("(")
    end = _closing(rest[len(opcode) :]) + len(opcode)
    literal = rest[len(opcode) + 1 : end - 1]
    return Instruction(
        name=named[2],
        opcode=opcode,
        arrays=arrays(shape),
        operands=tuple(re.findall(r"%([\w.\-]+)", literal)),
        literal=literal,
        attributes=rest[end:],
        is_root=named[1] is not None,
    )


def _closing(text: str) -> int:
    """Behind the bracket that closes the one that the text begins with."""
    depth, quoted = 0, False
    for place, letter in enumerate(text):
        if letter == '"' and text[place - 1] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (letter == "(") - (letter == ")")
            if depth == 0:
                return place + 1
    return len(text)
