from __future__ import annotations

from hsdns.plugins.bufsize import Bufsize
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode, udp_limit
from hsdns.wire.iana import Rcode
from hsdns.wire.message import unwritten
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.setup import set_up

BELOW = reply(["x. 1 IN A 192.0.2.1"])


def test_no_edns_stays_without() -> None:
    below = next_with(BELOW)
    assert finish(Bufsize(512).handle(make_request("x."), below)) is BELOW
    assert below.requests[0].query.edns is None


def test_what_nobody_wrote_shows_the_size_too() -> None:
    below = unwritten(Rcode.SERVFAIL)
    found = finish(Bufsize(512).handle(make_request("x.", edns=Edns(4096)), next_with(below)))
    assert found == below.replace(edns=Edns(512))


def test_an_opt_record_made_below_stays() -> None:
    below = BELOW.replace(edns=Edns(512, do=True), edns_options=((15, b"\0\x0f"),))
    found = finish(Bufsize(512).handle(make_request("x.", edns=Edns(4096)), next_with(below)))
    assert found is below


def test_reply_is_cut_at_the_lowered_size() -> None:
    query = make_request("x.", edns=Edns(4096)).query
    below = reply([f"x. 1 IN A 192.0.2.{number}" for number in range(100)])
    found = finish(Bufsize(600).handle(make_request("x.", edns=Edns(4096)), next_with(below)))
    assert udp_limit(query, found) == 600
    wire = encode(query, found, udp_limit(query, found))
    assert 580 < len(wire) <= 600
    assert wire[2] & 0x02  # TC
    assert wire[-11:] == bytes.fromhex("00 0029 0258 00000000 0000")


def test_a_handler_gives_no_more_than_the_client_takes() -> None:
    query = make_request("x.", edns=Edns(700)).query
    assert udp_limit(query, BELOW.replace(edns=Edns(4096))) == 700
    assert udp_limit(make_request("x.").query, BELOW.replace(edns=Edns(4096))) == 512


def test_block_keeps_its_answer_table() -> None:
    """tests/answer_table/test_writer.py shows that the table lowers sizes as the chain does."""
    assert Bufsize.cacheable
    assert set_up(Bufsize, "bufsize 600").max_payload == 600
