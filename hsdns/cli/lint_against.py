"""`hsdns lint PATH... -against PATH`: the differences between the Services of two sets of files.

Path: cli/lint.py -> lint_files.py (contents) -> here -> rules/drift.py -> drift_view.py -> standard output.
Rule: the exit status is 0 without differences, 1 with some, 2 if something could not be read or compared.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from hsdns.cli import drift_view
from hsdns.cli.drift_view import FORMATS, READ_TWICE, Compared, show
from hsdns.cli.flags import FlagError
from hsdns.cli.lint_files import NAME, read_paths
from hsdns.cli.output import complain
from hsdns.rules.drift import compare
from hsdns.rules.judging import read_files
from hsdns.rules.objects import Objects
from hsdns.sources.manifest_folder import STANDARD_INPUT

UNREAD: Final = 2


def check_flags(given: Collection[str], paths: Sequence[str], against: str, output: str) -> None:
    """Raise FlagError for flags and paths that do not apply to differences."""
    drift_view.check_flags(given, ("level", "fix", "config", "preview", "istioctl"))
    if output not in FORMATS:
        raise FlagError(
            f"-o {output} is for findings of rules; differences are shown as text, json or github"
        )
    if against == STANDARD_INPUT and STANDARD_INPUT in paths:
        raise FlagError(READ_TWICE)


def run_against(paths: Sequence[str], against: str, output: str, stdin_name: str) -> int:
    """Compare and print; return the exit status."""
    here, unread = _read(paths, stdin_name or NAME)
    there, also = _read([against], stdin_name or NAME)
    problems = [*unread, *also]
    if here is None or there is None:
        complain(*problems)
        return UNREAD
    drift = compare(here, there)
    problems += drift.problems
    return show(Compared(drift, " ".join(paths), against, problems, with_places=True), output)


def _read(paths: Sequence[str], stdin_name: str) -> tuple[Objects | None, list[str]]:
    """The objects of a side, None if there is nothing to compare, and sentences about what is not read."""
    listed = read_paths(paths, stdin_name)
    read = read_files(listed.files)
    complain(*listed.remarks, *read.left_out)
    problems = [*listed.problems, *read.unread]
    if read.objects.manifests:
        return read.objects, problems
    return None, problems or [f"{' '.join(paths)}: there is no manifest, so nothing was compared"]
