"""The servers of an audit: what tests/cli/test_audit.py, which asks them, does not show."""

from __future__ import annotations

from hsdns.audit.cli import Audit
from hsdns.audit.servers import schedule_of
from hsdns.load.schedule import Schedule


def test_there_is_exactly_one_query_for_each_question() -> None:
    for count in (1, 2, 7, 999, 1000, 4001):
        for rate in (1, 3, 997, 1000, 12_000):
            settings = Audit(rate=rate)
            assert len(list(Schedule((schedule_of(count, settings),)).times())) == count
