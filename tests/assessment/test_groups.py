"""Metadata and groups of a data set, from images to results, slices and comparisons."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxrob
from jaxrob import metrics, reporting
from jaxrob.alterations import brightness
from jaxrob.strategies import FewImages, Uniform

LEVELS = Uniform(5)


def network(variables, images):
    score = images.mean((1, 2, 3)) * 8 - variables
    return jax.numpy.stack([0 * score, score], -1)


CLASSIFIER = jaxrob.Classifier(network, 2.0, "logits")


def data(sizes, rng, **more):
    """Grey pictures; those of a group are alike, and so are their answers."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    grey = 0.95 * rng.random(len(sizes))[groups] + 0.05 * rng.random(len(groups))
    images = grey.astype(np.float32)[:, None, None, None]
    labels = (grey > 0.3).astype(int)
    names = np.array([f"patient-{number:03d}" for number in groups])
    metadata = {"patient": names, **more.pop("metadata", {})}
    images = np.broadcast_to(images, (len(groups), 2, 2, 1))
    return jaxrob.Dataset(images, labels, metadata=metadata, **more)


def assessed(dataset, strategy=LEVELS, threshold=0.8):
    # Blocks of one size, which one program answers.
    how = {"key": jax.random.key(3), "batch_size": 64}
    dim = brightness(-0.5, 0.5)
    return jaxrob.assess(
        CLASSIFIER, dataset, dim, threshold=threshold, strategy=strategy, **how
    )


@pytest.fixture(scope="module")
def grouped():
    rng = np.random.default_rng(6611)
    sizes = rng.integers(5, 40, 40)
    number = sizes.sum()
    scanner = np.where(rng.random(number) < 0.5, "A", "B")
    age = rng.integers(20, 90, number).astype(float)
    return data(sizes, rng, groups="patient", metadata={"scanner": scanner, "age": age})


def test_groups_widen_what_is_said_of_images_to_come_alone(grouped):
    alone = jaxrob.Dataset(grouped.images, grouped.labels)
    wide, narrow = assessed(grouped), assessed(alone)
    assert wide.robustness == narrow.robustness
    assert wide.dataset_interval == narrow.dataset_interval
    low, high = metrics.bands(wide.counts, "accuracy")
    least, most = metrics.bands(narrow.counts, "accuracy")
    assert (low <= least).all() and (high >= most).all() and (high - low).max() > 0.1
    few = [assessed(one, FewImages(half_width=0.05)) for one in (grouped, alone)]
    assert few[0].dataset_interval == few[1].dataset_interval
    first, second = (one.confidence_interval for one in few)
    assert first.low <= second.low and first.high >= second.high and first != second


@pytest.mark.parametrize("strategy", [LEVELS, FewImages(half_width=0.05)])
def test_results_keep_groups_without_their_names(grouped, strategy):
    found = assessed(grouped, strategy)
    facts = found.provenance["dataset"]["groups"]
    sizes = np.unique(grouped.metadata["patient"], return_counts=True)[1]
    assert facts["number"] == 40 and facts["largest"] == sizes.max() / sizes.sum()
    assert facts["effective"] == pytest.approx(sizes.sum() ** 2 / (sizes**2).sum())
    for text in (found.to_json(), found.to_json(answers=False)):
        assert "patient-" not in text
        again = jaxrob.Assessment.from_json(text)
        assert again.confidence_interval == found.confidence_interval
        for one in metrics.bands(again.counts, "accuracy"):
            assert ((one >= 0) & (one <= 1)).all()
    page = reporting.to_markdown([reporting.Results(None, None, (found,))])
    assert "patient-" not in page
    # The least robust of a column of many are shown, and how many there are.
    assert ("the first 20 of 70" in page) == (strategy is LEVELS)


@pytest.mark.filterwarnings("ignore:.*groups are few")
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(s, marks=pytest.mark.slow) for s in (0, *range(2, 10)))]
)
def test_slices_are_what_the_images_alone_give(seed):
    rng = np.random.default_rng(6620 + seed)
    sizes = rng.integers(1, 30, rng.integers(3, 20))
    column = rng.integers(rng.integers(1, 6), size=sizes.sum()) * 0.5
    column[rng.random(len(column)) < 0.1 * (seed % 2)] = np.nan
    dataset = data(sizes, rng, groups="patient", metadata={"dose": column})
    found = assessed(dataset).by("dose")
    names = [*map(str, np.unique(column[~np.isnan(column)]).tolist())]
    names += ["(missing)"] * bool(np.isnan(column).any())
    assert sorted(one.value for one in found.slices) == sorted(names)
    for one in found.slices:
        which = np.isnan(column) if one.value == "(missing)" else None
        which = column == float(one.value) if which is None else which
        alone = assessed(dataset[which])
        assert one.assessment.robustness == alone.robustness
        assert one.assessment.confidence_interval == alone.confidence_interval
        assert one.joint_interval.low <= alone.confidence_interval.low
        assert one.joint_interval.high >= alone.confidence_interval.high
    ascending = [one.assessment.robustness for one in found.slices]
    assert ascending == sorted(ascending) and found.worst is found.slices[0]


