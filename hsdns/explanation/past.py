"""The last changes of a name, from the history of a server.

Path: explain.py -> here -> cluster/history.py.
Rule: for a name below a Service, only changes with its label are reported.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from hsdns.cluster.history import History, Noted
from hsdns.cluster.programming import read_time
from hsdns.cluster.reading import Lead
from hsdns.explanation.report import ChangeReport

MOST: Final = 20  # changes that are reported
MOST_LOOKED_AT: Final = 200  # changes of a Service, for those of one of its endpoints
MOST_FACTS: Final = 20  # of one change


def past(history: History, lead: Lead, endpoint: bytes) -> list[ChangeReport]:
    """The last changes of the objects of a question, the newest first."""
    noted = [each for key in lead.services for each in history.of(key, MOST_LOOKED_AT)]
    noted.sort(key=lambda each: each.served, reverse=True)
    found: list[ChangeReport] = []
    for each in noted:
        if len(found) == MOST:
            break
        added, removed = each.facts()
        if endpoint:
            mark = f" {endpoint.decode('utf-8', 'replace')}"
            added = [fact for fact in added if fact.endswith(mark)]
            removed = [fact for fact in removed if fact.endswith(mark)]
            if not added and not removed:
                continue
        found.append(_report(each, added, removed))
    return found


def _report(noted: Noted, added: list[str], removed: list[str]) -> ChangeReport:
    namespace = noted.service[0].decode("utf-8", "replace")
    written = read_time(noted.written)
    took = None if written is None else round((noted.served - written) * 1000, 3)
    served = datetime.fromtimestamp(noted.served, UTC).isoformat(timespec="milliseconds")
    served = served.replace("+00:00", "Z")
    return ChangeReport(
        served,
        noted.event,
        f"{noted.kind} {namespace}/{noted.name}",
        noted.version,
        _cut(added),
        _cut(removed),
        noted.written,
        took,
    )


def _cut(facts: list[str]) -> list[str]:
    rest = len(facts) - MOST_FACTS
    return facts if rest <= 0 else [*facts[:MOST_FACTS], f"and {rest} more"]
