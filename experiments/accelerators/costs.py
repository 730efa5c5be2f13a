"""What a compiled program costs on a target, by its compiler's own estimates.

Every instruction that runs as a kernel of its own is counted, those in the body of a
loop as often as it turns, and of a conditional's branches the dearest.

* On a TPU an instruction costs the cycles that its compiler estimated. The whole
  program costs at least the time that its bytes take.
* On a GPU it costs the cost model's time. A convolution, or a product of matrices in a
  library, has none: it costs the larger of its operations at the target's rate (a
  lower one if it is grouped or has few input channels) and its bytes.
* What has no estimate at all (gathers and reshapes on a TPU, custom calls) costs its
  bytes, also those in the chip's memory, at the rate of the large memory.
"""

import dataclasses
import json
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from accelerators import hlo
from accelerators.targets import Target

_FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all",
    "partition-id", "replica-id", "opt-barrier", "add-dependency", "domain", "iota",
    "get-dimension-size",
}  # fmt: skip
# The parts that "ConcatBitcast" joins were written beside each other.
_FREE_CALLS = (
    "AllocateBuffer", "ConcatBitcast", "Sharding", "SPMDFullToShardShape",
    "ShapeAssertion",
)  # fmt: skip
_FEW_CHANNELS = 16
# Those that move an array, or a part of it, beside the kernels.
_BESIDE = ("copy-start", "slice-start")
# Those that read no more of an operand than they return.
_SLICES = ("slice", "dynamic-slice", "gather")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """An instruction that runs by itself."""

    name: str
    what: str  # its opcode, or what a custom call calls
    times: int  # how often it runs
    seconds: float  # its time, each time
    num_bytes: int  # read and written in the large memory, each time
    flops: float  # of the products and convolutions in it, each time
    kind: str  # "estimated", "convolution" (by operations and bytes) or "bytes"


class Cost(NamedTuple):
    """What a program costs."""

    kernels: tuple[Kernel, ...]
    # The estimated time: of the kernels, or of the bytes if that is more.
    seconds: float
    bound: str  # "kernels" or "bytes", which of the two it is
    cycles: float  # the kernels' time in cycles of the target
    num_bytes: float  # read and written in the large memory
    flops: float  # of products and convolutions
    launches: int  # kernels started
    unknown_loops: int  # loops whose number of turns the text does not tell

    def seconds_of(self, kind: str) -> float:
        """The time of the kernels of one kind, see `Kernel`."""
        return sum(one.seconds * one.times for one in self.kernels if one.kind == kind)


def cost_of(text: str, target: Target, turns: int = 1) -> Cost:
    module = hlo.parse(text)
    walk = _Walk(module, target, turns)
    kernels = tuple(walk.kernels(module.computations[module.entry], 1))
    seconds = sum(one.seconds * one.times for one in kernels)
    num_bytes = sum(one.num_bytes * one.times for one in kernels)
    by_bytes = num_bytes / target.bytes_per_second
    bound = "bytes" if target.platform == "tpu" and by_bytes > seconds else "kernels"
    time = by_bytes if bound == "bytes" else seconds
    cycles = seconds * target.cycles_per_second
    flops = sum(one.flops * one.times for one in kernels)
    launches = sum(one.times for one in kernels)
    unknown = len(walk.unknown)
    return Cost(kernels, time, bound, cycles, num_bytes, flops, launches, unknown)


