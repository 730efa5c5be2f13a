"""A step on blocks of rows."""

import jax
import numpy as np
from jax.sharding import Mesh

from jaxrob._devices.blocks import filled, in_blocks, taken
from jaxrob._devices.mesh import checked_mesh


def test_every_row_comes_once_and_in_order():
    values, positions = np.arange(20.0), np.array([3, 1, 4, 15, 9, 2, 6])
    one = Mesh(np.array(jax.local_devices()[:1]), ("images",))
    sizes, mesh = [], checked_mesh(one)

    def step(block, nothing):
        assert nothing is None
        sizes.append(len(block))
        return {"twice": 2 * block}

    blocks = in_blocks(step, lambda at: taken((values, None), at), positions, 3, mesh)
    found = [(at.tolist(), part["twice"].tolist()) for at, part in blocks]
    assert found == [
        ([3, 1, 4], [6.0, 2.0, 8.0]),
        ([15, 9, 2], [30.0, 18.0, 4.0]),
        ([6], [12.0]),
    ]
    assert sizes == [3, 3, 3]
    assert not list(in_blocks(step, None, positions[:0], 3, mesh))


def test_filled_repeats_the_last_row():
    rows = np.array([[1, 2], [3, 4]])
    assert filled(rows, 4).tolist() == [[1, 2], [3, 4], [3, 4], [3, 4]]
    same = filled(rows, 2)
    assert same.tolist() == rows.tolist() and not np.shares_memory(same, rows)
