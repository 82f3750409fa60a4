"""Queries made and replies read with dnspython, which shares no code with the server under test."""

from __future__ import annotations

from typing import Any

import dns.flags
import dns.message
import dns.rcode


def query(
    qname: str = "example.org", rrtype: str = "A", number: int = 1, **options: Any
) -> dns.message.QueryMessage:
    """Make a query with an ID of its own; options are those of dns.message.make_query."""
    return dns.message.make_query(qname, rrtype, id=number, **options)


def summary(wire: bytes) -> str:
    """Put a reply on one line: ID, rcode, flags, and the records of each section with their TTLs."""
    message = dns.message.from_wire(wire)
    flags = dns.flags.to_text(message.flags).lower()
    sections = [
        " ".join(text for rrset in section for text in sorted(rrset.to_text().split("\n")))
        for section in (message.answer, message.authority, message.additional)
    ]
    return f"{message.id} {dns.rcode.to_text(message.rcode())} {flags} | " + " | ".join(sections)
