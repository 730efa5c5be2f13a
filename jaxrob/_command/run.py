"""The command line `jaxrob`: its commands, their flags and exit statuses."""

import contextlib
import gc
import importlib
import re
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from absl import flags

import jaxrob
from jaxrob._arguments.texts import RobustnessWarning, cause_of, error_text
from jaxrob._command import define
from jaxrob._command.define import Refused, check_given, did_you_mean
from jaxrob._command.ending import (
    FAILED,
    GOOD,
    MEANING,
    NOT_GOOD_ENOUGH,
    WRONG_USE,
    begin_record,
    forgiving,
    record_warning,
    say,
    say_traceback,
    signals_as_interruptions,
    status_of,
)

_WIDTH = 88
# Arguments in messages of the library, and their pairs of numbers or words. What is
# quoted is the user's own, and what is called is Python: both stay as they are.
_ARGUMENT = re.compile(
    r"(?<!\w)'[^']*'|\"[^\"]*\"|\w\((?:[^()]|\([^()]*\))*\)"
    r"|(?<![\w./-])([a-z_]+)=(?=\S)"
)
_PAIR = re.compile(r"(--\w+=)\((\w+), (\w+)\)")
_NO_BOOLEAN = re.compile(r"\('Non-boolean argument to boolean flag', .*\)")


class _Command(NamedTuple):
    does: str  # Its description, one line
    words: str  # Its positional arguments, as the help shows them
    number: tuple[int, int | None]
    sections: dict[str, tuple[define.Define, ...]]  # Its flags by topic
    module: str = "results"  # Where its function is, which loads JAX

    @property
    def flags(self) -> flags.FlagValues:
        return _defined(one for some in self.sections.values() for one in some)


