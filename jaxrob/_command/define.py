"""The command's flags by topic, each defined once, and checks of what they are given.

Every command has values of its own, so that it has no flag that does not apply.
"""

import contextlib
import difflib
import importlib
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from absl import flags

Values = flags.FlagValues
Define = Callable[[Values], None]

OUTPUTS = ("logits", "probabilities", "sigmoid", "scores")
NORMS = ("linf", "l2", "l1")
# JAX would drop the bits beyond 32: equal keys for different seeds.
_MOST_SEED = 2**32 - 1


class _Flag(NamedTuple):
    kind: str  # As in the name of absl's function
    name: str
    default: Any
    about: str
    least: float | None = None
    most: float | None = None
    choices: Sequence[str] = ()


def requirements(*quantities: str, more: str = "") -> Define:
    about = (
        f'End with status 1 unless it holds: "{quantities[0]}>=0.5", for instance; '
        f"of {', '.join(quantities)}. {more}As often as you like."
    )
    return _topic(_Flag("multi_string", "require", [], about))


def _topic(*rows: _Flag) -> Define:
    def define(to: Values) -> None:
        for kind, name, default, about, least, most, choices in rows:
            make = getattr(flags, f"DEFINE_{kind}")
            if choices:
                make(name, default, choices, about, flag_values=to)
            elif kind in ("integer", "float"):
                make(name, default, about, least, most, flag_values=to)
            else:
                make(name, default, about, flag_values=to)
            if name == "compilation_cache":
                to[name].boolean = True  # --nocompilation_cache is "false".
            if name == "measure":
                flags.register_validator(name, _is_measure, flag_values=to)

    return define


def _is_measure(name: str) -> bool:
    """Looks a measure up, unless it is the usual one: NumPy and JAX load slowly."""
    if name != "accuracy":
        try:
            importlib.import_module("jaxrob.metrics._measures").measure_named(name)
        except ValueError as error:
            raise flags.ValidationError(str(error)) from error
    return True


# fmt: off
_CONFIDENCE_LEVEL = _Flag("float", "confidence_level", 0.95,
    "Coverage of the intervals, above 0 and below 1.", least=0, most=1)
