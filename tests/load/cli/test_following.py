"""What is followed in a run; the whole of it runs in tests/load/cli/test_load.py."""

from __future__ import annotations

import socket

import pytest

from hsdns.cli.flags import parse_flags
from hsdns.load.cli.cluster import following_changes
from hsdns.load.cli.settings import FLAGS, read_settings
from tests.load.cli.test_cluster import cluster
from tests.load.servers import server


@pytest.mark.parametrize("words", ["-queries q", "-source synthetic -verify", "-source synthetic -api [::1]:0 -churn 5 -verify -probes 0"])  # fmt: skip
def test_nothing_is_followed(words: str) -> None:
    settings = read_settings(parse_flags(words.split(), FLAGS))
    with following_changes(settings, None, [], []) as following:
        following.take()
        assert following.report(0, [], 0.0, 1.0) is None


@pytest.mark.sockets
@pytest.mark.slow
def test_changes_of_a_cluster_are_followed() -> None:
    """The server never answers: each change is asked about in vain, and left out."""
    words = "-source synthetic -api [::1]:0 -churn 5 -verify -probes 1000"
    settings = read_settings(parse_flags(words.split(), FLAGS))
    with server(ignored=1 << 30) as port, cluster() as found:
        place = socket.AF_INET, ("127.0.0.1", port)
        queries = [each.query() for each in found.questions.all]
        with following_changes(settings, found, [place], queries) as following:
            found.begin_churn(200.0)
            assert found.truth is not None
            while len(found.truth.changes) < 10:
                following.take()
            found.end_churn()
        report = following.report(0, found.questions.all, 0.0, float("inf"))
    assert report is not None
    assert 0 < report.followed == report.left_out
