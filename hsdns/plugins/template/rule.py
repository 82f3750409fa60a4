"""One `template` directive: which queries it matches, and the data of its templates.

Path: step 5; plugins/template creates a rule per directive and evaluates them in file order.
Source: CoreDNS 1.14.7 plugin/template template.go (match, templateData).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from hsdns.chain import Request
from hsdns.corefile.properties import Match, Pattern
from hsdns.expression.evaluate import Program
from hsdns.expression.fault import ExpressionError
from hsdns.expression.queries import client_ip, functions_of
from hsdns.expression.types import STRING, Signature, signature
from hsdns.gotemplate.evaluate import Template
from hsdns.gotemplate.fault import TemplateError
from hsdns.gotemplate.values import Method, Record, StringMap
from hsdns.wire.iana import RRClass, RRType, class_to_text, type_to_text
from hsdns.wire.message import AD, CD, RD, Query
from hsdns.wire.name import Name

GROUP: Final[dict[str, Signature]] = {"group": signature("string|int", STRING)}


class Miss(Enum):
    """The next step if a rule does not match."""

    NEXT = "the next rule is evaluated"
    SERVFAIL = "the reply is SERVFAIL"


class Hit(NamedTuple):
    """A query that a rule answers: the data of its templates, and metric labels."""

    data: Record
    zone: str
    rrclass: str
    rrtype: str


class Rule(NamedTuple):
    """One `template` directive."""

    zones: tuple[Name, ...]
    qclass: int
    qtype: int
    patterns: tuple[Pattern, ...]  # without patterns every name matches
    variables: tuple[tuple[str, Program], ...]
    conditions: tuple[Program, ...]
    sections: Mapping[str, tuple[Template, ...]]  # answer, additional, authority
    rcode: int
    error: tuple[int, str] | None  # an extended DNS error
    through: tuple[Name, ...]

    @property
    def has_expressions(self) -> bool:
        """Whether it may depend on more than the question, for example on the client."""
        return bool(self.variables or self.conditions)

    def match(self, request: Request) -> Hit | Miss:
        """Return the data of the templates if the rule matches a query, else the next step."""
        query = request.query
        zone = query.qname.longest_of(self.zones)
        if zone is None or not self._is_for(query):
            return Miss.NEXT
        found = self._find(query.qname.lowered().to_text())
        if found is None:
            return self._missed(query)
        pattern, groups = found
        values: dict[str, Any] = {}
        data = _data(request, self, zone, pattern, groups, values)
        if self.has_expressions:
            try:
                if not self._holds(request, groups, values):
                    return self._missed(query)
            except ExpressionError:
                return Miss.SERVFAIL
        return Hit(data, zone.to_text(), data.fields["Class"], data.fields["Type"])

    def _is_for(self, query: Query) -> bool:
        return (RRClass.ANY in (self.qclass, query.qclass) or self.qclass == query.qclass) and (
            RRType.ANY in (self.qtype, query.qtype) or self.qtype == query.qtype
        )

    def _missed(self, query: Query) -> Miss:
        passes = query.qname.longest_of(self.through) is not None
        return Miss.NEXT if passes else Miss.SERVFAIL

    def _find(self, text: str) -> tuple[str, dict[str, str]] | None:
        """Return the first pattern that matches, and its groups by number and name."""
        if not self.patterns:
            return ".*", {"0": text}
        for pattern in self.patterns:
            match = pattern.search(text)
            if match is not None:
                return pattern.pattern, _groups(pattern, match)
        return None

    def _holds(self, request: Request, groups: dict[str, str], values: dict[str, Any]) -> bool:
        """Compute the variables, and return whether all conditions are true."""
        known: dict[str, Any] = {
            **functions_of(request),
            "group": lambda key: groups.get(str(key), ""),
        }
        for name, program in self.variables:
            known[name] = values[name] = program.run(known)
        return all(program.holds(known) for program in self.conditions)


def _groups(pattern: Pattern, match: Match) -> dict[str, str]:
    found = {str(number): match.group(number) or "" for number in range(pattern.groups + 1)}
    for name, number in pattern.groupindex.items():
        found[name] = match.group(number) or ""
    return found


def _data(
    request: Request,
    rule: Rule,
    zone: Name,
    pattern: str,
    groups: dict[str, str],
    values: dict[str, Any],
) -> Record:
    """Return the value of `.` in the templates."""
    query = request.query
    question = Record(
        "dns.Question",
        {"Name": query.qname.to_text(), "Qtype": query.qtype, "Qclass": query.qclass},
    )
    matched = [groups[str(number)] for number in range(len(groups)) if str(number) in groups]
    return Record(
        "template data",
        {
            "Zone": zone.to_text(),
            "Name": query.qname.lowered().to_text(),
            "Regex": pattern,
            "Match": matched,
            "Group": StringMap(groups),
            "Class": _class_text(query.qclass if query.qclass != RRClass.ANY else rule.qclass),
            "Type": _type_text(query.qtype if query.qtype != RRType.ANY else rule.qtype),
            "Message": _message(query, question),
            "Question": question,
            "Remote": client_ip(request),
            "Var": values,
            "Meta": Method(1, lambda label: _meta(request, label)),
        },
    )


def _message(query: Query, question: Record) -> Record:
    """Return the query's header and question for `.Message`."""
    flags = query.flags
    return Record(
        "dns.Msg",
        {
            "Id": query.id,
            "Response": False,
            "Opcode": query.opcode,
            "Authoritative": False,
            "Truncated": False,
            "RecursionDesired": bool(flags & RD),
            "RecursionAvailable": False,
            "Zero": False,
            "AuthenticatedData": bool(flags & AD),
            "CheckingDisabled": bool(flags & CD),
            "Rcode": flags & 15,
            "Question": [question],
        },
    )


def _meta(request: Request, label: object) -> str:
    if not isinstance(label, str):
        raise TemplateError("the argument of Meta is not a string; give a label")
    known = request.metadata.get(label) if request.metadata is not None else None
    return known() if known is not None else ""


def _class_text(number: int) -> str:
    """Return the mnemonic of a class; empty for numbers without one, to bound the metric labels."""
    if number == RRClass.ANY:
        return "ANY"  # class_to_text() does not return it
    text = class_to_text(number)
    return "" if text == f"CLASS{number}" else text


def _type_text(number: int) -> str:
    text = type_to_text(number)
    return "" if text == f"TYPE{number}" else text
