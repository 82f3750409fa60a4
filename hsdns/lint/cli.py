"""`hsdns lint PATH...|-`: finds DNS errors in manifests and Corefiles before they are applied.

Path: argv -> here (contents) -> rules/judging.py -> rules/output.py -> standard output.
Rule 1: the exit status is 0 without findings, 1 with findings at or over -level, 2 if something could not be read.
Rule 2: standard output has only the report; what is not checked goes to standard error.

The files that `hsdns lint` checks, and their contents:
Rule 1: in a folder, it reads the manifests that `hsdns serve` reads, and every Corefile.
Rule 2: files that are not manifests before Helm or kustomize has run are skipped: the folder of a chart, which is
        reported, the patches of a kustomization, and what it lists in comments only (kustomization.py).
Rule 3: settings of other programs are skipped too (sources/manifest_folder.py).
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from hsdns import colours
from hsdns.cli.command import OUTPUT, FlagError, ReadingCommand, complain, flag, say
from hsdns.lint import istioctl
from hsdns.lint.rule import FLAG, LEVEL, PREVIEW, is_everything, read_silences

if TYPE_CHECKING:
    from hsdns.rules.judging import Files, Judgement
    from hsdns.rules.silence import SilencePattern

UNREAD: Final = 2
ROUNDS: Final = 5  # of -fix: a repair may reveal the next finding


class Lint(ReadingCommand):
    """Checks files, or compares them."""

    name = "lint"
    forms = "hsdns lint PATH... [FLAG...]\n       hsdns lint - [FLAG...]"
    bad = UNREAD

    o: str = flag(
        "text",
        OUTPUT,
        help="format: text (default), json, sarif, junit or github",
        choices=(*OUTPUT.choices, "sarif", "junit", "github"),
    )
    level: str = flag("warning", LEVEL)
    against: str = flag(
        "", "compare Services with those of a file or folder, instead of checking them", "PATH"
    )
    config: str | None = flag(None, FLAG)
    preview: bool = flag(False, PREVIEW)
    istioctl: bool = flag(True, istioctl.FLAG)
    fix: bool = flag(False, "apply the safe fixes to the files")
    stdin_filename: str = flag("", "file name to show for standard input", "FILE")

    @classmethod
    def split(cls, words: list[str]) -> tuple[list[str], list[str]]:
        """The paths, which may also follow flags, and the flags with their values."""
        paths, rest = list[str](), list[str]()
        takes_value, flags = False, cls.flags()
        for at, word in enumerate(words):
            if word == "--" and not takes_value:
                return [*paths, *words[at + 1 :]], rest
            if takes_value or (word.startswith("-") and word != "-"):
                rest.append(word)
                found = flags.get(word.lstrip("-"))
                takes_value = not takes_value and found is not None and found.takes_word
            else:
                paths.append(word)
        return paths, rest

    def run(self) -> int:
        """Check the paths, and report the findings or the differences."""
        paths, against = self.words, self.against
        if not paths:
            raise FlagError(
                "hsdns lint needs a file or a folder, or - for standard input: hsdns lint PATH..."
            )
        if against:
            from hsdns.lint.drift import check_lint_flags

            check_lint_flags(self.given, paths, against, self.o)
        if self.fix and "-" in paths:
            raise FlagError("--fix changes files, and standard input is none; name the files")
        if "stdin-filename" in self.given and "-" not in (*paths, against):
            raise FlagError('--stdin-filename is the name of standard input; add "-" to the paths')
        if against:
            from hsdns.lint.drift import compare_paths

            return compare_paths(paths, against, self.o, self.stdin_filename)
        config, patterns = read_silences(self.config)
        stdin_name = self.stdin_filename or NAME
        listed = read_paths(paths, stdin_name, without=config)
        judged = _judge(
            patterns,
            is_everything=bool(config) and is_everything(paths, config),
            preview=self.preview,
        )
        mesh_stdin = stdin_name if self.istioctl and self.runs_code else None
        return _lint(paths, listed, judged, mesh_stdin, self.o, self.level, is_fixing=self.fix)


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
    mesh_stdin: str | None,
    output: str,
    level: str,
    *,
    is_fixing: bool,
) -> int:
    from hsdns.lint.istioctl import mesh_findings
    from hsdns.rules.judging import read_files
    from hsdns.rules.mesh import MeshFinding
    from hsdns.rules.output import Report, formatted
    from hsdns.rules.rule import level_at_least

    files = listed.files
    problems = list(listed.problems)
    if is_fixing:
        files, unwritten = _repair(files, judged, listed.patched)
        problems += unwritten
    read = read_files(files, patched=listed.patched)
    objects = len(read.objects.manifests) + sum(
        not each.source.owner for each in read.objects.corefiles
    )
    # A program has written standard input, and should have rendered it.
    rendered = [each for each in read.left_out if each.startswith(f"{NAME}:")]
    remarks = [*listed.remarks, *(each for each in read.left_out if each not in rendered)]
    unread = [*problems, *read.unread, *rendered]
    if not objects and not unread:
        nothing = f"{' '.join(paths)}: there is no manifest and no Corefile, so nothing was checked"
        # Files are named one by one by programs too, such as pre-commit, which do not know what is in them.
        (remarks if all(map(os.path.isfile, paths)) else unread).append(nothing)
    said, why = list[MeshFinding](), ""
    if mesh_stdin is not None:
        said, why = mesh_findings(read.objects, dict(files), mesh_stdin)
    complain(*remarks, *filter(None, [why]), *unread)
    found, silenced = judged(read)
    shown = [each for each in found if level_at_least(each.level, level)]
    mesh = [each for each in said if level_at_least(each.level, level)]
    below = len(found) - len(shown) + len(said) - len(mesh)
    report = Report(shown, below, silenced, objects, len(files), unread, mesh, dict(files))
    lines = formatted(report, output, colour=colours.are_shown(sys.stdout))
    say(*lines, shown=str, fits=output == "text")
    return UNREAD if unread else 1 if shown or mesh else 0


def _repair(
    files: Sequence[tuple[str, bytes]],
    judged: Callable[[Files], Judgement],
    patched: frozenset[tuple[str, str]],
) -> tuple[list[tuple[str, bytes]], list[str]]:
    """Repair findings, write changed files, and return all files, and why some were not written."""
    from hsdns.rules.judging import read_files
    from hsdns.rules.silence import repaired

    now = dict(files)
    changed: dict[str, int] = {}
    for _ in range(ROUNDS):
        read = read_files(now.items(), patched=patched)
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
            _replace(Path(file), dict(files)[file], now[file])
        except OSError as error:
            now[file] = dict(files)[file]
            problems.append(
                f"{file} is not repaired: it cannot be written: {error.strerror or error}"
            )
            continue
        complain(f"{file}: {count} repaired")
    return list(now.items()), problems


def _replace(file: Path, before: bytes, content: bytes) -> None:
    """Write a file completely or not at all; raise OSError."""
    target = file.resolve()
    with target.open("r+b") as found:  # raises if it may not be written, and so not replaced
        if found.read() != before:
            raise OSError(errno.EILSEQ, "it is not UTF-8 without a byte order mark")
    beside = target.with_name(f".{target.name}.hsdns-lint")
    try:
        beside.write_bytes(content)
        shutil.copymode(target, beside)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


NAME: Final = "standard input"
CHART: Final = "Chart.yaml"


class Listed(NamedTuple):
    """The contents of files by name; `problems` are about unreadable files, `remarks` about skipped ones.

    `patched` are the kinds and names of objects that a kustomization changes.
    """

    files: list[tuple[str, bytes]]
    problems: list[str]
    remarks: list[str]
    patched: frozenset[tuple[str, str]] = frozenset()


def read_paths(paths: Sequence[str], stdin_name: str = NAME, without: str = "") -> Listed:
    """Read the files under paths, each once, except the file `without`; `-` is standard input."""
    from hsdns.corefile.mounted import COREFILE
    from hsdns.lint.kustomization import kustomized
    from hsdns.rules.judging import is_corefile
    from hsdns.sources.file_text import NOT_UTF8, as_utf8, is_encoded, read_file
    from hsdns.sources.manifest_folder import STANDARD_INPUT, manifest_paths, settings_remark

    files, problems, remarks = list[tuple[str, bytes]](), list[str](), list[str]()
    corefiles: list[str] = []
    patched = set[tuple[str, str]]()
    left_out = {os.path.realpath(without)} if without else set[str]()
    for path in paths:
        if path != STANDARD_INPUT and not os.path.exists(path):
            problems.append(f"{path}: there is no such file or folder; correct the path")
        elif os.path.isdir(path):
            for folder, names in _folders(path):
                if CHART in names:
                    remarks.append(
                        f"{folder}: it is a Helm chart, whose templates are not manifests; check what it renders: "
                        f"helm template {folder} | hsdns lint -"
                    )
                corefiles += [
                    os.path.join(folder, name) for name in names if name.startswith(COREFILE)
                ]
                found = kustomized(folder, names)
                left_out |= found.left_out
                patched |= found.patched
    listed = [each for each in manifest_paths(paths) if os.path.realpath(each) not in left_out]
    for path in dict.fromkeys([*listed, *corefiles]):
        try:
            if path == STANDARD_INPUT:
                files.append((stdin_name, as_utf8(sys.stdin.buffer.read(), stdin_name)))
                continue
            content = read_file(path)
        except OSError as error:
            problems.append(f"{path}: cannot read it: {error.strerror or error}")
            continue
        remark = settings_remark(content, path, paths)
        if remark:
            remarks.append(remark)
        elif is_encoded(path) and is_corefile(path, content):
            problems.append(f"{path}:1:1: {NOT_UTF8}")
        else:
            files.append((path, content))
    return Listed(files, problems, remarks, frozenset(patched))


def _folders(path: str) -> Iterator[tuple[str, list[str]]]:
    """The folders below a path, without hidden ones and those below a chart."""
    for folder, below, names in os.walk(path):
        below[:] = (
            [] if CHART in names else sorted(each for each in below if not each.startswith("."))
        )
        yield folder, sorted(names)
