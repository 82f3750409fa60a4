"""The output of `hsdns doctor`: sections with a mark for each check, as they become known; and JSON.

Path: cli.py (names that fail, then a diagnosis) -> here -> standard output.
Rule 1: what is most urgent comes first: names that fail, what else fails now, what will fail, what costs.
Rule 2: at most a screen: of each rule one finding, and of names as many as there is room for, with the number of the
        others.  `-o wide` shows all of them.
Rule 3: a line is wrapped at the width of a terminal, and never in a pipe.
"""

from __future__ import annotations

import shutil
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Final, NamedTuple

from hsdns import colours
from hsdns.cli.command import say
from hsdns.colours import BOLD, CYAN, DIM, GREEN, RED, YELLOW, painted
from hsdns.resolver.report import wrapped
from hsdns.rules.diagnosis import Diagnosis, Subject
from hsdns.rules.mesh import TOOL, MeshFinding
from hsdns.rules.names import Names
from hsdns.rules.rule import Finding
from hsdns.wire import counted, printable

PASSED, FAILED, WARNED, NOTED, SKIPPED = "passed", "failed", "warned", "noted", "skipped"
_MARKS: Final = {PASSED: "✓", FAILED: "✗", WARNED: "!", NOTED: "·", SKIPPED: "-"}
_ASCII: Final = {**_MARKS, PASSED: "+", FAILED: "x", NOTED: "."}
_COLOURS: Final = {PASSED: GREEN, FAILED: RED, WARNED: YELLOW, NOTED: CYAN, SKIPPED: DIM}
_INDENT: Final = 2
_SHORTEST, _LONGEST = 24, 50  # lines of a screen
_WIDE: Final = 120  # columns of a list in a pipe
_MOST_CODES: Final = 8  # of rules in one line
# Sections of findings by their level, with the mark, and the lines that are left for what follows.
_LEVELS: Final = {
    "error": ("Fails now", FAILED, 7),
    "warning": ("Will fail", WARNED, 6),
    "note": ("Costs queries, or surprises", NOTED, 5),
}
# Reasons that none of our rules needs, by their word.
OTHERS: Final = {
    "istioctl": "the configuration of Istio",
    "from-pod": "what DNS servers answer to the Pod",
}


class Row(NamedTuple):
    """A check with its result; `code` is the rule, `todo` the line what to do, `short` what names it in a list."""

    mark: str
    text: str
    code: str = ""
    todo: str = ""
    short: str = ""


class Screen:
    """Prints sections; `height` is the number of lines at most, None for all, `width` where to wrap, 0 for nowhere."""

    def __init__(self, height: int | None, width: int = 0, *, colour: bool = False) -> None:
        self._left, self._width, self._colour = height, width, colour
        self._is_first = True
        try:
            "".join(_MARKS.values()).encode(sys.stdout.encoding or "utf-8")
            self._marks = _MARKS
        except UnicodeEncodeError:
            self._marks = _ASCII

    @classmethod
    def of_output(cls, *, is_wide: bool) -> Screen:
        """That of standard output: a terminal, or what takes lines of any length."""
        colour = colours.are_shown(sys.stdout)
        if not sys.stdout.isatty():
            return cls(None if is_wide else _LONGEST, colour=colour)
        size = shutil.get_terminal_size()
        height = min(max(size.lines, _SHORTEST), _LONGEST) - 1  # without that of the next prompt
        return cls(None if is_wide else height, size.columns, colour=colour)

    def section(self, title: str, rows: Sequence[Row], reserve: int = 0) -> None:
        """Print as many rows as fit, so that `reserve` lines are left, and name the others."""
        if not rows:
            return
        head = [] if self._is_first else [""]
        head.append(self._painted(printable(title), BOLD))
        found = [list(self._lines(row)) for row in rows]
        count = len(rows)
        if self._left is not None:
            room = self._left - reserve - len(head)
            sums = list(accumulate(map(len, found)))
            if sums[-1] > room:
                count = sum(each < room for each in sums)  # and a line for the others
        if count or self._is_first:
            self._is_first = False
            self._print([*head, *chain(*found[: max(count, 1)])])
        if rest := rows[max(count, 1) if count else 0 :]:
            self._print([self._others(title if not count else "", rest)])

    def line(self, text: str) -> None:
        """Print the last line."""
        self._print(["", *self._wrapped(printable(text), 0)])

    def _others(self, title: str, rows: Sequence[Row]) -> str:
        """One line about rows for which there is no room."""
        mark = f"{self._painted(self._marks[rows[0].mark], _COLOURS[rows[0].mark])} {title}: "
        is_mixed = len({row.mark for row in rows}) > 1
        head, tail = f"{len(rows)}{'' if title else ' more'}: ", " (-o wide)"
        head = "" if title and is_mixed else head
        width = (self._width or _WIDE) - len(title) - len(head) - len(tail) - 2 * _INDENT - 4
        names = ", ".join(dict.fromkeys(filter(None, (row.short or row.code for row in rows))))
        if len(names) > width:
            names = f"{names[:width].rpartition(', ')[0]}, …"
        text = f"{head}{printable(names)}" if names.strip(", …") else head.rstrip(": ")
        return f"{mark if title else ' ' * _INDENT}{text}{self._painted(tail, DIM)}"

    def _print(self, lines: Sequence[str]) -> None:
        say(*lines, shown=str, flush=True)
        if self._left is not None:
            self._left -= len(lines)

    def _lines(self, row: Row) -> Iterator[str]:
        mark = self._painted(self._marks[row.mark], _COLOURS[row.mark])
        text, code = printable(row.text), f" {row.code}" if row.code else ""
        first, *rest = self._wrapped(f"{text}{code}", _INDENT)
        lines = [f"{mark} {first}", *(f"{' ' * _INDENT}{each}" for each in rest)]
        if code and lines[-1].endswith(row.code):
            lines[-1] = f"{lines[-1].removesuffix(row.code)}{self._painted(row.code, DIM)}"
        yield from lines
        if row.todo:
            first, *rest = self._wrapped(f"-> {printable(row.todo)}", _INDENT, "   ")
            yield from (f"{' ' * _INDENT}{each}" for each in (first, *rest))

    def _wrapped(self, text: str, indent: int, hanging: str = "") -> list[str]:
        return wrapped(text, max(self._width - indent, 20) if self._width else 0, hanging)

    def _painted(self, text: str, colour: str) -> str:
        return painted(text, colour, is_on=self._colour)


