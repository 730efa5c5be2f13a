"""0 good; 1 not good enough; 2 wrong use; 3 all else, also of outputs nobody reads."""

import os
import signal
import socket
import subprocess
import sys

import jax
import pytest

import jaxrob
from jaxrob import alterations, reporting
from jaxrob._arguments.texts import computing
from jaxrob._command import programs
from jaxrob._command.ending import plain, status_of
from jaxrob.strategies import _drive

from .outcomes import check, only, process, succeeded


@pytest.mark.slow
def test_an_assessment_that_is_good_enough(assess, tmp_path):
    required = "--require=robustness>=0", "--require=decided_ratio>=1"
    out = succeeded(assess(*required, "--pictures=16"))
    assert "net.py:net on pictures: 40 images of 28 x 28 x 1" in out
    results = reporting.read_results(tmp_path / "results")
    (one,) = results.assessments
    assert results.network == "net.py:net" and results.class_names[:2] == ("0", "1")
    assert list(one.levels) == [-0.5, 0, 0.5] and one.threshold == 0.8
    assert one.provenance["network"]["version"].startswith("sha256:")
    assert 0 < len(results.pictures[0]) <= 16
    assert results.requirements == (
        reporting.Requirement("robustness", 0.0),
        reporting.Requirement("decided_ratio", 1.0),
    )


def test_a_regression_is_found_and_no_change_is_good(assess, tmp_path):
    folder = f"{tmp_path / 'results'}"
    assert assess("--levels=9")[0] == 0
    again = ("--levels=9", f"--regressions={folder}")
    check(assess(*again, again[1], f"--output={tmp_path / 'twice'}"), 2, "two of")
    status, _, err = assess(*again, f"--output={tmp_path / 'new'}")
    assert (status, err) == (0, "")
    planted = ("--classifier=net.py:worse", f"--output={tmp_path / 'planted'}")
    status, _, err = assess(*again, *planted)
    assert status == 1 and "it was" in err
    assert "not good enough: brightness: robustness is" in err.strip().splitlines()[-1]
    kept = reporting.read_results(tmp_path / "planted").regressions
    assert len(kept) == 1 and kept[0] in err
    itself = f"--regressions={tmp_path / 'planted'}"
    check(assess("--levels=9", *planted, itself), 2, "the regressions that were found")
    fewer = "--alterations=contrast", "--alterations=brightness"
    assert assess("--levels=9", *fewer)[0] == 0
    check(assess(*again, f"--output={tmp_path / 'fewer'}"), 1, "contrast: it is not")
    earlier = f"--earlier={folder}", "--require=difference>=-1", *again[:1]
    check(assess(*earlier, f"--output={tmp_path / 'earlier'}"), 2, "contrast")


@pytest.fixture
def earlier(assess, tmp_path):
    assert assess()[0] == 0
    return f"--regressions={tmp_path / 'results'}"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ("--threshold=0.7", "another threshold, 0.8 and not 0.7"),
        ("--measure=f1", "another measure, accuracy and not f1"),
        ("--num_images=20", "another images"),
        ("--alterations=brightness(-0.2,0.2)", "another range, (-0.5, 0.5) and not"),
    ],
)
def test_other_earlier_results_are_refused_before_anything_is_computed(
    assess, earlier, tmp_path, changed, says
):
    check(assess(earlier, changed, f"--output={tmp_path / 'new'}"), 2, says)
    assert not (tmp_path / "new").exists()


