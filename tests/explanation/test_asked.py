"""The question of somebody who wants an explanation."""

from __future__ import annotations

import pytest

from hsdns.explanation.question import read_question
from hsdns.wire.iana import RRType


@pytest.mark.parametrize(
    ("name", "rrtype", "qname", "qtype"),
    [
        ("web.shop", "", "web.shop.", RRType.A),
        ("web.shop.", "aaaa", "web.shop.", RRType.AAAA),
        ("10.0.0.1", "", "1.0.0.10.in-addr.arpa.", RRType.PTR),
        ("10.0.0.1", "A", "1.0.0.10.in-addr.arpa.", RRType.A),
    ],
)
def test_a_question(name: str, rrtype: str, qname: str, qtype: int) -> None:
    found = read_question(name, rrtype)
    assert (found[0].to_text(), found[1]) == (qname, qtype)


@pytest.mark.parametrize(
    ("name", "rrtype", "sentence"),
    [
        ("", "", 'the name is empty; the root is "."'),
        ("a..b", "", '"a..b" is not a domain name'),
        ("a", "qq", '"QQ" is not a record type; try A, AAAA, SRV, PTR or CNAME'),
    ],
)
def test_what_is_no_question(name: str, rrtype: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_question(name, rrtype)
