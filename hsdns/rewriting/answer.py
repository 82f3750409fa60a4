"""Rules for replies: owners, names in RDATA, TTLs, rcode, targets of CNAME records.

Path: rule.py makes them, for one query or once at setup; draft.py applies them.
Source: CoreDNS 1.14.7 plugin/rewrite name.go, ttl.go, rcode.go, cname_target.go.
"""

from __future__ import annotations

from typing import Final

from hsdns.rewriting.draft import Draft, Lookup, Record, to_name
from hsdns.rewriting.match import Matcher
from hsdns.wire.iana import RRType
from hsdns.wire.name import Name
from hsdns.wire.rdata import read_name

# Octets before the name in RDATA to which `answer value` applies.
_VALUES: Final[dict[int, int]] = {
    RRType.NS: 0,
    RRType.CNAME: 0,
    RRType.SOA: 0,  # MNAME only, not RNAME
    RRType.PTR: 0,
    RRType.MX: 2,
    RRType.SRV: 6,
    RRType.DNAME: 0,
}
_NAPTR_FIXED_LEN: Final = 4
_NAPTR_STRINGS: Final = 3


class OwnerRule:
    """Rewrites owners that match."""

    is_about_message = False

    def __init__(self, matcher: Matcher, to: str) -> None:
        self._matcher, self._to = matcher, to

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Rewrite the owner."""
        assert record is not None, "it is not about the message"
        text = record.owner.to_text()
        new = self._matcher.replace(text, self._to)
        if new is not None and new != text:
            record.owner = to_name(new)
        return None


class ValueRule:
    """Rewrites names in RDATA that match."""

    is_about_message = False

    def __init__(self, matcher: Matcher, to: str) -> None:
        self._matcher, self._to = matcher, to

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Rewrite the name."""
        assert record is not None, "it is not about the message"
        at = _value_at(record)
        if at is None:
            return None
        name, end = read_name(record.rdata, at)
        text = name.to_text()
        new = self._matcher.replace(text, self._to)
        if new is not None and new != text:
            record.rdata = record.rdata[:at] + to_name(new).wire + record.rdata[end:]
        return None


class TtlRule:
    """Limits TTLs to a range in seconds."""

    is_about_message = False

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Limit the TTL."""
        assert record is not None, "it is not about the message"
        record.ttl = min(max(record.ttl, self.low), self.high)
        return None


class RcodeRule:
    """Replaces an rcode by another."""

    is_about_message = True

    def __init__(self, old: int, new: int) -> None:
        self.old, self.new = old, new

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Replace the rcode.

        It is applied again for each record, as in CoreDNS: with rules that chain (A to B, B to C) the number of records
        determines how many of them take effect.
        """
        if draft.rcode == self.old:
            draft.rcode = self.new
        return None


class AliasRule:
    """Changes the target of a CNAME, and replaces the records after it by those of the new target."""

    is_about_message = False

    def __init__(self, matcher: Matcher, to: str) -> None:
        self._matcher, self._to = matcher, to

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Change the target if it matches."""
        assert record is not None, "it is not about the message"
        if record.rrtype != RRType.CNAME:
            return None
        target, _ = read_name(record.rdata, 0)
        new = self._matcher.replace(target.to_text(), self._to)
        return None if new is None else self._replace_target(draft, target, to_name(new))

    @staticmethod
    def _replace_target(draft: Draft, old: Name, new: Name) -> Lookup:
        found = yield new
        if found is None:
            return
        answer = []
        for record in draft.answer:
            if record.rrtype != RRType.CNAME:
                continue
            answer.append(record)
            if record.rdata == old.wire:
                record.rdata = new.wire
                break
        draft.answer = [*answer, *(Record(rr) for rr in found.answer)]
        draft.tc = found.tc


def _value_at(record: Record) -> int | None:
    """Return the offset of the name in RDATA, None if there is none."""
    if record.rrtype != RRType.NAPTR:
        return _VALUES.get(record.rrtype)
    at = _NAPTR_FIXED_LEN
    for _ in range(_NAPTR_STRINGS):
        at += 1 + record.rdata[at]
    return at