_NETWORK = {"The network": (define.network,), "The pictures": (define.pictures,)}
_WRITTEN = define.report, define.tester, define.output, define.outcomes
_RUNS = {"How it runs": (define.running,)}
_COMMANDS = {
    "assess": _Command(
        "How robust a network is to alterations: results, report, gate.",
        "",
        (0, 0),
        _NETWORK
        | {
            "What is measured": (define.measuring,),
            "How many images are looked at": (define.few_images,),
            "What is good enough": (
                define.requirements(
                    *("robustness.low", "robustness", "accuracy", "worst_class"),
                    *("worst_slice.robustness.low", "decided_ratio"),
                    *("difference", "mce"),
                    more='"gaussian blur: robustness.low>=0.5" is of one alteration, '
                    '"mce<=0.7" of all. ',
                ),
                define.before,
                define.regressions,
            ),
            "What is written": (*_WRITTEN, define.kept_pictures, define.failing),
        }
        | _RUNS,
        module="assess",
    ),
    "roma": _Command(
        "How probable a misclassification near each picture is.",
        "",
        (0, 0),
        _NETWORK
        | {
            "What is measured": (define.perturbing,),
            "What is good enough": (define.requirements("plr.low", "plr"),),
            "What is written": _WRITTEN,
        }
        | _RUNS,
        module="roma",
    ),
    "domain": _Command(
        "How robust a network is to several alterations at once, in their order.",
        "",
        (0, 0),
        _NETWORK
        | {
            "What is measured": (define.measuring, define.domain),
            "What is good enough": (
                define.requirements(
                    *("accepted_volume.low", "accepted_volume", "box.volume"),
                    *("failure_probability.high", "failure_probability"),
                ),
            ),
            "What is written": _WRITTEN,
        }
        | _RUNS,
        module="domain",
    ),
    "compare": _Command(
        "Whether a network is less robust than an earlier one; status 1 if it is.",
        "old new",
        (2, 2),
        {"What is written": (define.report,)},
    ),
    "rank": _Command(
        "Ranks of several networks on the same images, with confidence intervals.",
        "folder...",
        (1, None),
        {"What is ranked and written": (define.ranking,)},
    ),
    "report": _Command(
        "The report of one or more results folders.",
        "folder...",
        (1, None),
        {"What is written": (define.report, define.tester, define.earlier)},
    ),
    "export": _Command(
        "Results as CSV, or a table of LaTeX.",
        "folder...",
        (1, None),
        {"What is written": (define.export,)},
    ),
    "alterations": _Command(
        "The alterations there are: names, units, ranges.",
        "",
        (0, 0),
        {"What is shown": (define.strip,)},
        module="catalogue",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    if arguments is None:
        gc.disable()  # Until all is imported, of which nothing is garbage.
    with forgiving() as out:
        status = _main(list(sys.argv[1:] if arguments is None else arguments))
        out.flush()
        # A reader that closed the pipe had read enough.
        if out.lost is None or isinstance(out.lost, BrokenPipeError):
            return status
        say(f"what is printed could not be written: {out.lost.strerror}")
        return status if status == WRONG_USE else FAILED


def _main(arguments: list[str]) -> int:
    if not arguments:
        print(_help(), file=sys.stderr)
        return WRONG_USE
    name, *rest = arguments
    if name in ("--help", "-help", "-h", "help"):
        print(_help())
        return GOOD
    if name == "--version":
        print(f"jaxrob {jaxrob.__version__}")
        return GOOD
    command = _COMMANDS.get(name)
    if command is None:
        hint = did_you_mean(name, _COMMANDS)
        say(f"there is no command {name!r}.{hint} There are: {', '.join(_COMMANDS)}")
        return WRONG_USE
    if {"--help", "-help", "-h"} & set(rest):
        print(_help_of(name, command))
        return GOOD
    with _warnings_on_a_line(command.flags):
        return _ended(name, command, rest)


def _ended(name: str, command: _Command, rest: list[str]) -> int:
    begin_record([name, *rest])
    values = command.flags
    try:
        with signals_as_interruptions():
            values.set_gnu_getopt(True)
            _, *words = values([name, *rest])
            check_given(values, words, command.words)
            _check_words(command, words)
            # JAX is loaded from here on.
            part = importlib.import_module(f"jaxrob._command.{command.module}")
            if not gc.isenabled():
                gc.freeze()
                # JAX's traces are many objects, and little of them is garbage.
                gc.set_threshold(100_000, 20, 100)
                gc.enable()
            verdict = getattr(part, f"run_{name}")(values, words)
    except flags.Error as error:
        say(_NO_BOOLEAN.sub("expected true or false", f"{error}"), name)
        return WRONG_USE
    # Even an exit by the user's code: its status 1 would say that a network failed.
    except BaseException as error:
        status = status_of(error)
        if isinstance(error, KeyboardInterrupt):
            say(_interrupted(error, values), name)
        elif status == WRONG_USE:
            say(_as_flags(_refusal(error), values), name)
        else:
            say_traceback(error)
            say(f"failed: {type(error).__name__}: {error_text(error)}", name)
        return status
    if verdict:
        say(verdict)
        return NOT_GOOD_ENOUGH
    return GOOD


def _refusal(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return error_text(error) or type(error).__name__


def _as_flags(text: str, values: flags.FlagValues) -> str:
    """Returns a message of the library, with its arguments written as flags."""

    def flag(found: re.Match[str]) -> str:
        return f"--{found[1]}=" if found[1] in values else found[0]

    text = _PAIR.sub(r"\1\2,\3", _ARGUMENT.sub(flag, text))
    return text.replace("--labels=None", "--labels=none")


def _interrupted(error: KeyboardInterrupt, values: flags.FlagValues) -> str:
    said = [str(error) or "interrupted", *getattr(error, "__notes__", ())]
    if "journal" in values and values["journal"].present:
        said.append(f"a rerun with the same flags goes on from {values.journal}")
    return "; ".join(said)


def _check_words(command: _Command, words: Sequence[str]) -> None:
    fewest, most = command.number
    if len(words) < fewest:
        raise Refused(f"expected {command.words}; got {' '.join(words) or 'nothing'}")
    if most is not None and len(words) > most:
        raise Refused(
            f"unknown arguments: {' '.join(words[most:])}. Flags are --name=value, "
            "and texts with spaces or parentheses stand in quotation marks"
        )


def _help() -> str:
    lines = ["jaxrob measures how robust an image classifier is.", ""]
    width = max(map(len, _COMMANDS))
    for name, command in _COMMANDS.items():
        lines.append(f"  jaxrob {name.ljust(width)}  {command.does}")
    lines += ["", "`jaxrob COMMAND --help` lists a command's flags.", "", "Status:"]
    lines += [f"  {status}  {meaning}" for status, meaning in MEANING.items()]
    return "\n".join(lines)


def _help_of(name: str, command: _Command) -> str:
    words = ["jaxrob", name, command.words, "[--flag=value ...]"]
    lines = [command.does, "", f"  {' '.join(filter(None, words))}"]
    for title, some in command.sections.items():
        lines += ["", f"{title}:"]
        values = _defined(some)
        for flag in dict.fromkeys(values[one] for one in values):
            lines += _help_of_flag(flag)
    return "\n".join(lines)


def _help_of_flag(flag: flags.Flag) -> list[str]:
    shown = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
    text = flag.help
    if flag.default not in (None, [], False):
        text += f" By default {flag.default_as_str}."
    body = textwrap.wrap(text, _WIDTH - 6)
    return [f"  {shown}", *(f"      {line}" for line in body)]


def _defined(some: Any) -> flags.FlagValues:
    values = flags.FlagValues()
    for one in some:
        one(values)
    return values


@contextlib.contextmanager
def _warnings_on_a_line(values: flags.FlagValues) -> Iterator[None]:
    """Prints warnings without the line of the library's code that raised them."""
    # Only the first warning of each cause is printed; results count them.
    said: set[str] = set()

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        if (cause := cause_of(str(message))) in said:
            return
        said.add(cause)
        text = _as_flags(str(message), values)
        record_warning(text)
        say(f"warning: {text}")

    with warnings.catch_warnings():
        # Not errors, whatever the environment says: warnings have no exit status.
        warnings.simplefilter("default", RobustnessWarning)
        warnings.showwarning = show
        yield
