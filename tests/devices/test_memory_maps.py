"""Room for compiled programs."""

import pathlib

import jax
import pytest

from jaxrob._devices import blocks


@pytest.fixture(autouse=True)
def counts_at_each_call(monkeypatch):
    monkeypatch.setattr(blocks, "_SECONDS", 0.0)


@pytest.fixture
def compiled():
    function = jax.jit(lambda x: x + 1)
    function(1.0)
    return function


@pytest.mark.slow
@pytest.mark.parametrize("number, kept", [(2_000, 1), (60_000, 0)])
def test_programs_are_dropped_where_maps_are_many(
    compiled, number, kept, tmp_path, monkeypatch
):
    maps, limit = tmp_path / "maps", tmp_path / "limit"
    maps.write_text("a line\n" * number)
    limit.write_text("65530\n")
    monkeypatch.setattr(blocks, "_MAPS", maps)
    monkeypatch.setattr(blocks, "_LIMIT", limit)
    blocks.make_room()
    assert compiled._cache_size() == kept
    assert compiled(1.0) == 2.0


def test_elsewhere_nothing_is_done(compiled, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "_MAPS", tmp_path / "none")
    blocks.make_room()
    assert compiled._cache_size() == 1


@pytest.mark.slow
@pytest.mark.skipif(
    not pathlib.Path("/proc/self/maps").exists(),
    reason="only Linux tells a process its memory maps",
)
def test_dropped_programs_give_their_maps_back(monkeypatch):
    functions = [jax.jit(lambda x, i=i: (x * i).sum()) for i in range(30)]

    def number():
        return len(pathlib.Path("/proc/self/maps").read_text().splitlines())

    before = number()
    for function in functions:
        function(jax.numpy.arange(5.0))
    most = number()
    monkeypatch.setattr(blocks, "_LARGEST_SHARE", 0.0)
    blocks.make_room()
    assert most > before + 30
    assert number() < most - 30
