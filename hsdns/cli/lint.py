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
from typing import TYPE_CHECKING, Final

from hsdns.cli import istioctl
from hsdns.cli.flags import NO_CODE, Flag, FlagError, parse_flags, runs_code, usage
from hsdns.cli.output import complain, say, say_text
from hsdns.cli.rule import PREVIEW
from hsdns.cli.silence_flag import FLAG, is_everything, read_silences
from hsdns.corefile.tree import did_you_mean

if TYPE_CHECKING:
    from hsdns.cli.lint_files import Listed
    from hsdns.rules.judging import Files, Judgement
    from hsdns.rules.mesh import MeshFinding
    from hsdns.rules.silence import SilencePattern

    MeshOf = Callable[[Files, Mapping[str, bytes]], tuple[list[MeshFinding], str]]

UNREAD: Final = 2
ROUNDS: Final = 5  # of -fix: a repair may reveal the next finding
FLAGS: Final = {
    "o": Flag(str, "format: text (default), json, sarif, junit or github", "FORMAT"),
    "level": Flag(str, "lowest level that is shown: error, warning (default) or note", "LEVEL"),
    "against": Flag(
        str, "show how Services differ from those of a file or folder, instead of findings", "PATH"
    ),
    "config": FLAG,
    "preview": PREVIEW,
    "istioctl": istioctl.FLAG,
    "fix": Flag(bool, "repair what can be repaired safely, in the files"),
    "stdin-filename": Flag(str, "name of what is on standard input, for messages", "FILE"),
    **NO_CODE,
    "h": Flag(bool, "show this help"),
    "help": Flag(bool, "show this help", alias_of="h"),
}


def run(words: list[str]) -> int:
    """Run `hsdns lint`; return the exit status."""
    from hsdns.rules.output import FORMATS
    from hsdns.rules.rule import LEVELS

    try:
        paths, rest = _split(words)
        flags = parse_flags(rest, FLAGS, command="hsdns lint")
        if flags.get("h"):
            forms = "hsdns lint PATH... [FLAG...]\n       hsdns lint - [FLAG...]"
            say_text(f"Usage: {forms}\n\nFlags:\n{usage(FLAGS)}")
            return 0
        output = _choice("o", str(flags.get("o", "text")), FORMATS)
        level = _choice("level", str(flags.get("level", "warning")), LEVELS)
        if not paths:
            raise FlagError(
                "hsdns lint needs a file or a folder, or - for standard input: hsdns lint PATH..."
            )
        against = str(flags.get("against", ""))
        if against:
            from hsdns.cli.lint_against import check_flags

            check_flags(flags, paths, output)
        if flags.get("fix") and "-" in paths:
            raise FlagError("-fix changes files, and standard input is none; name the files")
        if "stdin-filename" in flags and "-" not in (*paths, against):
            raise FlagError('-stdin-filename is the name of standard input; add "-" to the paths')
        config, patterns = ("", []) if against else read_silences(flags)
    except FlagError as error:
        complain(error)
        return UNREAD
    from hsdns.cli.lint_files import NAME, read_paths

    stdin_name = str(flags.get("stdin-filename", ""))
    if against:
        from hsdns.cli.lint_against import run_against

        return run_against(paths, against, output, stdin_name)
    listed = read_paths(paths, stdin_name or NAME, without=config)
    judged = _judge(
        patterns,
        is_everything=bool(config) and is_everything(paths, config),
        preview=bool(flags.get("preview")),
    )
    mesh_of = (
        _mesh_of(stdin_name or NAME) if flags.get("istioctl", True) and runs_code(flags) else None
    )
    return _lint(paths, listed, judged, mesh_of, output, level, is_fixing=bool(flags.get("fix")))


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


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The paths, which may also follow flags, and the flags with their values."""
    paths, rest = list[str](), list[str]()
    takes_value = False
    for word in words:
        if takes_value or (word.startswith("-") and word != "-"):
            rest.append(word)
            flag = FLAGS.get(word.lstrip("-"))
            takes_value = not takes_value and flag is not None and flag.kind is not bool
        else:
            paths.append(word)
    return paths, rest


def _choice(flag: str, word: str, choices: Sequence[str]) -> str:
    if word in choices:
        return word
    listed = f"{', '.join(choices[:-1])} or {choices[-1]}"
    raise FlagError(f'-{flag} needs {listed}, found "{word}"{did_you_mean(word, choices)}')
