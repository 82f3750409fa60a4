from __future__ import annotations

import pytest

from hsdns.cli import load_streams
from hsdns.cli.flags import FlagError, parse_flags
from hsdns.cli.load_flags import FLAGS
from hsdns.cli.load_streams import (
    allow_connections,
    check_descriptors,
    default_port,
    descriptors_needed,
    read_streams,
)
from hsdns.load.stream_plan import DOH, DOT, GET, TCP, StreamPlan

SECOND = 1_000_000_000


def streams(text: str) -> StreamPlan | None:
    return read_streams(parse_flags(text.split(), FLAGS))


@pytest.mark.parametrize(
    ("text", "plan", "port"),
    [
        ("", None, 53),
        ("-transport udp", None, 53),
        ("-transport tcp", StreamPlan(TCP), 53),
        ("-transport dot", StreamPlan(DOT), 853),
        ("-transport doh", StreamPlan(DOH), 443),
        (
            "-transport tcp -connections 3 -pipeline 1 -queries-per-connection 5 -idle 2s",
            StreamPlan(TCP, 3, 1, 5, 2 * SECOND),
            53,
        ),
        ("-transport dot -tls-ca a.pem -tls-name dns.test", StreamPlan(DOT, tls_ca="a.pem", tls_name="dns.test"), 853),
        (
            "-transport doh -tls-insecure -doh-path /q?x=1 -doh-method GET -idle 0s",
            StreamPlan(DOH, idle=0, tls_insecure=True, path="/q?x=1", method=GET),
            443,
        ),
    ],
)  # fmt: skip
def test_flags(text: str, plan: StreamPlan | None, port: int) -> None:
    assert streams(text) == plan
    assert default_port(parse_flags(text.split(), FLAGS)) == port


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("-transport doq", '-transport: "doq" is none; did you mean "dot"?'),
        ("-transport carrier", '-transport: "carrier" is none; there are udp, tcp, dot and doh'),
        ("-sockets 2 -transport dot", "-sockets is for UDP, and -transport is dot; -connections says how many there are"),
        ("-connections 2", "-connections needs -transport tcp or dot or doh"),
        ("-idle 2s -transport udp", "-idle needs -transport tcp or dot or doh"),
        ("-tls-name a -transport tcp", "-tls-name needs -transport dot or doh"),
        ("-doh-path /q -transport dot", "-doh-path needs -transport doh"),
        ("-transport dot -tls-insecure -tls-ca a", "-tls-insecure trusts any certificate, -tls-ca only some; leave one of them out"),
        ("-transport tcp -idle soon", '-idle needs a time such as 10s, found "soon"'),
        ("-transport doh -doh-path q", '-doh-path needs a path such as /dns-query, found "q"'),
        ("-transport doh -doh-path /q{?dns}", '-doh-path: leave {?dns} out of "/q{?dns}"; the query is added where it belongs'),
        ("-transport doh -doh-method put", '-doh-method needs post or get, found "put"'),
        ("-transport tcp -pipeline 0", '-pipeline needs a number from 1 to 60000, found "0"'),
    ],
)  # fmt: skip
def test_bad_input(text: str, sentence: str) -> None:
    with pytest.raises(FlagError) as error:
        streams(text)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("plan", "needed"),
    [
        (StreamPlan(connections=7), 7),
        (StreamPlan(connections=7, idle=SECOND), 7),
        (StreamPlan(connections=7, queries=1), 7),
        (StreamPlan(connections=7, queries=10, idle=3 * SECOND), 7 + 100 // 10 * 5 + 1),
    ],
)
def test_descriptors(plan: StreamPlan, needed: int) -> None:
    assert descriptors_needed(plan, 100.0, 2.0) == needed


def test_too_few_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    check_descriptors(100, 132)
    sentence = (
        "1000 connections may be open at once, and a process here may have 1024 descriptors (ulimit -Hn); "
        "raise the limit, or lower -connections, -idle or -rate"
    )
    monkeypatch.setattr(load_streams, "raise_limit", lambda: None)
    monkeypatch.setattr(load_streams, "descriptor_limit", lambda: 1024)
    with pytest.raises(FlagError) as error:
        allow_connections(StreamPlan(connections=1000), 1.0, 1.0)
    assert str(error.value) == sentence
