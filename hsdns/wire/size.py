"""Uncompressed length of a reply, and whether it will be truncated, for `log` and `prometheus`.

Path: beside encode.py; plugins/log.py and plugins/prometheus.py call it.
Rule 1: the length is that of the chain's reply: uncompressed, not truncated, without the OPT record that the server
        adds (CoreDNS 1.14.7 measures with miekg/dns Msg.Len before its ScrubWriter; an OPT record from an upstream
        counts, because the reply already has it then).
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from hsdns.wire.edns import OPT_FIXED_LEN
from hsdns.wire.encode import MAX_TCP_LEN, encode, udp_limit
from hsdns.wire.message import TC, Query, Reply, pieces

MANY_RECORDS: Final = 1000
_HEADER_LEN: Final = 12
_wire: Final = attrgetter("wire")
_RR_FIXED_LEN: Final = 10  # type 2, class 2, ttl 4, rdlength 2
_OPTION_FIXED_LEN: Final = 4  # code 2, length 2


def reply_size(query: Query, reply: Reply) -> int:
    """Return the length of the uncompressed reply in octets."""
    size = _HEADER_LEN + len(query.question_wire)
    for section in (reply.answer, reply.authority, reply.additional):
        for piece in pieces(section):
            owners, _, _, rdata, _ = zip(*piece, strict=True)
            size += _RR_FIXED_LEN * len(piece) + sum(map(len, rdata))
            size += sum(map(len, map(_wire, owners)))
    if reply.edns_options is not None:
        size += OPT_FIXED_LEN
        for _, data in reply.edns_options:
            size += _OPTION_FIXED_LEN + len(data)
    return size


def is_big(reply: Reply) -> bool:
    """Whether to look at each of its records takes about a millisecond or more."""
    return len(reply.answer) + len(reply.authority) + len(reply.additional) >= MANY_RECORDS


def is_truncated(query: Query, reply: Reply, protocol: str) -> bool:
    """Whether the client will see TC, set by an upstream or because records do not fit."""
    if reply.tc:
        return True
    limit = MAX_TCP_LEN if protocol == "tcp" else udp_limit(query, reply)
    longest = reply_size(query, reply)
    edns = reply.edns or query.edns
    if edns is not None and reply.edns_options is None:
        longest += OPT_FIXED_LEN + len(edns.echoed_options())
    if query.edns is not None:
        longest += len(reply.extended_errors)
    # Only a reply that might not fit is encoded to find out.
    return longest > limit and bool(encode(query, reply, limit)[2] & TC >> 8)