class Shown(NamedTuple):
    """What is shown of a diagnosis: findings at or over the level, and the number below it."""

    names: Names
    found: Diagnosis
    below: int
    source: str

    @property
    def others(self) -> list[Finding]:
        """The findings that say more than why a name fails."""
        told = self.names.told
        return [
            each for each in self.found.findings if (each.rule.code, each.remark.place) not in told
        ]


def show_read(
    screen: Screen, subject: Subject, unread: Mapping[str, str], *, is_file: bool
) -> None:
    """Print how much was read of a cluster, and what makes a diagnosis blind."""
    count = len(subject.objects.manifests)
    rows = [] if is_file else [Row(PASSED, f"{count:,} objects read")]
    rows += [Row(FAILED, each) for each in _by_reason(unread)]
    screen.section("Objects", rows, 18)


def _by_reason(reasons: Mapping[str, str]) -> list[str]:
    """Kinds and why they could not be read, those with the same reason together."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for plural, reason in reasons.items():
        found[reason].append(plural)
    return [f"{', '.join(plurals)}: {reason}" for reason, plurals in found.items()]


def show_names(screen: Screen, names: Names) -> None:
    """Print the names that fail."""
    rows = [
        Row(
            FAILED,
            f"{_named(each.names)}: {each.cause.sentence}{_since(each.cause.since)}",
            each.cause.code,
            each.cause.todo,
            each.names[0].partition(".svc.")[0],
        )
        for each in names.failing
    ]
    if names.unknown:
        rows = [Row(SKIPPED, f"not checked: endpointslices: {names.unknown}")]
    elif not rows and names.total:
        one = "it" if names.total == 1 else "each"
        rows = [Row(PASSED, f"{counted(names.total, 'name')}: {one} has something behind it")]
    if names.unclear:
        text = f"{counted(len(names.unclear), 'name')} not checked"
        why = f"{_named(names.unclear)}: the file has no pods like those that are selected"
        rows.append(Row(SKIPPED, f"{text}: {why}", short=text))
    screen.section("Names", rows, 10)


def _since(time: str) -> str:
    return f" (since {time})" if time else ""


def _named(names: Sequence[str]) -> str:
    others = len(names) - 1
    return f"{names[0]} and {counted(others, 'other name')}" if others else names[0]


def show_rest(screen: Screen, shown: Shown, *, is_wide: bool) -> None:
    """Print the sections after the names."""
    found = shown.found
    marks = {True: PASSED, False: FAILED, None: SKIPPED}
    asked = [Row(marks[each.is_right], each.sentence) for each in found.asked]
    asked.sort(key=lambda row: row.mark != FAILED)
    screen.section("DNS servers", asked, 8)
    for level, (title, mark, reserve) in _LEVELS.items():
        listed = [each for each in shown.others if each.level == level]
        screen.section(title, list(_rows(listed, mark, is_wide=is_wide)), reserve)
    screen.section(TOOL, [_of_mesh(each) for each in found.mesh], 4)
    screen.section("Checks", list(_checks(shown, is_wide=is_wide)), 3)
    if is_wide:
        pages = {each.rule.code: each.rule for each in found.findings}
        rows = [
            Row(NOTED, f"{code} {each.title}: {each.page}") for code, each in sorted(pages.items())
        ]
        screen.section("Rules", rows)
    screen.line(summary(shown))


def _rows(listed: Sequence[Finding], mark: str, *, is_wide: bool) -> Iterator[Row]:
    """A row for each finding, or one for each rule."""
    by_rule: defaultdict[str, list[Finding]] = defaultdict(list)
    for each in listed:
        by_rule[each.rule.code].append(each)
    for code, found in by_rule.items():
        for finding in found if is_wide else found[:1]:
            others = len(found) - 1
            more = f" (and {others} more)" if others and not is_wide else ""
            yield Row(mark, f"{finding.message}{more}", code)


def _of_mesh(found: MeshFinding) -> Row:
    mark = _LEVELS[found.level][1]
    return Row(mark, f"{found.message}: {found.page}", found.code)


def _checks(shown: Shown, *, is_wide: bool) -> Iterator[Row]:
    """How many rules passed, and what was not checked; a rule that says why a name fails has been."""
    found, told = shown.found, {code for code, _ in shown.names.told}
    if found.passed:
        idle = f"; {len(found.idle)} had no object to check" if found.idle else ""
        text = f"{counted(len(found.passed), 'rule')} passed"
        yield Row(PASSED, f"{text}{idle}", short=text)
    missing = {key: why for key, why in found.reasons.items() if found.unchecked.get(key)}
    codes = sorted({code for key in missing for code in found.unchecked[key]} - told)
    if codes:
        more = [] if is_wide or len(codes) <= _MOST_CODES else ["…"]
        named = codes if is_wide else codes[:_MOST_CODES]
        text = f"{counted(len(codes), 'rule')} not checked"
        yield Row(SKIPPED, f"{text}: {', '.join(named + more)}", short=text)
    for each in _by_reason(missing):
        yield Row(SKIPPED, each, short=each.partition(":")[0])
    for key, what in OTHERS.items():
        if key in found.reasons:
            yield Row(SKIPPED, f"not checked: {what}: {found.reasons[key]}", short=key)


def summary(shown: Shown) -> str:
    """The last line: what fails, what was found, and in how many objects."""
    names, found = shown.names, shown.found
    if found.problems and not found.objects:
        return f"nothing was checked: {shown.source} could not be read"
    now, later, costs = (sum(each.level == level for each in shown.others) for level in _LEVELS)
    fail = [counted(names.fail, "name")] if names.fail else []
    fail += [counted(now, "other finding" if fail else "finding")] if now else []
    counts = []
    if fail:
        counts.append(f"{' and '.join(fail)} fail{'s' if names.fail + now == 1 else ''} now")
    if later:
        counts.append(f"{later if fail else counted(later, 'finding')} will fail")
    if costs:
        found_costs = f"{costs}" if counts else counted(costs, "finding")
        verbs = "costs queries or surprises" if costs == 1 else "cost queries or surprise"
        counts.append(f"{found_costs} {verbs}")
    counts = counts or ["no findings"]
    if shown.below:
        counts.append(f"{shown.below} more below the --level")
    if found.mesh:
        counts.append(f"{len(found.mesh)} of istioctl")
    if found.silenced:
        counts.append(f"{len(found.silenced)} silenced")
    where = f"in {counted(found.objects, 'object', 'no')} of {shown.source}"
    problems = f" ({len(found.problems)} not checked)" if found.problems else ""
    return f"{', '.join(counts)}, {where}{problems}"


def as_json(shown: Shown) -> dict[str, object]:
    """The diagnosis as JSON."""
    found = shown.found
    return {
        "failing": [
            {"name": name, "code": code, "object": place, "message": said, "todo": todo, "since": since}
            for names, (code, place, said, todo, since) in shown.names.failing
            for name in names
        ],
        "findings": [_finding(each) for each in found.findings],
        "silenced": [{**_finding(each), "reason": each.silenced} for each in found.silenced],
        "unclear": list(shown.names.unclear),
        "below": shown.below,
        "passed": found.passed,
        "idle": found.idle,
        "asked": [each.sentence for each in found.asked],
        "istioctl": [each.as_json() for each in found.mesh],
        "unchecked": [
            {"resource": plural, "reason": reason, "rules": list(found.unchecked.get(plural, ()))}
            for plural, reason in found.reasons.items()
        ],
        "objects": found.objects,
        "unread": found.problems,
    }  # fmt: skip


def _finding(found: Finding) -> dict[str, object]:
    from hsdns.rules.output import as_json as finding_as_json

    # The position in the dump is useless.
    left_out: Collection[str] = ("file", "line", "column", "repaired")
    return {key: value for key, value in finding_as_json(found).items() if key not in left_out}