network = _topic(
    _Flag("string", "classifier", None,
        "An ONNX file (.onnx), a Keras file (.keras), or file.py:name, a function or "
        "a jaxrob.Classifier in a file of Python, WHICH IS RUN. By default a small "
        "network that is trained on the embedded digits on the spot."),
    _Flag("enum", "outputs", None,
        "What it returns; by default what its last layer says, otherwise logits.",
        choices=OUTPUTS),
    _Flag("list", "scale", None,
        "It sees (scale * pixels - mean) / std of pixels in [0, 1]: one number, or "
        "one for each channel; 255 for a network that takes 0 to 255."),
    _Flag("list", "mean", None, "See --scale."),
    _Flag("list", "std", None, "See --scale."),
    _Flag("bool", "channels_first", None,
        "Whether it takes [B, C, H, W]; by default what an ONNX file says."),
    _Flag("string", "name", None, "What reports call it; by default the file's name."),
)
pictures = _topic(
    _Flag("string", "images", None,
        "A folder or tar archive of class folders of pictures: PNG, JPEG, TIFF, "
        "WebP, BMP, PPM, .npy, DICOM and NIfTI; shards of WebDataset, a folder of .tar "
        "files or \"shard-{000..012}.tar\"; an .npz file; or one of digits, mnist, "
        "cifar10, idc."),
    _Flag("string", "labels", "folders",
        "Of pictures: folders, whose names are the classes; a CSV file of paths and "
        "classes; of shards cls, json or json:FIELD, the file of a sample that holds "
        "its class; or none, then what the network answers unaltered counts as right."),
    _Flag("string", "groups", None,
        "Of a CSV file of --labels: the column by which pictures belong together, such "
        "as patient. Intervals then are of groups; its values are kept nowhere."),
    _Flag("list", "slices", None,
        "Of a CSV file of --labels: columns by whose values the report shows the "
        "robustness too, such as scanner,site."),
    _Flag("string", "class_names", None,
        "The classes in the order of the network's outputs: a text file with a name "
        "on each line, a JSON file, or the names with commas between them. By "
        "default the sorted names of the folders."),
    _Flag("list", "size", None,
        "Height and width to which every picture is resized, or one number for both."),
    _Flag("integer", "resize", None,
        "In place of --size: pixels of the shorter side, proportions kept; needs "
        "--crop.", least=1),
    _Flag("list", "crop", None,
        "Height and width of the middle part that is kept, or one number for both."),
    _Flag("enum", "interpolation", "bicubic",
        "Of --size and --resize, antialiased.", choices=("bicubic", "bilinear")),
    _Flag("enum", "orientation", "exif",
        "Of pictures: put upright as their EXIF says, or taken as they are stored, "
        "as torchvision's loader does.", choices=("exif", "stored")),
    _Flag("enum", "channels", "rgb", "Of pictures.", choices=("rgb", "grey")),
    _Flag("string", "images_array", "images", "The name of the array in an .npz file."),
    _Flag("string", "labels_array", "labels", "The name of the array in an .npz file."),
    _Flag("integer", "num_images", None, "Pictures at most, evenly picked.", least=1),
    _Flag("bool", "dct_scaling", False,
        "Whether JPEG files are decoded at 1/2, 1/4 or 1/8 of their size where that "
        "suffices for --resize or --size: faster for large originals, other pixels."),
    _Flag("enum", "unreadable", "error",
        "Of damaged pictures: reject them, or leave them out, counted and named.",
        choices=("error", "leave_out")),
    _Flag("integer", "max_bytes", 1 << 30,
        "Decoded pictures up to this size are kept in memory; more are decoded when "
        "they are needed.", least=1),
    _Flag("string", "background", None,
        'The colour on which transparent pictures are laid, such as "white".'),
    _Flag("list", "value_range", None,
        "The values that become 0 and 1, of pictures of more than 8 bits: 0,4095 for "
        "12 bits in 16; of DICOM and NIfTI after rescaling, such as "
        "--value_range=-160,240 for a CT (with =, because of the minus). By default "
        "what the file says: of a DICOM file its first window."),
    _Flag("list", "slice_at", None,
        "Axis and index of the picture in each volume (NIfTI), or 0 and the index of "
        "a frame (DICOM)."),
    _Flag("string", "data_dir", None,
        "Folder of the data sets with names; by default $JAXROB_DATA_DIR."),
)
measuring = _topic(
    _Flag("multi_string", "alterations", [],
        "An alteration, with its range if the default is not meant: "
        '"gaussian_blur(0,4)", zoom, "rotation(-30,30,fill=crop)", or '
        '"file.py:name(0,1)", a function of your own, WHICH IS RUN; or imagenet_c or '
        "cifar_c, the fifteen corruptions of a benchmark. As often as you like; by "
        "default the papers' eight. `jaxrob alterations` lists them."),
    _Flag("string", "recorded", None,
        "A folder of the same pictures as --images under other conditions: noise.npy "
        "(CIFAR-10-C), noise/1/class/picture (ImageNet-C), or 10lux/class/picture. "
        "Those that have the final size are not resized again."),
    _Flag("string", "frost", None,
        "Folder of the pictures that the corruption frost needs, frost1.png to "
        "frost5.jpg; by default those of the package imagecorruptions, if installed. "
        "They are not part of jaxrob, and their licence is not stated."),
    _Flag("string", "plan", None,
        "A TOML file that says the alterations, the threshold, the measure and what "
        "is required, in place of these flags; it may say half_width, budget and "
        "curtail."),
    _Flag("float", "threshold", 0.8,
        "Lowest accepted value of the measure.", least=0, most=1),
    _Flag("string", "measure", "accuracy",
        "Measure: accuracy, precision, recall, f1, effectiveness or another of "
        "jaxrob.metrics.measures, or top5_accuracy, with any number below that of the "
        "classes."),
    _Flag("float", "alpha", None,
        "Confidence level above which the network may answer unknown; by default it "
        "always decides.", least=0, most=1),
    _CONFIDENCE_LEVEL,
    _Flag("integer", "levels", None,
        "So many evenly spaced levels of each alteration; by default ASAP chooses.",
        least=2),
    _Flag("integer", "batch_size", None, "Images in a block.", least=1),
)
few_images = _topic(
    _Flag("float", "half_width", None,
        "Look at as few images as tell the robustness on this data set within so "
        "much either way (0.01: one hundredth of the range), with "
        "--confidence_level. 0: the answer of all images, but for a chance of 0.001 "
        "for each alteration. With --require=robustness>=..., an alteration ends "
        "sooner, once that is certain. Not with --measure=precision or f1, "
        "--regressions, or --require=decided_ratio. By default every level takes all "
        "images.", least=0),
    _Flag("integer", "budget", None,
        "Classify at most so many altered images, of all alterations together, where "
        "they tell most; the result says how precise it is. Goes with what "
        "--half_width does.", least=1),
    _Flag("bool", "curtail", False,
        "End a level only where the images left cannot change its side: the answer "
        "of all images, for certain, from fewer. Goes with what --half_width does."),
)
domain = _topic(
    _Flag("float", "half_width", 0.02,
        "Half the width of the interval of the accepted volume, the share of all "
        "combinations of levels at which the network is good enough.", least=0),
    _Flag("integer", "budget", None,
        "Classify at most so many altered images for it.", least=1),
    _Flag("enum", "guarantee", "calibrated",
        "Of that interval: calibrated (simulated), or proven, at three to four times "
        "the price.", choices=("calibrated", "proven")),
    _Flag("bool", "box", True,
        "Whether the largest accepted box around the unaltered images is looked for."),
    _Flag("string", "profile", None,
        "A CSV file of recorded levels, a column for each alteration with its name "
        "above: then the probability of a failure at such levels is measured too."),
)
perturbing = _topic(
    _Flag("float", "epsilon", 0.04,
        "Radius of the ball, of pixels in [0, 1].", least=0),
    _Flag("enum", "norm", "linf", "Of the ball.", choices=NORMS),
    _Flag("float", "delta", 0.6,
        "Least confidence of a distinct answer.", least=0, most=1),
    _Flag("string", "estimator", "auto", 
        "roma, count, importance, splitting, auto or another of "
        "jaxrob.roma.ESTIMATORS."),
    _Flag("integer", "budget", None,
        "Forward passes for each picture at most, of --estimator=auto; by default "
        "10,000, 0 for no limit.", least=0),
    _Flag("integer", "num_samples", 1000, "Plain draws for each picture.", least=8),
    _Flag("float", "half_width", None,
        "Look at pictures in random order, and end as soon as each class's mean is "
        "known to so much, with --confidence_level; by default all are looked at.",
        least=0, most=0.5),
    _CONFIDENCE_LEVEL,
    _Flag("bool", "clip", False, "Whether perturbed pictures are clipped."),
)
regressions = _topic(
    _Flag("multi_string", "regressions", [],
        "End with status 1 if the network is less robust than an earlier one, beyond "
        "what chance explains: a results folder, or the JSON file of an assessment."),
)
before = _topic(
    _Flag("multi_string", "earlier", [],
        'A results folder, or the JSON file of an assessment, that '
        '--require="difference>=-0.02" compares with: a loss of 0.02 is allowed.'),
)
outcomes = _topic(
    _Flag("string", "junit", None,
        "Write whether each requirement is met to this file, as JUnit XML."),
    _Flag("string", "summary", None,
        "Append a short summary in Markdown to this file, such as "
        "$GITHUB_STEP_SUMMARY."),
)
report = _topic(
    _Flag("multi_string", "report", [],
        "Write the report to this file, .html or .md. As often as you like."),
)
tester = _topic(
    _Flag("string", "tester", None, "Who ran the tests, for the report."),
    _Flag("string", "organisation", None, "For which organisation they were run."),
)
earlier = _topic(
    _Flag("multi_string", "earlier", [],
        "Results folder to compare with, of each folder."),
)
output = _topic(
    _Flag("string", "output", "results", "Results folder, written to."),
)
kept_pictures = _topic(
    _Flag("integer", "pictures", 16,
        "Pictures kept for the report, of each alteration at most.", least=0, most=16),
)
strip = _topic(
    _Flag("string", "pictures", None,
        "Write a picture of every alteration at seven levels to this PNG file."),
    _Flag("string", "image", None, "The picture that is altered; by default a digit."),
    _Flag("list", "size", ["224", "224"],
        "Height and width that the default ranges are for, or one number for both; "
        "of --image its own."),
)
running = _topic(
    _Flag("bool", "dry_run", False,
        "Check everything, and say how many forward passes it takes; compute nothing."),
    _Flag("integer", "seed", 0, "Random seed.", least=0, most=_MOST_SEED),
    _Flag("bool", "progress", True, "Whether progress bars are shown."),
    _Flag("string", "journal", None,
        "Folder that answers are written to at once; a rerun with the same flags "
        "takes up from there."),
    _Flag("string", "compilation_cache", None,
        "=FOLDER, where compiled programs are kept, so that later runs start faster; "
        "by default in the user's cache folder, unless JAX_COMPILATION_CACHE_DIR is "
        "set."),
    _Flag("string", "coordinator_address", None,
        "host:port of the first of several processes."),
    _Flag("integer", "num_processes", None, "How many they are.", least=1),
    _Flag("integer", "process_id", None, "Which this one is, from 0.", least=0),
)
ranking = _topic(
    _CONFIDENCE_LEVEL,
    _Flag("string", "figure", None, "A figure of the ranks: .png, .svg or .pdf."),
)
failing = _topic(
    _Flag("string", "failing", None,
        "Write the pictures of each alteration that fail first into a folder in this "
        "one, with a table and files that FiftyOne and Label Studio import. It must "
        "be empty."),
)
export = _topic(
    _Flag("string", "csv", None,
        "Write a table with a row for each assessment to this CSV file."),
    _Flag("string", "levels_csv", None,
        "Write a table with a row for each level to this CSV file."),
    _Flag("string", "roma_csv", None,
        "Write a table with a row for each result of RoMA to this CSV file."),
    _Flag("string", "latex", None,
        "Write the table of assessments to this LaTeX file; it needs booktabs."),
)
# fmt: on