@dataclasses.dataclass(frozen=True)
class _Walk:
    """The way through a program from its entry."""

    module: hlo.Module
    target: Target
    turns: int  # of loops whose number is not known
    # The names of those that were met.
    unknown: set[str] = dataclasses.field(default_factory=set)

    def kernels(self, computation: hlo.Computation, times: int) -> Iterator[Kernel]:
        """The kernels of a computation that runs so often."""
        for one in computation.instructions.values():
            opcode = one.opcode
            if opcode in _FREE or opcode.endswith(("-done", "-update")):
                continue
            if opcode == "custom-call" and one.target in _FREE_CALLS:
                continue
            called = [self.module.computations.get(name) for name in one.called]
            called = [other for other in called if other is not None]
            if opcode == "while":
                turns = trip_count(self.module, computation, one)
                if turns is None:
                    self.unknown.add(one.name)
                    turns = self.turns
                for part in called:
                    yield from self.kernels(part, times * turns)
            elif opcode == "conditional":
                yield from self._dearest(called, times)
            elif opcode in ("call", "async-start"):
                for part in called:
                    yield from self.kernels(part, times)
            else:
                yield self._kernel(computation, one, times)

    def _dearest(
        self, branches: list[hlo.Computation], times: int
    ) -> tuple[Kernel, ...]:
        ways = [tuple(self.kernels(branch, times)) for branch in branches]
        return max(ways, key=lambda way: sum(k.seconds * k.times for k in way))

    def _kernel(
        self, computation: hlo.Computation, one: hlo.Instruction, times: int
    ) -> Kernel:
        target = self.target
        num_bytes, on_chip = self._bytes(computation, one)
        work = list(self._work(computation, one))
        cycles = re.search(r'"estimated_cycles":"(\d+)"', one.attributes)
        exec_time = _exec_time(one)
        if cycles is not None:
            kind, seconds = "estimated", float(cycles[1]) / target.cycles_per_second
        elif exec_time is not None:
            kind, seconds = "estimated", exec_time
        elif work:
            kind = "convolution"
            seconds = max(
                sum(flops / target.rate(slow) for flops, slow in work),
                num_bytes / target.bytes_per_second,
            )
        elif one.opcode in _BESIDE:
            # Its bytes count among the program's.
            kind, seconds = "estimated", 0.0
        else:
            kind = "bytes"
            seconds = (num_bytes + on_chip) / target.bytes_per_second
        what, flops = one.target or one.opcode, sum(flops for flops, _ in work)
        return Kernel(one.name, what, times, seconds, num_bytes, flops, kind)

    def _bytes(
        self, computation: hlo.Computation, one: hlo.Instruction
    ) -> tuple[int, int]:
        """Bytes read and written: in the large memory, and on the chip."""
        if one.opcode in _BESIDE:
            # Returns both ends and a context: of one, or a part, is read, one written.
            source, result = one.arrays[:2]
            moved = [result.lying_with(source), result]
        else:
            moved = [*self._read(computation, one), *self._written(one)]
        large = sum(a.num_bytes for a in moved if not a.is_on_chip)
        return large, sum(a.num_bytes for a in moved if a.is_on_chip)

    def _read(
        self, computation: hlo.Computation, one: hlo.Instruction
    ) -> Iterator[hlo.Array]:
        inner = self.module.computations.get(one.called[0]) if one.called else None
        for number, name in enumerate(one.operands):
            source = computation.instructions.get(name)
            for array in source.arrays if source else ():
                if one.opcode in _SLICES and number == 0:
                    yield one.arrays[0].lying_with(array)
                elif one.opcode == "dynamic-update-slice" and number == 0:
                    continue
                elif one.opcode == "fusion" and inner is not None:
                    yield from _read_inside(inner, number, array)
                else:
                    yield array

    def _written(self, one: hlo.Instruction) -> list[hlo.Array]:
        if one.opcode == "dynamic-update-slice" or not one.called:
            return list(one.arrays)
        inner = self.module.computations.get(one.called[0])
        if inner is None or one.opcode != "fusion":
            return list(one.arrays)
        root = inner.root
        names = root.operands if root.opcode == "tuple" else (root.name,)
        results = [_through_views(inner, name) for name in names]
        if len(results) != len(one.arrays):
            return list(one.arrays)
        return [
            _updated(inner, result, array) for result, array in zip(results, one.arrays)
        ]

    def _work(
        self, computation: hlo.Computation, one: hlo.Instruction
    ) -> Iterator[tuple[float, bool]]:
        """Operations of each product or convolution, and whether it is a slow one."""
        if one.opcode == "convolution" or "__cudnn$conv" in one.target:
            yield _convolution(computation, one)
        elif one.opcode == "dot" or one.target.startswith(("__cublas", "__onednn")):
            yield _product(computation, one), False
        elif one.opcode == "fusion" or one.target:
            for name in one.called:
                inner = self.module.computations.get(name)
                for part in inner.instructions.values() if inner else ():
                    yield from self._work(inner, part)


def trip_count(
    module: hlo.Module, computation: hlo.Computation, loop: hlo.Instruction
) -> int | None:
    """How often a loop turns; None if neither compiler nor condition tells."""
    known = re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.attributes)
    if known:
        return int(known[1])
    condition = re.search(r"condition=%?([\w.\-]+)", loop.attributes)
    inner = module.computations.get(condition[1]) if condition else None
    if inner is None:
        return None
    scopes = [_Scope(inner, loop), _Scope(computation, None)]
    compare = inner.root
    if compare.opcode == "fusion":
        fused = module.computations.get(compare.called[0])
        if fused is None:
            return None
        scopes.insert(0, _Scope(fused, compare))
        compare = fused.root
    if compare.opcode != "compare":
        return None
    first, last = (_integer(scopes, name) for name in compare.operands)
    if first is None or last is None:
        return None
    found = re.search(r"direction=(\w+)", compare.attributes)
    turns = {"LT": last - first, "LE": last - first + 1, "NE": abs(last - first)}
    turns |= {"GT": first - last, "GE": first - last + 1}
    return max(turns.get(found[1] if found else "", 0), 0) or None


