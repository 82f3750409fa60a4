"""The numbers and mnemonics of IANA, beside those of dnspython."""

from __future__ import annotations

import dns.rcode
import dns.rdatatype

from hsdns.wire.iana import _RCODES, _TYPES, Rcode, RRType, rcode_to_text, type_to_text

# Those that dnspython does not name.
OLD = {31: "EID", 32: "NIMLOC", 34: "ATMA", 57: "RKEY", 58: "TALINK", 100: "UINFO", 101: "UID", 102: "GID"}  # fmt: skip


def test_mnemonics() -> None:
    for number, text in _TYPES.items():
        assert text == OLD.get(number, dns.rdatatype.to_text(dns.rdatatype.RdataType.make(number)))
    for number, text in _RCODES.items():
        assert text == dns.rcode.to_text(dns.rcode.Rcode.make(number))
    for numbers, to_text in ((RRType, type_to_text), (Rcode, rcode_to_text)):
        named = {each: number for each, number in vars(numbers).items() if each.isupper()}
        assert [to_text(number) for number in named.values()] == list(named)
