"""Reads the question to explain from text.

Path: cli/explain.py, server/control/explain.py -> here -> explain.py.
"""

from __future__ import annotations

from ipaddress import ip_address

from hsdns.cluster.reverse import reverse_name
from hsdns.wire.iana import type_from_text
from hsdns.wire.name import Name


def read_question(name: str, rrtype: str = "") -> tuple[Name, int]:
    """A name and a type, A if it is empty; an IP address is looked up in reverse.  Raise ValueError with a sentence."""
    if not name:
        raise ValueError('the name is empty; the root is "."')
    words = rrtype.upper()
    try:
        address = ip_address(name)
    except ValueError:
        try:
            qname = Name.from_text(name)
        except ValueError as error:
            raise ValueError(f'"{name}" is not a domain name: {error}') from None
    else:
        qname, words = reverse_name(address.packed), words or "PTR"
    try:
        return qname, type_from_text(words or "A")
    except ValueError:
        raise ValueError(
            f'"{words}" is not a record type; try A, AAAA, SRV, PTR or CNAME'
        ) from None
