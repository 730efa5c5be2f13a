"""Any bytes give a clear error or a valid object: every reader of mutated files."""

import importlib
import random

import pytest

from .fuzzing.limited import limited, ran_out
from .fuzzing.mutations import mutated

# The module, and the target in it.
READERS = (
    ("documents", "json"),
    ("documents", "journal"),
    ("documents", "scores_journal"),
    ("documents", "roma_journal"),
    ("documents", "roma_json"),
    ("documents", "attack"),
    ("pictures", "tar"),
    ("pictures", "image"),
    ("pictures", "dicom"),
    ("pictures", "nifti"),
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("module", "reader"), READERS)
def test_any_bytes_are_refused_or_valid(tmp_path, cases, module, reader):
    made = importlib.import_module(f".fuzzing.{module}", __package__)
    target = getattr(made, f"{reader}_target")(tmp_path)
    rng, refused, originals = random.Random(f"0 {reader}"), 0, []
    # It keeps what the test failed on.
    path = tmp_path / "file"
    for seed in target.seeds:
        path.write_bytes(seed.wrap(seed.content))
        originals.append(target.read(path))
        target.check(originals[-1])
    for _ in range(cases):
        seed, original = rng.choice(list(zip(target.seeds, originals)))
        path.write_bytes(seed.wrap(mutated(seed.content, rng)))
        try:
            with limited():
                found = target.read(path)
        except (ValueError, OSError) as error:
            assert not ran_out(error)
            assert not target.names_file or str(path) in str(error)
            refused += 1
        else:
            target.check(found)
            assert not seed.is_protected or target.same(found, original)
    assert refused > cases / 5
