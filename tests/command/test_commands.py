"""What each command does, with networks and pictures of every kind."""

import re
import tarfile

import numpy as np
import pytest
from absl import flags
from PIL import Image

import jaxrob
from jaxrob import alterations, data
from jaxrob._arguments.warnings import warn
from jaxrob._command import run
from jaxrob.reporting import Requirement
from jaxrob.reporting import read_results as results

from .outcomes import check, only, succeeded


def test_the_answers_are_those_of_the_library(assess, place, nearest, tmp_path):
    assert assess("--alterations=rotation(-30,30,fill=edge)", "--levels=7")[0] == 0
    dataset = data.image_folder(place / "pictures", grey=True)
    expected = jaxrob.assess(
        jaxrob.Classifier.from_host(nearest, 10),
        dataset,
        alterations.rotation(-30, 30, "edge"),
        strategy=jaxrob.strategies.Uniform(7),
    )
    found = only(tmp_path / "results")
    np.testing.assert_array_equal(found.values, expected.values)
    assert found.robustness == expected.robustness
    assert found.provenance["dataset"] == expected.provenance["dataset"]


@pytest.mark.parametrize("name", ["made", "classifier"])
def test_a_classifier_of_the_users(assess, tmp_path, name):
    assert assess(f"--classifier=net.py:{name}", "--name=mine")[0] == 0
    assert results(tmp_path / "results").network == "mine"
    assert only(tmp_path / "results").values[1] > 0.8


def test_preprocessing_is_undone_by_its_opposite(assess, tmp_path):
    """(255 x - 51) / 2, which the network's own means are told of by nothing."""
    assert assess("--scale=255", "--mean=0", "--std=255")[0] == 0
    same = only(tmp_path / "results").values
    plain, far = tmp_path / "plain", tmp_path / "far"
    assert assess(f"--output={plain}")[0] == 0
    np.testing.assert_array_equal(only(plain).values, same)
    # Shifted far away, every image gets one answer.
    assert assess("--mean=100", f"--output={far}")[0] == 0
    assert only(far).values.max() < 0.3


def test_an_npz_file(jaxrob_command, tmp_path):
    arguments = (
        "assess", "--classifier=net.py:net", "--images=test.npz", "--levels=3",
        "--alterations=brightness", "--noprogress", f"--output={tmp_path}",
    )  # fmt: skip
    assert "20 images" in succeeded(jaxrob_command(*arguments, "--num_images=20"))
    ran = jaxrob_command(*arguments, "--labels_array=y")
    check(ran, 2, "it has no array 'y'; it has images, labels")


def test_pictures_without_labels_are_stability(assess, tmp_path):
    status, out, err = assess("--labels=none")
    assert status == 0 and "stability of brightness" not in err
    assert only(tmp_path / "results").is_stability and "stability" in out


def test_labels_of_a_file_and_names_in_another_order(assess, place, tmp_path):
    """A network whose outputs are not in the order of the sorted names."""
    rows = [
        (f"{one.parent.name}/{one.name}", int(one.parent.name))
        for one in sorted((place / "pictures").rglob("*.png"))
    ]
    table = tmp_path / "labels.csv"
    labels = f"--labels={table}"
    table.write_text("\n".join(f"{path},{label}" for path, label in rows))
    assert assess(labels)[0] == 0
    right = only(tmp_path / "results").values
    assert right[1] > 0.8
    # Where labels are names, the order of the names decides.
    table.write_text("\n".join(f"{path},{'abcdefghij'[n]}" for path, n in rows))
    assert assess(labels, "--class_names=a,b,c,d,e,f,g,h,i,j")[0] == 0
    np.testing.assert_array_equal(only(tmp_path / "results").values, right)
    assert assess(labels, "--class_names=b,a,c,d,e,f,g,h,i,j")[0] == 0
    assert only(tmp_path / "results").values[1] < right[1]
    assert results(tmp_path / "results").class_names[:2] == ("b", "a")


def test_pictures_are_resized_and_cropped(assess, tmp_path):
    for arguments in (["--size=28,28"], ["--resize=30", "--crop=28"]):
        assert "28 x 28" in succeeded(assess(*arguments))


