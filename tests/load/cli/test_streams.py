from __future__ import annotations

import pytest

from hsdns.cli.flags import FlagError, parse_flags
from hsdns.load.cli.settings import FLAGS, default_port, read_streams
from hsdns.load.plan import DOH, DOT, GET, TCP, StreamPlan

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
        ("-retry-tcp -connections 3", StreamPlan(TCP, 3, for_truncated=True), 53),
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
        ("-retry-tcp -transport tcp", "-retry-tcp is for answers over UDP, and -transport is tcp; leave one of them out"),
        ("-tls-insecure -retry-tcp", "-tls-insecure needs -transport dot or doh"),
        ("-sockets 2 -transport dot", "-sockets is for UDP, and -transport is dot; -connections says how many there are"),
        ("-connections 2", "-connections needs -transport tcp or dot or doh, or -retry-tcp"),
        ("-idle 2s -transport udp", "-idle needs -transport tcp or dot or doh, or -retry-tcp"),
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
