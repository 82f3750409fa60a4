"""Converts a model's packets to DNS messages, and replies to the models' answers.

Path: cli/resolve_chain.py, cli/resolve_server.py -> here -> wire/.
"""

from __future__ import annotations

from hsdns.resolver.model import Answer, Packet
from hsdns.wire.decode import decode_reply
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import OptCode, RRType
from hsdns.wire.message import AD, RD, Query
from hsdns.wire.name import Name
from hsdns.wire.rdata import address_to_text


def query_of(packet: Packet, cookie: bytes = bytes(8)) -> Query:
    """The query in a packet; raise ValueError for a name that cannot be in a message.  `cookie` is a client cookie."""
    edns = None
    if packet.edns:
        options = ((OptCode.COOKIE, cookie),) if packet.cookie else ()
        edns = Edns(packet.edns, options=options)
    flags = RD | AD if packet.ad else RD
    return Query.ask(Name.from_text(packet.name), packet.rrtype, flags=flags, edns=edns)


def wire_of(packet: Packet, query_id: int, cookie: bytes = bytes(8)) -> bytes:
    """The message; raise ValueError as above."""
    return encode_query(query_of(packet, cookie), query_id)


def answer_of(wire: bytes, packet: Packet) -> Answer:
    """The answer of a reply for a model; raise BadReply."""
    reply = decode_reply(wire, query_of(packet))
    ttls = [record.ttl for record in reply.answer] or [
        min(record.ttl, int.from_bytes(record.rdata[-4:], "big"))
        for record in reply.authority
        if record.rrtype == RRType.SOA
    ]
    return Answer(
        reply.rcode,
        tuple(address_to_text(each.rdata) for each in reply.answer if each.rrtype == packet.rrtype),
        tc=reply.tc,
        is_lame=not (reply.rcode or reply.answer or reply.additional or reply.aa or reply.ra),
        ttl=min(ttls, default=0),
    )
