from __future__ import annotations

import dns.edns
import dns.message

from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode
from hsdns.wire.extended_error import with_extended_error
from hsdns.wire.message import Reply
from tests.support.plugins.requests import make_request


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