def test_photographs_of_phones_stand_upright(assess, place, tmp_path):
    assert assess()[0] == 0
    upright = only(tmp_path / "results").values
    turned = Image.Exif()
    turned[0x112] = 6
    for path in (place / "pictures").glob("*/*.png"):
        copy = tmp_path / "phone" / path.relative_to(place / "pictures")
        copy.parent.mkdir(parents=True, exist_ok=True)
        Image.open(path).transpose(Image.Transpose.ROTATE_90).save(copy, exif=turned)
    status, _, err = assess(f"--images={tmp_path / 'phone'}")
    assert status == 0 and "warning: " in err and "40 of 40 pictures are stored" in err
    np.testing.assert_array_equal(only(tmp_path / "results").values, upright)
    arguments = f"--images={tmp_path / 'phone'}", "--orientation=stored"
    status, _, err = assess(*arguments)
    assert status == 0 and "of 40 pictures" not in err
    assert only(tmp_path / "results").values[1] < upright[1] - 0.3


def test_shards_that_are_read_when_needed_and_a_damaged_picture(
    assess, place, tmp_path
):
    assert assess("--num_images=13")[0] == 0
    expected = only(tmp_path / "results")
    shard = tmp_path / "shard-0.tar"
    with tarfile.open(shard, "w") as archive:
        paths = sorted((place / "pictures").glob("*/*.png"))
        for number, path in enumerate(paths):
            label = tmp_path / "label"
            label.write_text(path.parent.name)
            archive.add(path, f"{number}.png")
            archive.add(label, f"{number}.cls")
        label.write_text("")
        archive.add(label, ".hidden")
    report = f"--report={tmp_path / 'report.md'}"
    asked = f"--images={tmp_path}/shard-{{0..0}}.tar", "--max_bytes=900", report
    succeeded(assess(*asked, "--num_images=13"))
    found = only(tmp_path / "results")
    np.testing.assert_array_equal(found.values, expected.values)
    data = bytearray(shard.read_bytes())
    at = data.find(b"IDAT")
    data[at : at + 4] = b"XDAT"
    shard.write_bytes(data)
    status, _, err = assess(*asked)
    assert status == 2 and "0.png: not a readable picture" in err
    status, _, err = assess(*asked, "--unreadable=leave_out")
    assert status == 0 and "1 of 40 pictures are unreadable" in err
    reading = only(tmp_path / "results").provenance["dataset"]["reading"]
    assert reading["left_out"] == {
        "number": 1,
        "of": 40,
        "names": ["shard-0.tar/0.png"],
    }
    text = (tmp_path / "report.md").read_text()
    assert "1 of 40, which are unreadable: " in text and "1, hidden or of" in text


def test_a_report_of_an_assessment_is_that_of_its_folder(
    assess, jaxrob_command, tmp_path
):
    reports = [tmp_path / name for name in ("a.html", "a.md", "b.html", "b.md")]
    asked = [f"--report={one}" for one in reports]
    assert assess("--require=robustness>=0", *asked[:2])[0] == 0
    folder = f"{tmp_path / 'results'}"
    assert jaxrob_command("report", folder, *asked[2:])[0] == 0
    html, markdown, again, again_markdown = (one.read_text() for one in reports)
    assert (html, markdown) == (again, again_markdown)
    assert "net.py:net" in html and "brightness" in markdown
    succeeded(jaxrob_command("report", folder))
    assert (tmp_path / "results" / "report.html").read_text() == html
    page, stored = f"--check={reports[0]}", f"--results={folder}"
    assert "letter by letter" in succeeded(jaxrob_command("report", page, stored))
    assert "no forgery" in succeeded(jaxrob_command("report", page))
    reports[0].write_text(html.replace("Verdict", "Praise", 1))
    assert jaxrob_command("report", page, stored)[0] == 1
    nowhere = jaxrob_command("report", f"{tmp_path / 'nowhere'}")
    check(nowhere, 2, "there is no such folder or file")
    check(jaxrob_command("report"), 2, "expected folder...")


