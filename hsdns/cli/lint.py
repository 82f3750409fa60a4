"""`hsdns lint PATH...|-`: finds DNS errors in manifests and Corefiles before they are applied.

Path: argv -> lint_files.py (contents) -> rules/judging.py -> rules/output.py -> standard output.
Rule 1: the exit status is 0 without findings, 1 with findings at or over -level, 2 if something could not be read.
Rule 2: standard output has only the report; what is not checked goes to standard error.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from hsdns.cli import istioctl
from hsdns.cli.command import ReadingCommand, flag
from hsdns.cli.flags import FlagError
from hsdns.cli.output import complain, say
from hsdns.cli.rule import LEVEL, PREVIEW
from hsdns.cli.silence_flag import FLAG, is_everything, read_silences

if TYPE_CHECKING:
    from hsdns.cli.lint_files import Listed
    from hsdns.rules.judging import Files, Judgement
    from hsdns.rules.mesh import MeshFinding
    from hsdns.rules.silence import SilencePattern

    MeshOf = Callable[[Files, Mapping[str, bytes]], tuple[list[MeshFinding], str]]

UNREAD: Final = 2
ROUNDS: Final = 5  # of -fix: a repair may reveal the next finding


class Lint(ReadingCommand):
    """Checks files, or compares them."""

    name = "lint"
    forms = "hsdns lint PATH... [FLAG...]\n       hsdns lint - [FLAG...]"
    bad = UNREAD

    o: Annotated[
        str,
        flag(
            "format: text (default), json, sarif, junit or github",
            "FORMAT",
            choices=("text", "json", "sarif", "junit", "github"),
        ),
    ] = "text"
    level: Annotated[str, LEVEL] = "warning"
    against: Annotated[
        str,
        flag(
            "show how Services differ from those of a file or folder, instead of findings", "PATH"
        ),
    ] = ""
    config: Annotated[str | None, FLAG] = None
    preview: Annotated[bool, PREVIEW] = False
    istioctl: Annotated[bool, istioctl.FLAG] = True
    fix: Annotated[bool, flag("repair what can be repaired safely, in the files")] = False
    stdin_filename: Annotated[
        str, flag("name of what is on standard input, for messages", "FILE")
    ] = ""

    @classmethod
    def split(cls, words: list[str]) -> tuple[list[str], list[str]]:
        """The paths, which may also follow flags, and the flags with their values."""
        paths, rest = list[str](), list[str]()
        takes_value, flags = False, cls.flags()
        for word in words:
            if takes_value or (word.startswith("-") and word != "-"):
                rest.append(word)
                found = flags.get(word.lstrip("-"))
                takes_value = not takes_value and found is not None and found.kind is not bool
            else:
                paths.append(word)
        return paths, rest

    def run(self) -> int:
        """Check the paths, and report the findings or the differences."""
        from hsdns.cli.lint_files import NAME, read_paths

        paths, against = self.words, self.against
        if not paths:
            raise FlagError(
                "hsdns lint needs a file or a folder, or - for standard input: hsdns lint PATH..."
            )
        if against:
            from hsdns.cli.lint_against import check_flags

            check_flags(self.given, paths, against, self.o)
        if self.fix and "-" in paths:
            raise FlagError("-fix changes files, and standard input is none; name the files")
        if "stdin-filename" in self.given and "-" not in (*paths, against):
            raise FlagError('-stdin-filename is the name of standard input; add "-" to the paths')
        if against:
            from hsdns.cli.lint_against import run_against

            return run_against(paths, against, self.o, self.stdin_filename)
        config, patterns = read_silences(self.config)
        stdin_name = self.stdin_filename or NAME
        listed = read_paths(paths, stdin_name, without=config)
        judged = _judge(
            patterns,
            is_everything=bool(config) and is_everything(paths, config),
            preview=self.preview,
        )
        mesh_of = _mesh_of(stdin_name) if self.istioctl and self.runs_code else None
        return _lint(paths, listed, judged, mesh_of, self.o, self.level, is_fixing=self.fix)


def _mesh_of(stdin_name: str) -> MeshOf:
    from hsdns.cli.lint_mesh import mesh_findings

    return lambda read, contents: mesh_findings(read.objects, contents, stdin_name)


def _judge(
    patterns: Sequence[SilencePattern], *, is_everything: bool, preview: bool
) -> Callable[[Files], Judgement]:
    """A function that checks files with the entries of a file of silences."""
    from hsdns.rules.diagnosis import without_objects
    from hsdns.rules.judging import judge
    from hsdns.rules.silence import SilenceFile

    def judged(read: Files) -> Judgement:
        unchecked = without_objects(read.objects)
        filed = SilenceFile(patterns, unchecked, is_everything=is_everything)
        return judge(read.objects, read.silences, filed, preview=preview)

    return judged


def _lint(
    paths: Sequence[str],
    listed: Listed,
    judged: Callable[[Files], Judgement],
    mesh_of: MeshOf | None,
    output: str,
    level: str,
    *,
    is_fixing: bool,
) -> int:
    from hsdns.rules.judging import read_files
    from hsdns.rules.output import Report, formatted
    from hsdns.rules.rule import level_at_least

    files = listed.files
    problems = list(listed.problems)
    if is_fixing:
        files, unwritten = _repair(files, judged)
        problems += unwritten
    read = read_files(files)
    objects = len(read.objects.manifests) + sum(not each.owner for each in read.objects.corefiles)
    remarks = [*listed.remarks, *read.left_out]
    unread = [*problems, *read.unread]
    if not objects and not unread:
        nothing = f"{' '.join(paths)}: there is no manifest and no Corefile, so nothing was checked"
        # Files are named one by one by programs too, such as pre-commit, which do not know what is in them.
        (remarks if all(map(os.path.isfile, paths)) else unread).append(nothing)
    said, why = mesh_of(read, dict(files)) if mesh_of is not None else ([], "")
    complain(*remarks, *filter(None, [why]), *unread)
    found, silenced = judged(read)
    shown = [each for each in found if level_at_least(each.level, level)]
    mesh = [each for each in said if level_at_least(each.level, level)]
    below = len(found) - len(shown) + len(said) - len(mesh)
    report = Report(shown, below, silenced, objects, len(files), unread, mesh)
    say(*formatted(report, output), shown=str)
    return UNREAD if unread else 1 if shown or mesh else 0


def _repair(
    files: Sequence[tuple[str, bytes]], judged: Callable[[Files], Judgement]
) -> tuple[list[tuple[str, bytes]], list[str]]:
    """Repair findings, write changed files, and return all files, and why some were not written."""
    from hsdns.rules.judging import read_files
    from hsdns.rules.silence import repaired

    now = dict(files)
    changed: dict[str, int] = {}
    for _ in range(ROUNDS):
        read = read_files(now.items())
        edits = [each.remark.edit for each in judged(read).findings if each.remark.edit]
        if not edits:
            break
        for file in dict.fromkeys(each.start.file for each in edits):
            own = [each for each in edits if each.start.file == file]
            try:
                now[file] = repaired(now[file].decode(), own).encode()
            except UnicodeDecodeError:
                continue
            changed[file] = changed.get(file, 0) + len(own)
    problems = []
    for file, count in changed.items():
        try:
            _replace(Path(file), now[file])
        except OSError as error:
            now[file] = dict(files)[file]
            problems.append(
                f"{file} is not repaired: it cannot be written: {error.strerror or error}"
            )
            continue
        complain(f"{file}: {count} repaired")
    return list(now.items()), problems


def _replace(file: Path, content: bytes) -> None:
    """Write a file completely or not at all; raise OSError."""
    target = file.resolve()
    with target.open("r+b"):  # raises if it may not be written, and so not replaced
        pass
    beside = target.with_name(f".{target.name}.hsdns-lint")
    try:
        beside.write_bytes(content)
        shutil.copymode(target, beside)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
