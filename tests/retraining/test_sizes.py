from jaxrob import Alteration
from jaxrob.alterations import presets
from jaxrob.retraining import copies, input_sizes

# Table II and III of the 2020 paper.
TIMES = (4, 4, 2, 4, 2, 2, 2, 2)
ORIGINALS = 210_593


def test_copies_as_table_two():
    assert tuple(map(copies, presets.cnn_2020())) == TIMES
    below = Alteration("below", lambda image, level: image, -1.0, 0.0, 0.0)
    assert copies(below) == 2


def test_sizes_as_table_three():
    ht, vt, rotation, bv, zoom, noise, blur, jpeg = some = presets.cnn_2020()
    sizes = input_sizes(ORIGINALS, some, [bv, noise, blur, jpeg])
    assert sizes["original"] == ORIGINALS
    assert sizes["LDA"] == 2_316_523
    assert sizes["LNP"] == 2_105_930
    # Of a random half, the paper's number is 824 lower: 0.04 %.
    assert sizes["DA"] - 2_526_281 == sizes["NP"] - 2_315_688 == 824
