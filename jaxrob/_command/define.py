"""The command's flags by topic, each defined once.

They are named after the arguments of the library's functions. Every command has values
of its own, so that it has no flag that does not apply.
"""

import importlib
from collections.abc import Callable

from absl import flags

Values = flags.FlagValues
Define = Callable[[Values], None]

OUTPUTS = ("logits", "probabilities", "sigmoid", "scores")
NORMS = ("linf", "l2", "l1")
# JAX would drop the bits beyond 32: equal keys for different seeds.
_MOST_SEED = 2**32 - 1


def network(to: Values) -> None:
    """Defines the flags of the network."""
    flags.DEFINE_string(
        "classifier",
        None,
        "An ONNX file (.onnx), a Keras file (.keras), or file.py:name, a function or a "
        "jaxrob.Classifier in a file of Python, WHICH IS RUN. By default a small "
        "network that is trained on the embedded digits on the spot.",
        flag_values=to,
    )
    flags.DEFINE_enum(
        "outputs",
        None,
        OUTPUTS,
        "What it returns; by default what its last layer says, otherwise logits.",
        flag_values=to,
    )
    flags.DEFINE_list(
        "scale",
        None,
        "It sees (scale * pixels - mean) / std of pixels in [0, 1]: one number, or one "
        "for each channel; 255 for a network that takes 0 to 255.",
        flag_values=to,
    )
    flags.DEFINE_list("mean", None, "See --scale.", flag_values=to)
    flags.DEFINE_list("std", None, "See --scale.", flag_values=to)
    flags.DEFINE_bool(
        "channels_first",
        None,
        "Whether it takes [B, C, H, W]; by default what an ONNX file says.",
        flag_values=to,
    )
    flags.DEFINE_string(
        "name",
        None,
        "What reports call it; by default the file's name.",
        flag_values=to,
    )


def pictures(to: Values) -> None:
    """Defines the flags of the pictures."""
    flags.DEFINE_string(
        "images",
        None,
        "A folder or tar archive of class folders of pictures: PNG, JPEG, TIFF, WebP, "
        "BMP, .npy, DICOM and NIfTI; shards of WebDataset, a folder of .tar files or "
        '"shard-{000..012}.tar"; an .npz file; or one of digits, mnist, cifar10, idc.',
        flag_values=to,
    )
    flags.DEFINE_string(
        "labels",
        "folders",
        "Of pictures: folders, whose names are the classes; a CSV file of paths and "
        "classes; of shards cls, json or json:FIELD, the file of a sample that holds "
        "its class; or none, then what the network answers unaltered counts as right.",
        flag_values=to,
    )
    flags.DEFINE_string(
        "class_names",
        None,
        "The classes in the order of the network's outputs: a text file with a name on "
        "each line, a JSON file, or the names with commas between them. By default "
        "the sorted names of the folders.",
        flag_values=to,
    )
    flags.DEFINE_list(
        "size",
        None,
        "Height and width to which every picture is resized, or one number for both.",
        flag_values=to,
    )
    flags.DEFINE_integer(
        "resize",
        None,
        "In place of --size: pixels of the shorter side, proportions kept; needs "
        "--crop.",
        1,
        flag_values=to,
    )
    flags.DEFINE_list(
        "crop",
        None,
        "Height and width of the middle part that is kept, or one number for both.",
        flag_values=to,
    )
    flags.DEFINE_enum(
        "interpolation",
        "bicubic",
        ("bicubic", "bilinear"),
        "Of --size and --resize, antialiased.",
        flag_values=to,
    )
    flags.DEFINE_enum(
        "orientation",
        "exif",
        ("exif", "stored"),
        "Of pictures: put upright as their EXIF says, or taken as they are stored, as "
        "torchvision's loader does.",
        flag_values=to,
    )
    flags.DEFINE_enum(
        "channels", "rgb", ("rgb", "grey"), "Of pictures.", flag_values=to
    )
    flags.DEFINE_string(
        "images_array",
        "images",
        "The name of the array in an .npz file.",
        flag_values=to,
    )
    flags.DEFINE_string(
        "labels_array",
        "labels",
        "The name of the array in an .npz file.",
        flag_values=to,
    )
    flags.DEFINE_integer(
        "num_images", None, "Pictures at most, evenly picked.", 1, flag_values=to
    )
    flags.DEFINE_bool(
        "dct_scaling",
        False,
        "Whether JPEG files are decoded at 1/2, 1/4 or 1/8 of their size where that "
        "suffices for --resize or --size: faster for large originals, other pixels.",
        flag_values=to,
    )
    flags.DEFINE_enum(
        "unreadable",
        "error",
        ("error", "leave_out"),
        "Of damaged pictures: reject them, or leave them out, counted and named.",
        flag_values=to,
    )
    flags.DEFINE_integer(
        "max_bytes",
        1 << 30,
        "Decoded pictures up to this size are kept in memory; more are decoded when "
        "they are needed.",
        1,
        flag_values=to,
    )
    flags.DEFINE_string(
        "background",
        None,
        'The colour on which transparent pictures are laid, such as "white".',
        flag_values=to,
    )
    flags.DEFINE_list(
        "value_range",
        None,
        "The values that become 0 and 1, of pictures of more than 8 bits: 0,4095 for "
        "12 bits in 16; of DICOM and NIfTI after rescaling, such as "
        "--value_range=-160,240 for a CT (with =, because of the minus). By default "
        "what the file says: of a DICOM file its first window.",
        flag_values=to,
    )
    flags.DEFINE_list(
        "slice_at",
        None,
        "Axis and index of the picture in each volume (NIfTI), or 0 and the index of a "
        "frame (DICOM).",
        flag_values=to,
    )
    flags.DEFINE_string(
        "data_dir",
        None,
        "Folder of the data sets with names; by default $JAXROB_DATA_DIR.",
        flag_values=to,
    )


