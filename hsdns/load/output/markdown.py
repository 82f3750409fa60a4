"""The report of a run as Markdown, for the job summary of GitHub Actions.

Path: report.py -> here -> cli/export.py appends it to the file that GITHUB_STEP_SUMMARY names.
Rule: names and sentences are plain text: Markdown syntax in them is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hsdns.load.output.words import arrival, comparison, limited, rates, shown
from hsdns.load.report import Report
from hsdns.wire import printable

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$@-])")
_MET: Final = {True: "FAILED", False: "held", None: "unknown"}


def markdown(report: Report) -> str:
    """The summary."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    plan, servers = report.plan, report.servers
    yield f"### Load on {_text(', '.join(server.target for server in servers))}"
    yield ""
    yield _text(f"{rates(plan.stages)}, {arrival(plan)}, over {plan.transport}: {plan.what}")
    for server in servers:
        of = f"{server.name}: " if len(servers) > 1 else ""
        for word, told in (
            ("Not whole", server.ended and f"{server.ended} after {server.seconds:.1f} s"),
            ("Left out", server.refused),
        ):
            if told:
                yield ""
                yield f"**{word}:** {_text(of + told)}"
    limits = [
        (limit.limit, _MET[limit.met], limited(limit), server.name)
        for server in servers
        for limit in server.limits
    ]
    if limits:
        yield ""
        yield from _table(("limit", "", "measured", "server"), limits)
    yield ""
    names = [server.name for server in servers]
    yield from _table(("", *names), [(label, *cells) for label, cells in comparison(shown(report))])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _row(head)
    yield f"|{' --- |' * len(head)}"
    yield from map(_row, rows)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_text, cells))} |"


def _text(words: str) -> str:
    return _SPECIAL.sub(r"\\\1", printable(words))