class Refused(Exception):
    """Wrong use, or bad input found before anything is computed: status 2."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    # Hyphens, underscores and case do not distinguish names.
    plain = {one.lower().replace("_", ""): one for one in names}
    given = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    close = difflib.get_close_matches(given, plain, n=1)
    # One word of a longer name is often thought to suffice.
    words = {}
    for one in plain.values():
        words |= {word: one for word in one.split("_") if word not in words}
    if not close and (near := difflib.get_close_matches(given, words, n=1)):
        return f" Did you mean {words[near[0]]}?"
    return f" Did you mean {plain[close[0]]}?" if close else ""


def check_given(values: Values, words: Sequence[str], expected: str) -> None:
    """Rejects empty values, and flags that were taken as the value of another."""
    for name in values:
        if not values[name].present:
            continue
        value = values[name].value
        texts = value if isinstance(value, list) else [value]
        if not texts or any(isinstance(one, str) and not one.strip() for one in texts):
            raise Refused(f"--{name}: its value is empty; leave it out, or say one")
        for one in texts:
            if isinstance(one, str) and one.startswith("--"):
                raise Refused(f"--{name}: its value is missing; the next is {one}")
    for number, word in enumerate(words):
        if not word.strip():
            raise Refused(
                f"the argument {number + 1} is empty; expected {expected or 'flags'}"
            )


def check_unplanned(values: Values, *names: str) -> None:
    for name in names:
        if values[name].present:
            raise Refused(f"--{name}: the plan says it; leave it out, or the plan")


def check_folders(values: Values, *names: str) -> None:
    """Rejects flags' folders that cannot be made, or written to."""
    # Only the first process writes; the flag says which it is before they meet.
    if "process_id" in values and values.process_id:
        return
    for name in names:
        path = getattr(values, name)
        is_switch = values[name].boolean and path in ("true", "false")
        if path is not None and not is_switch:
            _check(f"--{name}={path}", pathlib.Path(path), None)