def test_slices_by_bins_and_whether_the_worst_is_told_apart(grouped):
    found = assessed(grouped).by("age", bins=[0, 40, 60, 90])
    assert {one.value for one in found.slices} == {"[0, 40)", "[40, 60)", "[60, 90]"}
    age = grouped.metadata["age"]
    images = {one.value: len(one.assessment.curve.labels) for one in found.slices}
    assert images["[40, 60)"] == ((age >= 40) & (age < 60)).sum()
    rng = np.random.default_rng(6612)
    tenths = {"share": np.float32(np.arange(600) % 10 / 10)}
    shared = dataclasses.replace(data(np.full(300, 2), rng), metadata=tenths)
    for bins in ([0, 0.3, 0.7, 1], np.float32([0, 0.3, 0.7, 1])):
        slices = assessed(shared).by("share", bins=bins).slices
        numbers = {one.value: len(one.assessment.curve.labels) for one in slices}
        assert numbers == {"[0, 0.3)": 180, "[0.3, 0.7)": 240, "[0.7, 1]": 180}
    dataset = data(np.full(300, 2), rng)
    wrong = rng.random(600) < 0.1
    for site in (np.where(wrong, "far", "near"), rng.integers(2, size=600)):
        labels = np.where(site == "far", 1 - dataset.labels, dataset.labels)
        one = jaxrob.Dataset(dataset.images, labels, metadata={"site": site})
        sites = assessed(one).by("site")
        assert sites.is_told_apart == (sites.worst.value == "far")


@pytest.mark.filterwarnings("ignore:.*groups are few")
@pytest.mark.parametrize("values", [3, pytest.param(1000, marks=pytest.mark.slow)])
def test_slices_of_one_image_of_none_of_nan_and_across_groups(values):
    number = np.arange(1200)
    one = np.where(number == 7, "alone", "others")
    columns = {"one": one, "many": number % values, "each": number}
    columns["nan"] = number * np.nan
    rng = np.random.default_rng(6615)
    dataset = data(np.full(60, 20), rng, groups="patient", metadata=columns)
    columns["many"][:] = 0  # a buffer that is filled again
    found = assessed(dataset)
    alone = next(s for s in found.by("one").slices if s.value == "alone")
    assert alone.assessment.robustness == assessed(dataset[7:8]).robustness
    assert alone.joint_interval.high - alone.joint_interval.low > 0.9
    assert len(found.by("many").slices) == values
    with pytest.raises(ValueError, match="column"):
        found.by("each")
    (whole,) = found.by("nan").slices
    assert whole.value == "(missing)"
    assert whole.assessment.confidence_interval == found.confidence_interval
    # A bin without an image is no slice.
    assert len(found.by("each", bins=[-9, 0, 1200]).slices) == 1


def test_each_group_once():
    rng = np.random.default_rng(6616)
    dataset = data(rng.integers(1, 40, 40), rng, groups="patient")
    names = dataset.metadata["patient"]
    site = np.where(names < "patient-020", "near", "far")
    known = dataset.metadata | {"site": site, "each": np.arange(len(names))}
    found = assessed(dataclasses.replace(dataset, metadata=known))
    each = found.of_groups()
    # What differs within a group is no group's.
    assert [*each.curve.table.columns] == ["site"]
    networks = [reporting.Results(name, None, (each,)) for name in ("old", "new")]
    page = reporting.to_markdown(networks)
    assert "“image” means one of these" in page and page.count("| near | 20 |") == 2
    of_slices = page.partition("## By slices")[2].partition("\n## ")[0]
    assert "### old" in of_slices and "### new" in of_slices
    right = found.curve.predicted == found.curve.labels
    means = [right[:, names == name].mean(1) for name in np.unique(names)]
    np.testing.assert_allclose(each.values, np.mean(means, axis=0))
    assert each.measure == "mean accuracy of groups"
    assert "patient-" not in each.to_json()
    again = jaxrob.Assessment.from_json(each.to_json())
    assert again.confidence_interval == each.confidence_interval
    assert jaxrob.compare(each, each).difference == 0
    # Of equal sizes, each group once is each image once.
    alike = assessed(data(np.full(40, 5), rng, groups="patient"))
    each = alike.of_groups()
    assert each.robustness == pytest.approx(alike.robustness, abs=1e-12)
    assert each.confidence_interval == pytest.approx(alike.confidence_interval)
    with pytest.raises(ValueError, match="of_groups"):
        assessed(dataset, FewImages(half_width=0.05)).of_groups()