def test_warnings_of_one_cause_are_said_once(capsys):
    known = flags.FlagValues()
    flags.DEFINE_float("alpha", None, "", flag_values=known)
    with run._warnings_on_a_line(known):
        for name, level in (("zoom", 1.5), ("gaussian blur", 2)):
            warn(f"{name}: nothing is decided at level {level}. Say alpha=0.5")
            warn(f"{name}: level {level} holds no image")
    assert capsys.readouterr().err.splitlines() == [
        "jaxrob: warning: zoom: nothing is decided at level 1.5. Say --alpha=0.5",
        "jaxrob: warning: zoom: level 1.5 holds no image",
    ]


def test_messages_name_flags(jaxrob_command, tmp_path):
    folder = tmp_path / "pictures" / "some"
    folder.mkdir(parents=True)
    for width in (8, 9):
        Image.new("L", (width, 8)).save(folder / f"{width}.png")
    arguments = ("assess", "--classifier=net.py:net", f"--images={folder.parent}")
    check(jaxrob_command(*arguments), 2, "pass --size=height,width to resize all")
    check(
        jaxrob_command(*arguments, "--dct_scaling"), 2, "without --resize=", "--size="
    )
    check(jaxrob_command(*arguments, "--crop=9"), 2, "fewer than --crop=9,9 keeps")


def test_compare(assess, jaxrob_command, tmp_path):
    asked = ("--alterations=brightness(-0.5,0)", "--levels=21")
    for name, network in (("old", "net"), ("new", "worse")):
        given = f"--classifier=net.py:{network}", f"--output={tmp_path / name}"
        succeeded(assess(*asked, *given))
    old, new = f"{tmp_path / 'old'}", f"{tmp_path / 'new'}"
    status, out, err = jaxrob_command("compare", old, new)
    assert status == 1 and "brightness: robustness is" in err
    difference = only(new).robustness - only(old).robustness
    found = re.search(r"difference ([+-][.\d]+)", out)
    assert float(found[1]) == pytest.approx(difference, abs=0.02)
    assert jaxrob_command("compare", new, old)[0] == 0
    assert jaxrob_command("compare", f"{old}/brightness.json", old)[0] == 0
    # A name of a file's writes no line of its own.
    text = (tmp_path / "old" / "brightness.json").read_text()
    forged = tmp_path / "forged.json"
    forged.write_text(text.replace('"brightness"', '"a\\n\\u001bblur: 5% -> 9%"'))
    out = succeeded(jaxrob_command("compare", f"{forged}", f"{forged}"))
    assert out.startswith("a (U+001B)blur: 5% -> 9%: ")
    check(jaxrob_command("compare", old), 2, "expected old new")
    assert assess(f"--output={tmp_path / 'other'}")[0] == 0
    check(jaxrob_command("compare", old, f"{tmp_path / 'other'}"), 2, "brightness")


def test_the_confidence_level(assess, tmp_path):
    asked = "--alterations=brightness(-0.5,0)"
    assert "99 % interval" in succeeded(assess(asked, "--confidence_level=0.99"))
    assert only(tmp_path / "results").confidence_level == 0.99
    ran = assess(asked, "--confidence_level=1")
    check(ran, 2, "confidence_level must lie in (0, 1)")


def test_roma(assess, roma, tmp_path):
    folder = f"{tmp_path / 'results'}"
    assert assess("--require=robustness>=0")[0] == 0
    out = succeeded(roma("--require=plr>=0"))
    both = results(folder)
    assert len(both.roma.plr) == 10 and both.assessments[0].alteration == "brightness"
    assert both.requirements == (
        Requirement("robustness", 0.0),
        Requirement("plr", 0.0),
    )
    assert f"mean plr {both.roma.plr.mean():.6f}" in out
    calls = _module().CALLS
    del calls[:]
    out = succeeded(roma("--dry_run", "--estimator=auto", "--num_samples=1000"))
    assert "10 images: 10,000 to 100,000 forward passes" in out
    assert "a short trial" in out and "no gradients" in out
    # The plain draws twice, and fewer before, are the most that a trial takes.
    assert sum(calls) < 40_000
    out = succeeded(roma("--half_width=0.1"))
    assert "looked at 10 images; the mean over all lies" in out
    assert results(folder).roma.half_width == 0.1
    out = succeeded(roma("--half_width=0.1", "--confidence_level=0.99"))
    assert "(99 %)" in out and results(folder).roma.confidence_level == 0.99
    for argument, status, says in (
        ("--classifier=net.py:worse", 2, "it holds results of another network"),
        ("--estimator=importance", 2, "that JAX can differentiate"),
        ("--confidence_level=1", 2, "confidence_level must lie in (0, 1)"),
        ("--half_width=0", 2, "half_width must lie in (0, 0.5)"),
        # Fifty draws leave the lower end far below 1.
        (
            "--require=plr.low>=0.999",
            1,
            "not shown to be good enough: RoMA: plr.low is",
        ),
    ):
        check(roma(argument), status, says)