def measuring(to: Values) -> None:
    """Defines the flags of the measurement."""
    flags.DEFINE_multi_string(
        "alterations",
        [],
        "An alteration, with its range if the default is not meant: "
        '"gaussian_blur(0,4)", zoom, "rotation(-30,30,fill=crop)", or '
        '"file.py:name(0,1)", a function of your own, WHICH IS RUN; or imagenet_c or '
        "cifar_c, the fifteen corruptions of a benchmark. As often as you like; by "
        "default the papers' eight. `jaxrob alterations` lists them.",
        flag_values=to,
    )
    flags.DEFINE_string(
        "frost",
        None,
        "Folder of the pictures that the corruption frost needs, frost1.png to "
        "frost5.jpg; by default those of the package imagecorruptions, if installed. "
        "They are not part of jaxrob, and their licence is not stated.",
        flag_values=to,
    )
    flags.DEFINE_string(
        "plan",
        None,
        "A TOML file that says the alterations, the threshold, the measure and what is "
        "required, in place of these flags; it may say half_width, budget and curtail.",
        flag_values=to,
    )
    flags.DEFINE_float(
        "threshold", 0.8, "Lowest accepted value of the measure.", 0, 1, flag_values=to
    )
    flags.DEFINE_string(
        "measure",
        "accuracy",
        "Measure: accuracy, precision, recall, f1, effectiveness or another of "
        "jaxrob.metrics.measures, or top5_accuracy, with any number below that of the "
        "classes.",
        flag_values=to,
    )
    flags.register_validator(
        "measure",
        _is_measure,
        flag_values=to,
    )
    flags.DEFINE_float(
        "alpha",
        None,
        "Confidence level above which the network may answer unknown; by default it "
        "always decides.",
        0,
        1,
        flag_values=to,
    )
    _confidence_level(to)
    flags.DEFINE_integer(
        "levels",
        None,
        "So many evenly spaced levels of each alteration; by default ASAP chooses.",
        2,
        flag_values=to,
    )
    flags.DEFINE_integer("batch_size", None, "Images in a block.", 1, flag_values=to)


def _is_measure(name: str) -> bool:
    """Looks a measure up, unless it is the usual one: NumPy and JAX load slowly."""
    if name != "accuracy":
        try:
            importlib.import_module("jaxrob.metrics._quality").measure_named(name)
        except ValueError as error:
            raise flags.ValidationError(str(error)) from error
    return True


