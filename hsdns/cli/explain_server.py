"""Queries a DNS server, to compare its answer with an explanation.

Path: cli/explain.py, for -server -> here -> explanation/report.py.
Rule: it uses UDP, and TCP if the reply is truncated; a server without an answer is reported, and is not an error.
"""

from __future__ import annotations

from typing import Final

from hsdns.explanation.report import Record, ServerAnswer
from hsdns.wire.iana import type_to_text
from hsdns.wire.name import Name

TIMEOUT: Final = 5.0  # seconds


def ask_server(address: str, port: int, qname: Name, qtype: int) -> ServerAnswer:
    """The answer of a server to a query with RD."""
    import dns.exception
    import dns.message
    import dns.query
    import dns.rcode
    import dns.rdatatype

    query = dns.message.make_query(qname.to_text(), type_to_text(qtype))
    try:
        reply, _ = dns.query.udp_with_fallback(query, address, timeout=TIMEOUT, port=port)
    except dns.exception.Timeout:
        return ServerAnswer(error=f"it did not answer within {TIMEOUT:g} s")
    except (OSError, EOFError, dns.exception.DNSException) as error:
        return ServerAnswer(error=f"it cannot be asked: {error}")
    records = tuple(
        Record(rrset.name.to_text(), rrset.ttl, dns.rdatatype.to_text(rrset.rdtype), each.to_text())
        for rrset in reply.answer
        for each in rrset
    )
    for rrset in reply.authority:
        if rrset.rdtype == dns.rdatatype.SOA:
            ttl = min(rrset.ttl, rrset[0].minimum)  # RFC 2308 section 5
            break
    else:
        return ServerAnswer(dns.rcode.to_text(reply.rcode()), records)
    return ServerAnswer(dns.rcode.to_text(reply.rcode()), records, rrset.name.to_text(), ttl)