WRONG = [
    (["--threshhold=1"], "'threshhold'. Did you mean"),
    (["--measure=speed"], "measure"),
    (["--alterations=cifar_c(frost=false)"], "'cifar_c(frost=false)'"),
    (["rotation"], "unknown arguments: rotation"),
    (["--require=robustnes>=1"], "quantity"),
    (["--classifier=net.onnx"], "onnx"),
    (["--classifier=net.py"], "--classifier=file.py:function"),
    (["--classifier=net.py:nett"], "there is no nett in it. Did you mean net?"),
    (["--classifier=net.py:two"], "must be a function of images"),
    (["--classifier=net.py:made", "--scale=255"], "--scale"),
    (["--classifier=nowhere.py:net"], "there is no such file"),
    (["--images=nowhere"], "nowhere: expected a folder or a tar archive there"),
    (["--images=pictures/1"], '--labels="labels.csv", without any --labels=none'),
    (["--images=mnist", "--channels=rgb"], "--channels has no meaning for a data set"),
    (["--orientation=upright"], "should be one of <exif|stored>"),
    (["--images_array=x"], "--images_array has no meaning for pictures"),
    (["--labels=nowhere.csv"], "nowhere.csv"),
    (["--class_names=one"], "there is no such file; names have commas"),
    (["--class_names=0,1"], "class"),
    (["--size=28,28,1"], "--size must"),
    (["--channels=rgb"], "Say --channels=grey"),
    (["--resize=28"], "--crop"),
    (["--resize=28", "--crop=28", "--size=28"], "say the same"),
    (["--scale=a"], "--scale must be a number"),
    (["--mean=1,2"], "mean has 2 numbers"),
    (["--report=report.pdf"], "it must end with .html"),
    (["--output=net.py"], "there is a file of that name"),
    (["--pictures=2"], "--pictures must be 0, or 3 to 16"),
    (["--plan=a.toml", "--threshold=1"], "--threshold: the plan says it"),
    (["--regressions=pictures"], "it holds neither results.json nor a file"),
    (["--num_processes=2"], "go together"),
]


@pytest.mark.parametrize(
    ("arguments", "says"), WRONG, ids=[" ".join(one) for one, _ in WRONG]
)
def test_wrong_use_is_2_and_one_line(assess, tmp_path, arguments, says):
    ran = assess(*arguments)
    check(ran, 2, says)
    assert len(ran[2].strip().splitlines()) == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("raises_later", "a mistake of my own"),
        ("ends", "SystemExit: 1"),
        ("starved", "MemoryError"),
        ("unreadable", "its text cannot be read"),
        ("nan", "returned NaN, or infinite logits, for 16 of 16"),
    ],
)
def test_a_network_that_fails_is_3(assess, name, says):
    check(assess(f"--classifier=net.py:{name}"), 3, says)


def test_a_file_that_fails_when_it_is_run(assess, tmp_path):
    for name, code in (("bad", "raise ValueError('no')"), ("exits", "exit(1)")):
        (tmp_path / f"{name}.py").write_text(code)
        assert assess(f"--classifier={tmp_path / name}.py:net")[0] == 3


def test_a_file_that_may_not_be_read_is_3(assess, tmp_path, monkeypatch):
    """Permissions say nothing to the superuser, so that the reader itself refuses."""

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(jaxrob.data, "image_folder", refuse)
    check(assess(), 3, "Permission denied")


def test_an_error_after_the_answers_is_3(assess, monkeypatch):
    def fail(*_, **__):
        raise ValueError("a mistake of the report's")

    monkeypatch.setattr(reporting, "table", fail)
    assert assess()[0] == 3


COMMAND = (sys.executable, "-m", "jaxrob")
SMALL = (
    "assess", "--images=pictures", "--channels=grey", "--alterations=brightness",
    "--levels=3", "--noprogress",
)  # fmt: skip


