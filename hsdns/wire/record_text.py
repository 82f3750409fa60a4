"""Parser for one record in the format of a zone file.

Path: off the data path at setup; the `template` plugin parses the output of its templates.
Source: RFC 1035 section 5.1; miekg/dns NewRR: the default TTL is 3600, the default class IN, names need no final dot.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import dns.exception
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.tokenizer
import dns.ttl

from hsdns.wire.message import RR
from hsdns.wire.name import Name

DEFAULT_TTL: Final = 3600  # seconds
_CACHE_SIZE: Final = 1024  # records; a template often makes the same ones


@lru_cache(maxsize=_CACHE_SIZE)
def record_from_text(text: str) -> RR:
    """Parse a record; raise ValueError."""
    try:
        return _read(text)
    except (dns.exception.DNSException, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f'"{text}" is not a record: {reason}') from None


def _read(text: str) -> RR:
    tokens = dns.tokenizer.Tokenizer(text, "template")
    token = tokens.get(want_leading=True)
    if token.is_whitespace():
        raise ValueError("it begins with a space")
    if not token.is_identifier():
        raise ValueError("it is empty")
    owner = tokens.as_name(token, dns.name.root)
    ttl, rrclass, rrtype = DEFAULT_TTL, dns.rdataclass.IN, None
    for _ in range(3):  # TTL and class in any order, then the type
        word = tokens.get_string()
        if word[:1].isdigit():
            ttl = dns.ttl.from_text(word)
        elif word.upper() in _CLASSES:
            rrclass = _CLASSES[word.upper()]
        else:
            rrtype = dns.rdatatype.from_text(word)
            break
    if rrtype is None:
        raise ValueError("it has no type")
    rdata = dns.rdata.from_text(rrclass, rrtype, tokens, dns.name.root, relativize=False)
    wire = rdata.to_wire()
    assert wire is not None, "not a file"
    return RR(Name(owner.to_wire() or b""), int(rrtype), ttl, bytes(wire), int(rrclass))


_CLASSES: Final = {
    "IN": dns.rdataclass.IN,
    "CH": dns.rdataclass.CH,
    "HS": dns.rdataclass.HS,
    "ANY": dns.rdataclass.ANY,
    "NONE": dns.rdataclass.NONE,
}