def test_a_dry_run_says_what_there_will_be(assess, tmp_path):
    status, out, err = assess(
        "--dry_run", "--alterations=zoom(1,2)", "--alterations=rotation"
    )
    assert status == 0, err
    assert "40 images x 3 levels x 2 alterations: 240 forward passes" in out
    assert "warning: rotation: without a range it is [-180, 180] degrees" in err
    assert "passes a second" in out and re.search(r"time: about \d+ s", out)
    assert not (tmp_path / "results").exists()
    # What is wrong is said all the same.
    assert assess("--dry_run", "--alterations=zoom(3,4)")[0] == 2


def test_a_journal_spares_the_network(assess, tmp_path):
    calls = "--classifier=net.py:net", f"--journal={tmp_path / 'journal'}"
    assert assess(*calls)[0] == 0
    first = only(tmp_path / "results").values
    counted = _module().CALLS
    del counted[:]
    assert assess(*calls)[0] == 0
    # It is asked for its classes, but for no picture's any more.
    assert sum(counted) < 40
    np.testing.assert_array_equal(only(tmp_path / "results").values, first)
    assert len(list((tmp_path / "journal").iterdir())) == 1


def _module():
    from jaxrob._command import user_code

    return next(
        one for path, one in user_code._modules.items() if path.endswith("/net.py")
    )


def test_the_digits_without_a_network(jaxrob_command, tmp_path):
    arguments = (
        "assess", "--alterations=brightness", "--levels=3", "--num_images=50",
        "--noprogress", f"--output={tmp_path}",
    )  # fmt: skip
    out = succeeded(jaxrob_command(*arguments))
    assert "small network trained on the spot on digits/test: 50 images" in out
    assert only(tmp_path).values[1] > 0.9
    ran = jaxrob_command(*arguments, "--images=pictures")
    check(ran, 2, "--images needs --classifier")
    ran = jaxrob_command("assess", "--classifier=net.py:net")
    check(ran, 2, "--images must say which pictures")


@pytest.mark.slow
def test_the_list_of_alterations(jaxrob_command, place, tmp_path):
    out = succeeded(jaxrob_command("alterations", "--size=50,200"))
    rows = {line.split()[0]: line.split()[1:3] for line in out.splitlines()[2:]}
    assert rows["horizontal_translation"] == ["-20,20", "px"]
    assert rows["gaussian_blur"] == ["0,2", "px"] and len(rows) == 8 + 9 + 19 + 2
    picture = tmp_path / "strip.png"
    image = next((place / "pictures").rglob("*.png"))
    drawing = "alterations", f"--pictures={picture}"
    succeeded(jaxrob_command(*drawing, f"--image={image}"))
    with Image.open(picture) as drawn:
        assert min(drawn.size) > 500
    for wrong in ("--pictures=strip.pdf", "--image=x.png", "--size=0"):
        assert jaxrob_command("alterations", wrong)[0] == 2
    assert jaxrob_command(*drawing, "--image=nowhere.png")[0] == 2


