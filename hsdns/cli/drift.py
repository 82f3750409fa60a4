"""The output of `-against`: one line for each difference, and how much was compared.

Path: cli/doctor.py (two dumps), cli/lint.py (two sets of files) -> here -> rules/drift.py -> standard output.
Rule: the exit status is 0 without differences, 1 with some, 2 if something could not be read or compared.

`hsdns doctor -against CONTEXT|FILE`: how the Services of two clusters differ:
Rule 1: the exit status is 0 without differences, 1 with some, 2 if the Services of a side could not be read, or an
        object could not be compared.
Rule 2: StatefulSets that could not be read on one side are reported as not compared, without effect on the exit status.

`hsdns lint PATH... -against PATH`: the differences between the Services of two sets of files:
Rule: the exit status is 0 without differences, 1 with some, 2 if something could not be read or compared.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from hsdns.apiserver.kubeconfig import KubeconfigError, read_context
from hsdns.cli.command import FlagError, complain, say
from hsdns.cli.lint import NAME, read_paths
from hsdns.cli.source import DEMO
from hsdns.rules.drift import KINDS, SERVICE, SIDES, Difference, Drift, compare
from hsdns.rules.judging import read_files
from hsdns.rules.objects import Objects
from hsdns.rules.output import annotation, lines_of
from hsdns.sources.cluster_dump import unread_kinds
from hsdns.sources.manifest_folder import STANDARD_INPUT
from hsdns.wire import counted, printable

if TYPE_CHECKING:
    from hsdns.cli.doctor import Doctor

FORMATS: Final = ("text", "json", "github")
READ_TWICE: Final = "standard input can be read once only; name a file on one side"
_UNREAD: Final = 2


class Compared(NamedTuple):
    """A drift and the names of its sides; `with_places` if they are files, with useful line numbers."""

    drift: Drift
    here: str
    there: str
    problems: list[str]
    with_places: bool


def check_flags(given: Collection[str], of_findings: Iterable[str]) -> None:
    """Raise FlagError for a flag that does not apply to differences."""
    for flag in of_findings:
        if flag in given:
            raise FlagError(
                f"-{flag} is for findings, and -against shows differences; leave one of them out"
            )


def show(compared: Compared, output: str) -> int:
    """Print the differences, and what was not compared on standard error; return the exit status."""
    complain(*compared.problems)
    say(*formatted(compared, output), shown=str)
    return _UNREAD if compared.problems else 1 if compared.drift.differences else 0


def formatted(compared: Compared, output: str) -> list[str]:
    """The lines of the differences in a format, with names that control nothing."""
    return {"text": _text, "json": _json, "github": _github}[output](compared)


def _text(compared: Compared) -> list[str]:
    drift = compared.drift
    lines = [_line(each, with_places=compared.with_places) for each in drift.differences]
    if lines:
        lines.append("")
    objects = " and ".join(counted(count, kind, "no") for kind, count in drift.counts.items())
    more = f" ({len(compared.problems)} not compared)" if compared.problems else ""
    lines.append(
        f"{counted(len(drift.differences), 'difference', 'no')} in {objects} of {compared.here} (here) and "
        f"{compared.there} (there){more}"
    )
    return list(map(printable, lines))


def _line(found: Difference, *, with_places: bool) -> str:
    if not with_places:
        return _message(found)
    other = ""
    if found.here_at is not None and found.there_at is not None:
        other = f" ({found.there_at})"
    return f"{found.here_at or found.there_at}: {_message(found)}{other}"


def _message(found: Difference) -> str:
    where = f"{found.place}: {found.field}" if found.field else found.place
    missing = "none" if found.field else "absent"
    return f"{where}: here {found.here or missing}, there {found.there or missing}"


def _json(compared: Compared) -> list[str]:
    drift = compared.drift
    value = {
        "here": compared.here,
        "there": compared.there,
        "differences": [
            _as_json(each, with_places=compared.with_places) for each in drift.differences
        ],
        "compared": drift.counts,
        "unread": compared.problems,
    }
    return lines_of(value)


def _as_json(found: Difference, *, with_places: bool) -> dict[str, object]:
    value: dict[str, object] = {
        "object": found.place,
        "field": found.field,
        "here": found.here,
        "there": found.there,
    }
    if with_places:
        value["here_at"] = found.here_at and found.here_at._asdict()
        value["there_at"] = found.there_at and found.there_at._asdict()
    return value


def _github(compared: Compared) -> list[str]:
    lines = []
    for each in compared.drift.differences:
        at = each.here_at or each.there_at
        assert at is not None, "an object is on one side at least"
        kind = "differs" if each.field else "is on one side only"
        lines.append(annotation("warning", at, f"{each.place} {kind}", _message(each)))
    lines += [annotation("warning", None, "", each) for each in compared.problems]
    return lines


_PLURALS: Final = {"Service": "services", "StatefulSet": "statefulsets"}


class Dump(NamedTuple):
    """The content of a dump, and its name: a file or a context."""

    name: str
    content: bytes


def other_side(options: Doctor, kubeconfig: str) -> Doctor:
    """The options to read the other side: a context of the kubeconfig, if it exists, or else a file.

    `kubeconfig` is empty if there is none.  Raise FlagError if it is neither.
    """
    word = str(options.against)
    try:
        if not kubeconfig:
            raise KubeconfigError("there is no kubeconfig for a context of that name")
        read_context(kubeconfig, word)
    except KubeconfigError as error:
        if word == "-" and options.from_ == "-":
            raise FlagError(READ_TWICE) from None
        if word in ("-", DEMO) or os.path.exists(word):
            return replace(options, from_=word)
        raise FlagError(f'-against: there is no file "{word}", and {error}') from None
    return replace(options, from_=None, save=None, kubeconfig=kubeconfig, context=word)


def compare_dumps(here: Dump, there: Dump, target: str, output: str) -> int:
    """Compare and print; return the exit status.  Raise ValueError if neither side has the target."""
    kinds = list(KINDS)
    problems: list[str] = []
    objects = []
    for side, dump in zip(SIDES, (here, there), strict=True):
        read = read_files([(dump.name, dump.content)], is_whole=True)
        problems += [*read.unread, *read.left_out]
        objects.append(read.objects)
        lacking = unread_kinds(dump.content)
        for kind, plural in _PLURALS.items():
            if plural not in lacking:
                continue
            sentence = f"{kind}s are not compared: {side} ({dump.name}) {_why(lacking[plural])}"
            if kind == SERVICE:
                raise ValueError(sentence)
            complain(sentence)
            kinds = [each for each in kinds if each != kind]
    drift = compare(objects[0], objects[1], target, kinds)
    problems += drift.problems
    return show(Compared(drift, here.name, there.name, problems, with_places=False), output)


def _why(reason: str) -> str:
    return reason if reason.startswith("there ") else f"they could not be read: {reason}"


def check_lint_flags(
    given: Collection[str], paths: Sequence[str], against: str, output: str
) -> None:
    """Raise FlagError for flags and paths that do not apply to differences."""
    check_flags(given, ("level", "fix", "config", "preview", "istioctl"))
    if output not in FORMATS:
        raise FlagError(
            f"-o {output} is for findings of rules; differences are shown as text, json or github"
        )
    if against == STANDARD_INPUT and STANDARD_INPUT in paths:
        raise FlagError(READ_TWICE)


def compare_paths(paths: Sequence[str], against: str, output: str, stdin_name: str) -> int:
    """Compare and print; return the exit status."""
    here, unread = _objects_of(paths, stdin_name or NAME)
    there, also = _objects_of([against], stdin_name or NAME)
    problems = [*unread, *also]
    if here is None or there is None:
        complain(*problems)
        return _UNREAD
    drift = compare(here, there)
    problems += drift.problems
    return show(Compared(drift, " ".join(paths), against, problems, with_places=True), output)


def _objects_of(paths: Sequence[str], stdin_name: str) -> tuple[Objects | None, list[str]]:
    """The objects of a side, None if there is nothing to compare, and sentences about what is not read."""
    listed = read_paths(paths, stdin_name)
    read = read_files(listed.files)
    complain(*listed.remarks, *read.left_out)
    problems = [*listed.problems, *read.unread]
    if read.objects.manifests:
        return read.objects, problems
    return None, problems or [f"{' '.join(paths)}: there is no manifest, so nothing was compared"]