def test_a_comparison_swaps_whole_groups():
    rng = np.random.default_rng(6613)
    dataset = data(np.full(5, 40), rng, groups="patient")
    other = jaxrob.Classifier(network, 3.5, "logits")
    dim = brightness(-0.5, 0.5)
    with pytest.warns(jaxrob.RobustnessWarning, match="groups are few"):
        pair = [
            jaxrob.assess(one, dataset, dim, strategy=LEVELS)
            for one in (CLASSIFIER, other)
        ]
    # Of 2**5 swaps of groups two are as extreme as what was seen, at least.
    assert jaxrob.compare(*pair).mean_p_value >= 2 / 32
    alone = jaxrob.Dataset(dataset.images, dataset.labels)
    single = jaxrob.assess(other, alone, dim, strategy=LEVELS)
    with pytest.raises(ValueError, match="groups"):
        jaxrob.compare(pair[0], single)


@pytest.mark.parametrize(
    ("metadata", "groups", "named"),
    [
        (None, "patient", "groups"),
        ({"site": [1, 2, 3]}, "patient", "groups"),
        ({"patient": [1, 2]}, "patient", "metadata"),
        ({"patient": [1, None, 2]}, "patient", "metadata"),
        ({"patient": [1, np.nan, 2]}, "patient", "metadata"),
        ({"patient": ["a", "", "b"]}, "patient", "metadata"),
        ({"patient": ["a", "#n/a", "b"]}, "patient", "metadata"),
        ({"patient": np.array([b"a", b"", b"b"])}, "patient", "metadata"),
        ({"patient": np.array(["a", np.nan, "b"], object)}, "patient", "metadata"),
        ({"": [1, 2, 3]}, None, "metadata"),
        # float32 and float64 make one number of these two.
        ({"patient": np.float32([2**24, 2**24 + 1, 0])}, None, "metadata"),
        ({"patient": [2**60, 2**60 + 1, np.nan]}, None, "metadata"),
    ],
)
def test_tables_that_are_refused(metadata, groups, named):
    images = np.zeros((3, 2, 2, 1), np.float32)
    with pytest.raises(ValueError, match=named):
        jaxrob.Dataset(images, [0, 1, 1], metadata=metadata, groups=groups)


def test_copies_are_counted_and_groups_explain_them():
    rng = np.random.default_rng(6614)
    images = np.repeat(rng.random((20, 2, 2, 1), dtype=np.float32), 100, axis=0)
    labels = (images.mean((1, 2, 3)) > 0.5).astype(int)
    with pytest.warns(jaxrob.RobustnessWarning, match="1980 of 2000 images are copies"):
        found = assessed(jaxrob.Dataset(images, labels), threshold=0.3)
    assert found.provenance["dataset"]["copies"] == 1980
    halves = [(images[half::2], labels[half::2]) for half in (0, 1)]
    batches = jaxrob.Dataset.from_batches(halves, channels_first=False)
    with pytest.warns(jaxrob.RobustnessWarning, match="1980 of 2000 images are copies"):
        assessed(batches, threshold=0.3)
    metadata = {"picture": np.repeat(np.arange(20), 100)}
    dataset = jaxrob.Dataset(images, labels, metadata=metadata, groups="picture")
    found = assessed(dataset, threshold=0.3)
    assert "copies" not in found.provenance["dataset"]
    one = assessed(jaxrob.Dataset(images[::100], labels[::100]), threshold=0.3)
    (low, high), (least, most) = found.confidence_interval, one.confidence_interval
    assert low <= least + 1e-9 and high >= most - 1e-9


def test_slices_that_are_refused(grouped):
    whole = assessed(grouped)
    for column, bins in (("patient", None), ("none", None)):
        with pytest.raises(ValueError, match="column"):
            whole.by(column, bins)
    for column, bins in (("scanner", [0, 1]), ("age", [0, 30]), ("age", [3])):
        with pytest.raises(ValueError, match="bins"):
            whole.by(column, bins)
    dim, known = brightness(-0.5, 0.5), {"site": np.zeros(len(grouped))}
    with pytest.raises(ValueError, match="reduced"):
        jaxrob.evaluate(CLASSIFIER, grouped, dim, [0.0], reduced=True)
    alone = jaxrob.Dataset(grouped.images, grouped.labels, metadata=known)
    reduced = jaxrob.assess(CLASSIFIER, alone, dim, strategy=LEVELS, reduced=True)
    few = assessed(grouped, FewImages(half_width=0.05))
    for one in (few, assessed(jaxrob.Dataset(grouped.images, grouped.labels)), reduced):
        with pytest.raises(ValueError, match="by"):
            one.by("site")