def few_images(to: Values) -> None:
    """Defines the flags that limit the number of images."""
    flags.DEFINE_float(
        "half_width",
        None,
        "Look at as few images as tell the robustness on this data set within so much "
        "either way (0.01: one hundredth of the range), with --confidence_level. 0: "
        "the answer of all images, but for a chance of 0.001 for each alteration. With "
        "--require=robustness>=..., an alteration ends sooner, once that is certain. "
        "Not with --measure=precision or f1, --regressions, or "
        "--require=decided_ratio. By default every level takes all images.",
        0,
        flag_values=to,
    )
    flags.DEFINE_integer(
        "budget",
        None,
        "Classify at most so many altered images, of all alterations together, where "
        "they tell most; the result says how precise it is. Goes with what "
        "--half_width does.",
        1,
        flag_values=to,
    )
    flags.DEFINE_bool(
        "curtail",
        False,
        "End a level only where the images left cannot change its side: the answer of "
        "all images, for certain, from fewer. Goes with what --half_width does.",
        flag_values=to,
    )


def perturbing(to: Values) -> None:
    """Defines the flags of RoMA's measurement."""
    flags.DEFINE_float(
        "epsilon", 0.04, "Radius of the ball, of pixels in [0, 1].", 0, flag_values=to
    )
    flags.DEFINE_enum("norm", "linf", NORMS, "Of the ball.", flag_values=to)
    flags.DEFINE_float(
        "delta", 0.6, "Least confidence of a distinct answer.", 0, 1, flag_values=to
    )
    flags.DEFINE_string(
        "estimator", "auto", "One of jaxrob.roma.ESTIMATORS.", flag_values=to
    )
    flags.DEFINE_integer(
        "budget",
        None,
        "Forward passes for each picture at most, of --estimator=auto; by default "
        "10,000, 0 for no limit.",
        0,
        flag_values=to,
    )
    flags.DEFINE_integer(
        "num_samples", 1000, "Plain draws for each picture.", 8, flag_values=to
    )
    flags.DEFINE_float(
        "half_width",
        None,
        "Look at pictures in random order, and end as soon as each class's mean is "
        "known to so much, with --confidence_level; by default all are looked at.",
        0,
        0.5,
        flag_values=to,
    )
    _confidence_level(to)
    flags.DEFINE_bool(
        "clip", False, "Whether perturbed pictures are clipped.", flag_values=to
    )


def requirements(*quantities: str, more: str = "") -> Define:
    """Returns a function that defines the flag of requirements on these quantities."""

    def define(to: Values) -> None:
        flags.DEFINE_multi_string(
            "require",
            [],
            f'End with status 1 unless it holds: "{quantities[0]}>=0.5", for instance; '
            f"of {', '.join(quantities)}. {more}As often as you like.",
            flag_values=to,
        )

    return define


def regressions(to: Values) -> None:
    """Defines the flag of earlier results to compare with."""
    flags.DEFINE_multi_string(
        "regressions",
        [],
        "End with status 1 if the network is less robust than an earlier one, beyond "
        "what chance explains: a results folder, or the JSON file of an assessment.",
        flag_values=to,
    )


def before(to: Values) -> None:
    """Defines the flag of earlier results that a required difference is to."""
    flags.DEFINE_multi_string(
        "earlier",
        [],
        "A results folder, or the JSON file of an assessment, that "
        '--require="difference>=-0.02" compares with: a loss of 0.02 is allowed.',
        flag_values=to,
    )


def outcomes(to: Values) -> None:
    """Defines the flags of the files that say whether requirements are met."""
    flags.DEFINE_string(
        "junit",
        None,
        "Write whether each requirement is met to this file, as JUnit XML.",
        flag_values=to,
    )
    flags.DEFINE_string(
        "summary",
        None,
        "Append a short summary in Markdown to this file, such as "
        "$GITHUB_STEP_SUMMARY.",
        flag_values=to,
    )


def report(to: Values) -> None:
    """Defines the flag of the report."""
    flags.DEFINE_multi_string(
        "report",
        [],
        "Write the report to this file, .html or .md. As often as you like.",
        flag_values=to,
    )