# By name: an argument, and what the line says.
MISTAKES = {
    "noise in the units of bytes": (
        "--alterations=gaussian_noise(0,25)",
        "divide it by 255**2",
    ),
    "blur larger than the picture": (
        "--alterations=gaussian_blur(0,40)",
        "blurs all of an image",
    ),
    "translation in percent": (
        "--alterations=horizontal_translation(-50,50)",
        'unit="relative"',
    ),
    "brightness in percent": (
        "--alterations=brightness(0,50)",
        "divide percent by 100",
    ),
    "a softmax declared as logits": (
        "--classifier=mistakes.py:softmax",
        'outputs="probabilities"',
    ),
    "decisions declared as logits": (
        "--classifier=mistakes.py:decisions",
        'outputs="scores"',
    ),
    "answers that depend on company": ("--classifier=mistakes.py:company", "beside"),
    "one answer for all": ("--classifier=mistakes.py:constant", "learnt nothing"),
    "labels in another order": (
        "--class_names=9,8,7,6,5,4,3,2,1,0",
        "below the threshold",
    ),
    "an alteration that leaves [0, 1]": (
        "--alterations=mistakes.py:bright(0,1)",
        "jnp.clip(image, 0, 1)",
    ),
    "an alteration that makes NaN": ("--alterations=mistakes.py:bad(0,1)", "NaN"),
}
NETWORKS = """
import numpy as np
from net import net

def softmax(images):
    scores = np.exp(net(images) / 50 - (net(images) / 50).max(1, keepdims=True))
    return scores / scores.sum(1, keepdims=True)

def decisions(images):
    return np.eye(10)[net(images).argmax(1)]

def company(images):
    images = (images - images.mean(0)) / (images.std(0) + 0.1)
    return net(images)

def constant(images):
    return np.tile(np.arange(10.0) * 9, (len(images), 1))

def bright(image, level):
    return image + level

def bad(image, level):
    import jax.numpy as jnp
    return jnp.where(level > 0.4, jnp.sqrt(-1 - image), image)
"""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_likely_mistake_draws_a_line(assess, place, name):
    argument, says = MISTAKES[name]
    (place / "mistakes.py").write_text(NETWORKS)
    status, _, err = assess(argument)
    lines = [one for one in err.splitlines() if one.startswith("jaxrob: warning: ")]
    assert any(says in one for one in lines), err
    assert status in (0, 3)


def test_corruptions_by_severity(assess, jaxrob_command, tmp_path):
    """ASAP looks at the severities too, from which the mean error is computed."""
    report = tmp_path / "report.md"
    arguments = (
        "assess", "--classifier=net.py:net", "--images=pictures", "--channels=grey",
        "--alterations=corruptions.contrast",
        "--alterations=corruptions.brightness(size=32)",
        "--noprogress", f"--output={tmp_path / 'results'}", f"--report={report}",
    )  # fmt: skip
    out = succeeded(jaxrob_command(*arguments))
    assert "15 corruptions" not in out
    for one in results(tmp_path / "results").assessments:
        assert {0, 1, 2, 3, 4, 5} < set(one.levels) and one.unit == "severity"
        assert "Including(strategy=ASAP(" in one.strategy
        errors = 1 - one.values[np.isin(one.levels, [1, 2, 3, 4, 5])]
        assert f"| {one.alteration} | {100 * errors.mean():.1f} %" in report.read_text()
    assert "fails at severity" in report.read_text()


@pytest.mark.parametrize("levels, is_said", [(6, False), (8, True), (11, False)])
def test_levels_that_miss_severities_are_said_before(assess, levels, is_said):
    fog = "--alterations=corruptions.fog"
    _, _, err = assess(fog, f"--levels={levels}", "--dry_run")
    assert ("--levels=6 has them all" in err) == is_said


@pytest.mark.slow
def test_a_benchmark_by_name(assess, tmp_path):
    """Without frost, whose pictures are in no package here."""
    status, out, err = assess("--alterations=cifar_c", "--levels=6", "--num_images=10")
    assert status == 0, err
    names = [one.alteration for one in results(tmp_path / "results").assessments]
    assert len(names) in (14, 15) and names[0] == "gaussian noise"
    assert ("frost is left out" in err) == (len(names) == 14)
    assert "mean error over 15 corruptions" in out


def test_alterations_lists_the_benchmarks(jaxrob_command):
    out = succeeded(jaxrob_command("alterations"))
    names = "corruptions.fog", "imagenet_c", "cifar_c", "motion_blur", "shot_noise"
    assert all(f"\n{name} " in out for name in names)
