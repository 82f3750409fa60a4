from __future__ import annotations

import dns.edns
import dns.flags
import dns.message
from hypothesis import given
from hypothesis import strategies as st

from hsdns.wire.edns import Edns, read_options
from hsdns.wire.encode import encode, is_truncated
from hsdns.wire.iana import OptCode, RRType
from hsdns.wire.message import RR, InfoCode, Query, Reply, to_option, with_extended_error
from hsdns.wire.name import Name
from tests import strategies
from tests.support.plugins.requests import make_request

ERRORS = st.lists(st.tuples(st.integers(0, 65535), st.text(max_size=40)), max_size=3)


def test_the_codes_are_those_of_iana() -> None:
    for name, code in vars(InfoCode).items():
        assert not name.isupper() or dns.edns.EDECode(code).name.startswith(name)


def test_a_client_without_edns_gets_an_opt_record() -> None:
    query = make_request("a.").query
    sent = dns.message.from_wire(encode(query, with_extended_error(query, Reply(), 21, "why"), 512))
    assert (sent.edns, sent.payload, sent.ednsflags) == (0, 4096, 0x8000)
    (option,) = sent.options
    assert isinstance(option, dns.edns.EDEOption)
    assert (option.code, option.text) == (21, "why")


def test_a_client_with_edns_keeps_its_size() -> None:
    query = make_request("a.", edns=Edns(900)).query
    sent = dns.message.from_wire(encode(query, with_extended_error(query, Reply(), 0), 900))
    assert (sent.payload, sent.ednsflags) == (900, 0x8000)
    assert [option.to_wire() for option in sent.options] == [b"\0\0"]


@given(ERRORS)
def test_options_are_read_as_they_were_written(errors: list[tuple[int, str]]) -> None:
    wire = b"".join(to_option(*error) for error in errors)
    assert read_options(wire, 0, len(wire)) == tuple(
        (OptCode.EDE, code.to_bytes(2, "big") + text.encode()) for code, text in errors
    )


@given(ERRORS.filter(bool), st.none() | strategies.edns, st.integers(0, 40), st.integers(512, 1400))
def test_errors_are_for_clients_with_edns_and_the_first_to_go(
    errors: list[tuple[int, str]], edns: Edns | None, count: int, limit: int
) -> None:
    """Beside them a reply is as without; where they have no room it has TC, and all records that fit."""
    name = Name.from_text("a.example.org.")
    query = Query.ask(name, RRType.A, edns=edns)
    records = tuple(RR(name, RRType.A, 5, bytes((10, 0, 0, host))) for host in range(count))
    options = b"".join(to_option(*error) for error in errors)
    plain = Reply(answer=records)
    without = encode(query, plain, limit)
    found = encode(query, plain.replace(extended_errors=options), limit)
    if edns is None:
        assert found == without
        return
    if len(without) + len(options) <= limit and not without[2] & 2:
        assert len(found) == len(without) + len(options)
        message = dns.message.from_wire(found)
        told = [each for each in message.options if each.otype == OptCode.EDE]
        echoed = len(message.options) - len(told)
        assert list(message.options)[echoed:] == told
        assert b"".join(each.to_wire() or b"" for each in told[-len(errors) :]) == b"".join(
            code.to_bytes(2, "big") + text.encode() for code, text in errors
        )
        assert not message.flags & dns.flags.TC
    else:
        assert found == without[:2] + bytes((without[2] | 2,)) + without[3:]


def test_a_reply_without_room_for_its_errors_counts_as_truncated() -> None:
    query = make_request("a.", edns=Edns(512)).query
    records = tuple(RR(query.qname, RRType.A, 5, bytes((10, 0, 0, host))) for host in range(29))
    plain = Reply(answer=records)
    assert not is_truncated(query, plain, "udp")
    told = plain.replace(extended_errors=to_option(0, "why" * 20))
    assert is_truncated(query, told, "udp")
    assert not is_truncated(query, told, "tcp")
