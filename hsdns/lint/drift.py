"""The output of `--against`: one line for each difference, and how much was compared.

Path: doctor/cli.py (two dumps), lint/cli.py (two sets of files) -> here -> rules/drift.py -> standard output.
Rule: the exit status is 0 without differences, 1 with some, 2 if something could not be read or compared.

`hsdns lint PATH... --against PATH`: the differences between the Services of two sets of files:
Rule: the exit status is 0 without differences, 1 with some, 2 if something could not be read or compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from hsdns.cli.command import FlagError, complain, say
from hsdns.lint.cli import NAME, read_paths
from hsdns.rules.drift import Difference, Drift, compare
from hsdns.rules.judging import read_files
from hsdns.rules.objects import Objects
from hsdns.rules.output import annotation, lines_of
from hsdns.sources.manifest_folder import STANDARD_INPUT
from hsdns.wire import counted, printable

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
                f"--{flag} is for findings, and --against shows differences; use only one"
            )


def show(compared: Compared, output: str) -> int:
    """Print the differences, and what was not compared on standard error; return the exit status."""
    complain(*compared.problems)
    say(*formatted(compared, output), shown=str, fits=output == "text")
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