@pytest.mark.slow
def test_two_hosts_share_the_work(place, tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    given = (
        "--classifier=net.py:net", "--require=robustness>=1", "--threshold=1",
        "--report=shared.html", f"--coordinator_address={address}", "--num_processes=2",
    )  # fmt: skip
    hosts = []
    for number in range(2):
        own = f"--process_id={number}", f"--output={tmp_path / str(number)}"
        arguments = (*COMMAND, *SMALL, *given, *own)
        hosts.append(process(arguments, subprocess.Popen, cwd=place))
    outputs = [host.communicate(timeout=300)[0] for host in hosts]
    assert [host.returncode for host in hosts] == [1, 1]
    assert "wrote shared.html" in outputs[0] and "wrote" not in outputs[1]
    assert not (tmp_path / "1").exists()
    assert only(tmp_path / "0").provenance["devices"]["count"] == 2


def test_help_is_quick_and_loads_nothing_heavy(place):
    program = (
        "import sys; from jaxrob._command.run import main; "
        "main(['--help']); main(['assess', '--help']); "
        "assert not {'jax', 'numpy', 'scipy', 'flax'} & set(sys.modules)"
    )
    done = process([sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr[-2000:]
    assert "--classifier" in done.stdout and "Status:" in done.stdout


def test_programs_are_kept_in_a_folder_of_the_users_own(tmp_path, monkeypatch):
    own = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    programs.keep_programs()
    assert jax.config.jax_compilation_cache_dir == own and not any(tmp_path.iterdir())
    folder = programs._own_folder()
    assert jax.lib.__version__ in folder.name and folder.stat().st_mode & 0o77 == 0
    unused, used = folder / "unused", folder / "used"
    for one, at in ((used, 2), (unused, 1)):
        one.write_bytes(bytes(8))
        os.utime(one, (at, at))
    monkeypatch.setattr(programs, "_MOST_BYTES", 8)
    programs._own_folder()
    assert used.exists() and not unused.exists()
    folder.chmod(0o777)
    with pytest.raises(PermissionError):
        programs._own_folder()


DAMAGED = """
import jax, pathlib, sys
from jaxrob._command.programs import keep_programs
keep_programs(sys.argv[1])
print(jax.jit(lambda x: x + 1)(1.0))
for one in pathlib.Path(sys.argv[1]).iterdir():
    one.write_bytes(b"damaged")
    one.chmod(0o400)
jax.clear_caches()
print(jax.jit(lambda x: x + 1)(1.0))
"""


def test_damaged_programs_are_compiled_again(place, tmp_path):
    done = process([sys.executable, "-c", DAMAGED, str(tmp_path / "kept")])
    assert done.stdout.split() == ["2.0", "2.0"], done.stderr
    assert done.stderr.count("jaxrob: warning") == 1
    assert "nocompilation_cache" in done.stderr


def test_a_plan_says_it_all(assess, tmp_path):
    plan = tmp_path / "plan.toml"
    text = (
        'name = "test"\ndate = 2026-03-02\nthreshold = 0.7\n'
        'requirements = ["robustness>=0"]\n[[alterations]]\nname = "gaussian_noise"\n'
        'lower = 0\nupper = 0.2\nsettings = { clip = false }\nreason = "the mount"\n'
    )
    plan.write_text(text)
    ran = assess(f"--plan={plan}", "--alterations=zoom")
    check(ran, 2, "--alterations: the plan says it")
    succeeded(assess(f"--plan={plan}"))
    results = reporting.read_results(tmp_path / "results")
    assert results.plan.name == "test" and results.reasons == ("the mount",)
    (one,) = results.assessments
    assert (one.lower, one.upper, one.threshold) == (0, 0.2, 0.7)
    plain = alterations.gaussian_noise(0, 0.2, clip=False)
    assert one.provenance["alteration"] == plain.description
    plan.write_text(text.replace("robustness>=0", "plr>=0.5"))
    check(assess(f"--plan={plan}"), 2, "jaxrob roma --require=plr>=0.5")
    plan.write_text(text.replace("gaussian_noise", "gausian_noise"))
    check(assess(f"--plan={plan}"), 2, "Did you mean gaussian_noise?", str(plan))


def test_commands_and_flags_that_there_are_not(jaxrob_command):
    status, out, err = jaxrob_command()
    assert status == 2 and out == "" and "jaxrob assess" in err
    check(jaxrob_command("asess"), 2, "Did you mean assess?")
    status, out, _ = jaxrob_command("--version")
    assert (status, out) == (0, f"jaxrob {jaxrob.__version__}\n")
    for name in ("assess", "roma", "compare", "report", "export", "alterations"):
        status, out, err = jaxrob_command(name, "--help")
        assert status == 0 and err == "" and "--" in out
        assert max(map(len, out.splitlines())) <= 100
        check(jaxrob_command(name, "--no_such_flag=1"), 2, "no_such_flag")


def test_what_is_raised_while_computing_is_no_wrong_use():
    with pytest.raises(ValueError) as before:
        raise ValueError("threshold must be in [0, 1]")
    assert status_of(before.value) == 2
    with pytest.raises(TypeError) as wrapped:
        try:
            with computing():
                raise ValueError("an answer that cannot be")
        except ValueError as error:
            raise TypeError("wrapped") from error
    assert status_of(wrapped.value) == 3
    # Nobody's error is its own cause, unless a user's code says so.
    wrapped.value.__cause__ = wrapped.value
    assert status_of(wrapped.value) == 3


def test_a_measure_that_is_undefined_is_found_in_the_answers():
    undefined = _drive.Seen(float("nan"), 0)
    with pytest.raises(ValueError, match="undefined at level 0.5") as raised:
        _drive._check_defined("blur", [0.5], [undefined])
    assert status_of(raised.value) == 3


LINE = (
    "assess --classifier=net.py:net --images=pictures --channels=grey "
    "--alterations=brightness --levels=2"
)


def shell(place, command):
    """The status of a line of bash, what it printed, and what it said."""
    defined = f"jaxrob() {{ '{sys.executable}' -m jaxrob \"$@\"; }}"
    ran = process(["bash", "-c", f"{defined}; {command}"], cwd=place)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.slow
def test_help_and_lists_that_nobody_reads(place):
    assert shell(place, "jaxrob --help >&-") == (0, "", "")
    assert shell(place, "set -o pipefail; jaxrob assess --help | true") == (0, "", "")
    assert shell(place, "jaxrob assess --bogus 2>&-")[:2] == (2, "")
    if os.path.exists("/dev/full"):
        assert shell(place, "jaxrob assess --bogus 2>/dev/full")[0] == 2
        status, _, err = shell(place, "jaxrob --help >/dev/full")
        assert status == 3 and "No space left" in err and len(err.splitlines()) == 1


@pytest.mark.slow
def test_the_status_is_that_of_the_work_if_nobody_reads_it(place, tmp_path):
    asked = f"jaxrob {LINE} --output={tmp_path} --require='robustness>=1' --threshold=1"
    assert shell(place, f"set -o pipefail; {asked} | true")[0] == 1


@pytest.mark.parametrize("name", ["TERM", "HUP"])
def test_a_signal_to_end_is_3_and_said(assess, name):
    known, number = jaxrob.assess, getattr(signal, f"SIG{name}")

    def ended(*arguments, **named):
        os.kill(os.getpid(), number)
        return known(*arguments, **named)

    before = signal.signal(number, signal.SIG_DFL)  # nohup has SIGHUP ignored
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxrob, "assess", ended)
        status, _, err = assess()
    assert status == 3
    assert f"ended by SIG{name}; no alteration is finished" in err
    assert len(err.splitlines()) == 1
    assert signal.signal(number, before) == signal.SIG_DFL


def test_control_characters_do_not_reach_the_terminal(assess, tmp_path):
    (tmp_path / "red.py").write_text(
        "def net(images):\n    raise ValueError('\\x1b[31mred\\x07\\x9b1m')\n"
    )
    status, _, err = assess(f"--classifier={tmp_path / 'red.py'}:net")
    assert status == 3 and not {"\x1b", "\x07", "\x9b"} & set(err)
    assert r"\x1b[31mred\x07\x9b1m" in err.splitlines()[-1]
    assert plain("a\tb\nÄ\x1b") == "a\tb\nÄ\\x1b"
    out = succeeded(assess("--name=a\x1b[2Jb"))
    assert "\x1b" not in out and r"a\x1b[2Jb on pictures" in out