def check_file(flag: str, path: str, *endings: str) -> None:
    """Rejects a file that cannot be written. An existing file stays as it is."""
    file = pathlib.Path(path)
    if endings and file.suffix.lower() not in endings:
        raise Refused(f"--{flag}={path}: it must end with {', '.join(endings)}")
    if file.is_dir():
        raise Refused(f"--{flag}={path}: there is a folder of that name")
    _check(f"--{flag}={path}", file.parent, file)


def check_distinct(files: Sequence[tuple[str, str]]) -> None:
    """Rejects two flags that name one file, because one would replace the other's."""
    named: dict[str, str] = {}
    for flag, path in files:
        place = os.path.realpath(path)
        if os.path.exists(place) and not os.path.isfile(place):
            continue
        if place in named:
            raise Refused(
                f"--{named[place]} and --{flag} both name {path}; each must name "
                "another file"
            )
        named[place] = flag


def _check(what: str, folder: pathlib.Path, file: pathlib.Path | None) -> None:
    made: list[pathlib.Path] = []
    try:
        for one in (*reversed(folder.parents), folder):
            if not one.exists():
                one.mkdir(exist_ok=True)
                made.append(one)
        if file is None:
            tempfile.TemporaryFile(dir=folder).close()
            return
        is_new = not file.exists()
        open(file, "ab").close()
        if is_new:
            file.unlink()
    except OSError as error:
        where = error.filename or folder
        raise Refused(
            f"{what}: it cannot be written, {where}: {error.strerror}"
        ) from error
    finally:
        for one in reversed(made):
            with contextlib.suppress(OSError):
                one.rmdir()
