"""Figures measured on devices, kept in `docs/measurements/measured`.

A file for each target holds one run of `accelerator.py --measure`:

    {"target": "h100", "device": "NVIDIA H100 80GB HBM3",
     "versions": {"jax": "0.11.2", "jaxlib": null, "platform": null},
     "programs": [
      {"network": "mnist_cnn", "what": "steps", "size": "28x28x1, 1000 x 16",
       "program": "forward", "estimated_us": 8745, "measured_us": 2846}, ...]}

A step's times include its preparation. "form" names the form of an alteration
(`jaxrob/alterations/_forms.py`) where it was not, or is no longer, the one that the
device takes. What is not known is null.
"""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import jax
import jaxlib

_FOLDER = pathlib.Path(__file__).parents[2] / "docs/measurements/measured"

Figures = dict[str, Any]


def kept(target: str) -> Figures | None:
    path = _FOLDER / f"{target}.json"
    return json.loads(path.read_text()) if path.exists() else None


def source(found: Figures) -> str:
    versions = [f"{name} {of}" for name, of in found["versions"].items() if of]
    return (
        f"measured: kept in {found['target']}.json, of one {found['device']}, "
        f"{', '.join(versions)}"
    )


def versions(device: jax.Device) -> dict[str, str]:
    """What a device's figures depend on: JAX, and its platform (CUDA, libtpu)."""
    # A GPU's has several lines.
    platform = ", ".join(device.client.platform_version.split("\n"))
    return {"jax": jax.__version__, "jaxlib": jaxlib.__version__, "platform": platform}


def figures(document: dict[str, Any]) -> Figures:
    """What of a run of `accelerator.py --measure` is kept."""
    programs = []
    for result in document["results"]:
        where = {name: result[name] for name in ("network", "what", "size")}
        for row in result["programs"]:
            if "prepare_seconds" not in row and row["program"].startswith("prepare "):
                continue  # It counts among its step's time.
            times = {
                "estimated_us": _microseconds(row, ""),
                "measured_us": _microseconds(row, "measured_"),
            }
            programs.append(where | {"program": row["program"]} | times)
    about = {name: document[name] for name in ("target", "device", "versions")}
    return about | {"programs": programs}


def text(found: Figures) -> str:
    """The file of figures: a line for each program."""
    about = {name: value for name, value in found.items() if name != "programs"}
    lines = [f" {json.dumps(name)}: {json.dumps(about[name])}," for name in about]
    programs = ",\n".join(f"  {json.dumps(one)}" for one in found["programs"])
    return "\n".join(["{", *lines, ' "programs": [', programs, " ]", "}", ""])


def of_program(
    found: Figures | None, network: str, what: str, size: str, program: str
) -> Iterator[dict[str, Any]]:
    """The figures of a program: today's if there are any, and those of other forms."""
    where = {"network": network, "what": what, "size": size, "program": program}
    for one in found["programs"] if found else ():
        if all(one[name] == value for name, value in where.items()):
            yield one


def markdown(found: Figures) -> Iterator[str]:
    """The table of steps: what each adds to the forward pass, estimated; measured."""
    steps = [one for one in found["programs"] if one["what"] == "steps"]
    forward = {one["network"]: one for one in steps if one["program"] == "forward"}
    yield f"| us | {' | '.join(forward)} |"
    yield "| --- " * (len(forward) + 1) + "|"
    yield f"| forward pass | {' | '.join(_pair(one) for one in forward.values())} |"
    cells: dict[str, dict[str, str]] = {}
    for one in steps:
        if one["program"] in ("forward", "best forward"):
            continue
        name = one["program"]
        if "form" in one:
            name += f', "{one["form"]}"'
        cells.setdefault(name, {})[one["network"]] = _pair(one, forward[one["network"]])
    for name, by_network in cells.items():
        row = " | ".join(by_network.get(network, "") for network in forward)
        yield f"| {name} | {row} |"


def _pair(one: dict[str, Any], less: dict[str, Any] | None = None) -> str:
    times = ("estimated_us", "measured_us")
    return "; ".join(f"{one[t] - (less[t] if less else 0):,}" for t in times)


def _microseconds(row: dict[str, Any], which: str) -> int | None:
    seconds = row[f"{which}seconds"]
    if seconds is None:
        return None
    return round(1e6 * (seconds + (row.get(f"{which}prepare_seconds") or 0.0)))