def tester(to: Values) -> None:
    """Defines the flags of who tested, for whom."""
    flags.DEFINE_string(
        "tester", None, "Who ran the tests, for the report.", flag_values=to
    )
    flags.DEFINE_string(
        "organisation", None, "For which organisation they were run.", flag_values=to
    )


def earlier(to: Values) -> None:
    """Defines the flag of earlier results that a report compares with."""
    flags.DEFINE_multi_string(
        "earlier", [], "Results folder to compare with, of each folder.", flag_values=to
    )


def output(to: Values) -> None:
    """Defines the flag of the results folder."""
    flags.DEFINE_string(
        "output", "results", "Results folder, written to.", flag_values=to
    )


def kept_pictures(to: Values) -> None:
    """Defines the flag of the number of pictures kept with the results."""
    flags.DEFINE_integer(
        "pictures",
        16,
        "Pictures kept for the report, of each alteration at most.",
        0,
        16,
        flag_values=to,
    )


def strip(to: Values) -> None:
    """Defines the flags of a picture of the alterations."""
    flags.DEFINE_string(
        "pictures",
        None,
        "Write a picture of every alteration at seven levels to this PNG file.",
        flag_values=to,
    )
    flags.DEFINE_string(
        "image",
        None,
        "The picture that is altered; by default a digit.",
        flag_values=to,
    )
    flags.DEFINE_list(
        "size",
        ["224", "224"],
        "Height and width that the default ranges are for, or one number for both; of "
        "--image its own.",
        flag_values=to,
    )


def running(to: Values) -> None:
    """Defines the flags of the run."""
    flags.DEFINE_bool(
        "dry_run",
        False,
        "Check everything, and say how many forward passes it takes; compute nothing.",
        flag_values=to,
    )
    flags.DEFINE_integer("seed", 0, "Random seed.", 0, _MOST_SEED, flag_values=to)
    flags.DEFINE_bool(
        "progress", True, "Whether progress bars are shown.", flag_values=to
    )
    flags.DEFINE_string(
        "journal",
        None,
        "Folder that answers are written to at once; a rerun with the same flags takes "
        "up from there.",
        flag_values=to,
    )
    flags.DEFINE_string(
        "compilation_cache",
        None,
        "Folder where compiled programs are kept, so that later runs start faster.",
        flag_values=to,
    )
    flags.DEFINE_string(
        "coordinator_address",
        None,
        "host:port of the first of several processes.",
        flag_values=to,
    )
    flags.DEFINE_integer("num_processes", None, "How many they are.", 1, flag_values=to)
    flags.DEFINE_integer(
        "process_id", None, "Which this one is, from 0.", 0, flag_values=to
    )


def ranking(to: Values) -> None:
    """Defines the flags of ranks."""
    _confidence_level(to)
    flags.DEFINE_string(
        "figure",
        None,
        "A figure of the ranks: .png, .svg or .pdf.",
        flag_values=to,
    )


def _confidence_level(to: Values) -> None:
    flags.DEFINE_float(
        "confidence_level",
        0.95,
        "Coverage of the intervals, above 0 and below 1.",
        0,
        1,
        flag_values=to,
    )


def failing(to: Values) -> None:
    """Defines the flags of a folder of the pictures that fail first."""
    flags.DEFINE_string(
        "failing",
        None,
        "Write the pictures of each alteration that fail first into a folder in this "
        "one, with a table and files that FiftyOne and Label Studio import. It must be "
        "empty.",
        flag_values=to,
    )


def export(to: Values) -> None:
    """Defines the flags of the files that results are exported to."""
    for name, what in (
        ("csv", "Write a table with a row for each assessment"),
        ("levels_csv", "Write a table with a row for each level"),
        ("roma_csv", "Write a table with a row for each result of RoMA"),
    ):
        flags.DEFINE_string(name, None, f"{what} to this CSV file.", flag_values=to)
    flags.DEFINE_string(
        "latex",
        None,
        "Write the table of assessments to this LaTeX file; it needs booktabs.",
        flag_values=to,
    )