class _Scope(NamedTuple):
    """A computation, and the instruction of the next one that gives its parameters."""

    computation: hlo.Computation
    caller: hlo.Instruction | None


def _integer(scopes: list[_Scope], name: str) -> int | None:
    """The constant that a name stands for, at first where it changes in a loop."""
    computation, caller = scopes[0]
    one = computation.instructions.get(name)
    if one is None:
        return None
    if one.opcode == "constant":
        return int(one.literal) if re.fullmatch(r"-?\d+", one.literal) else None
    if one.opcode in ("copy", "bitcast", "convert", "reshape"):
        return _integer(scopes, one.operands[0])
    if one.opcode == "parameter" and caller is not None:
        return _integer(scopes[1:], caller.operands[int(one.literal)])
    if one.opcode != "get-tuple-element" or caller is None:
        return None
    # Of what the loop was given.
    number = re.search(r"index=(\d+)", one.attributes)
    outer = scopes[1].computation.instructions.get(caller.operands[0])
    if number is None or outer is None or outer.opcode != "tuple":
        return None
    return _integer(scopes[1:], outer.operands[int(number[1])])


def _exec_time(one: hlo.Instruction) -> float | None:
    """A GPU cost model's time in seconds."""
    # The model for single loops, whose entry has no name, takes a reduction within a
    # Triton kernel for one that every element repeats. For these there is the model by
    # blocks.
    found = re.search(r'"reification_cost":(\[[^\]]*\])', one.attributes)
    if not found:
        return None
    times = {
        entry.get("name", ""): float(entry["exec_time_us"]) * 1e-6
        for entry in json.loads(found[1])
    }
    is_triton = '"kind":"__triton"' in one.attributes
    by_blocks = times.get("indexing-cost-model") if is_triton else None
    return times.get("") if by_blocks is None else by_blocks


def _convolution(
    computation: hlo.Computation, one: hlo.Instruction
) -> tuple[float, bool]:
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", one.attributes)
    operands = computation.operands(one)
    left, right = operands[0], operands[1]
    result = max(one.arrays, key=lambda a: a.elements)
    # The kernel is an operand, except where its gradient is the result.
    kernel, outputs = right, result
    if "BackwardFilter" in one.target:
        kernel, outputs = result, right
    elif "BackwardInput" in one.target:
        outputs = left
    kernel_labels = labels[2] if labels else "o01i"
    channels_out = kernel.dims[kernel_labels.index("o")]
    channels_in = kernel.dims[kernel_labels.index("i")]
    groups = re.search(r"feature_group_count=(\d+)", one.attributes)
    slow = (groups is not None and int(groups[1]) > 1) or channels_in < _FEW_CHANNELS
    return 2.0 * outputs.elements * kernel.elements / channels_out, slow


def _product(computation: hlo.Computation, one: hlo.Instruction) -> float:
    result = max(one.arrays, key=lambda a: a.elements)
    left = computation.operands(one)[0]
    found = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", one.attributes)
    if found is None:
        found = re.search(r'"lhs_contracting_dimensions":\[([\d,"]*)\]', one.attributes)
    dims = found[1].replace('"', "") if found else ""
    summed = math.prod(left.dims[int(d)] for d in dims.split(",") if d)
    return 2.0 * result.elements * summed


def _read_inside(
    inner: hlo.Computation, number: int, array: hlo.Array
) -> Iterator[hlo.Array]:
    """What a fusion reads of its operand of that number."""
    which, every = ("parameter", str(number)), inner.instructions.values()
    names = [one.name for one in every if (one.opcode, one.literal) == which]
    if not names:
        yield array
        return
    (parameter,), parts = names, []
    for user in inner.users(parameter):
        first = _through_views(inner, user.operands[0]) if user.operands else None
        is_first = first is not None and first.name == parameter
        if user.opcode in _SLICES and is_first:
            parts.append(user.arrays[0].lying_with(array))
        elif user.opcode == "dynamic-update-slice" and is_first:
            continue  # Updated where it lies.
        else:
            yield array
            return
    if sum(part.num_bytes for part in parts) >= array.num_bytes:
        yield array
    else:
        yield from parts


def _through_views(inner: hlo.Computation, name: str) -> hlo.Instruction:
    one = inner.instructions[name]
    while one.opcode in ("bitcast", "reshape", "copy", "convert") and one.operands:
        one = inner.instructions[one.operands[0]]
    return one


def _updated(
    inner: hlo.Computation, result: hlo.Instruction, array: hlo.Array
) -> hlo.Array:
    """What is written of a fusion's result: of one that is updated, the update."""
    if result.opcode != "dynamic-update-slice":
        return array
    update = inner.instructions[result.operands[1]]
    return update.arrays[0].lying_with(array)
