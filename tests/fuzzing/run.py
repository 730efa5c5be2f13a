"""Every reader of files meets mutated ones, in a process of little memory and time.

    python tests/fuzzing/run.py FOLDER CASES SEED [READER ...]

Prints a line of JSON for each reader: how many files were refused and how many read,
and the cases in which it did neither: another error than a ValueError or an OSError
that names the file, an object that is not valid, more memory or time than allowed.
What it failed on stays in the folder.
"""

import json
import pathlib
import random
import resource
import signal
import sys
import traceback
import warnings

from arrays import npz_target, weights_target
from documents import (
    attack_target,
    few_target,
    journal_targets,
    json_target,
    roma_json_target,
    roma_target,
)
from folders import folder_targets, plan_target
from mutations import ROOM, mutated
from pictures import idx_target, image_target, tar_target

SECONDS = 20


class Hang(BaseException):
    """A case took too long."""


def failure(target, path, expected):
    """What is wrong with how a file was read; or "refused" or "read"."""
    try:
        value = target.read(path)
    except (ValueError, OSError) as error:
        if ran_out(error):
            return "more memory than allowed"
        if target.names_file and str(path) not in str(error):
            return f"an error without the file's name: {error!r}"
        return "refused"
    except BaseException:
        return traceback.format_exc()
    try:
        target.check(value)
        if expected is not None:
            assert target.same(value, expected), "another value than was written"
    except BaseException:
        return traceback.format_exc()
    return "read"


def ran_out(error):
    """Whether an error comes from a lack of memory."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def run(target, folder, cases, rng):
    counts, failures = {"refused": 0, "read": 0}, []
    path = folder / "file"
    originals = []
    for seed in target.seeds:
        path.write_bytes(seed.wrap(seed.content))
        originals.append(target.read(path))
        target.check(originals[-1])
    for number in range(cases):
        chosen = rng.randrange(len(target.seeds))
        seed = target.seeds[chosen]
        path.write_bytes(seed.wrap(mutated(seed.content, rng)))
        content = path.read_bytes()
        expected = originals[chosen] if seed.is_protected else None
        signal.alarm(SECONDS)
        try:
            found = failure(target, path, expected)
        finally:
            signal.alarm(0)
        if found in counts:
            counts[found] += 1
        else:
            kept = folder / f"{target.name} {number}"
            kept.write_bytes(content)
            failures.append([str(kept), found])
    return {"name": target.name, **counts, "failures": failures}


def stop(*_):
    raise Hang(f"more than {SECONDS} s")


def main(folder, cases, seed, *names):
    folder = pathlib.Path(folder)
    warnings.simplefilter("ignore")
    targets = (
        json_target(),
        few_target(),
        *journal_targets(),
        roma_target(),
        npz_target(folder),
        weights_target(folder),
        idx_target(),
        tar_target(),
        image_target(folder),
        roma_json_target(),
        attack_target(),
        plan_target(),
        *folder_targets(folder),
    )
    signal.signal(signal.SIGALRM, stop)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for target in targets:
        if not names or target.name in names:
            rng = random.Random(f"{seed} {target.name}")
            print(json.dumps(run(target, folder, int(cases), rng)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
