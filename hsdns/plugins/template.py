"""Generates replies from templates, in Go's template language.

Path: step 5, after `cache` and before the sources; gotemplate/ renders templates, expression/ evaluates conditions.
Source: CoreDNS 1.14.7 plugin/template.
Rule 1: the rules of a block are evaluated in file order.  If a name in a rule's zones matches none of its patterns, the
        reply is SERVFAIL, unless `fallthrough` passes the query to the next rule or, after the last one, plugin.
Rule 2: if a template fails, or its text is not a record, the reply is SERVFAIL; the error is logged and counted.
Rule 3: the target of a CNAME record that answers A or AAAA is resolved through this server.  If the target is from the
        cluster, the reply is as `fresh` as the target's.
Cacheable: unless a rule has `var` or `expr`, only the question decides whether it answers.  Its own replies are never
        stored: they are not `fresh`, or depend on a resolved target (mark_uncacheable).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.chain import Next, Request, zones_within
from hsdns.corefile.keys import read_fallthrough, zones_from_args
from hsdns.corefile.properties import (
    Match,
    Pattern,
    Property,
    first,
    integer,
    many,
    read_pattern,
    read_properties,
    words,
)
from hsdns.corefile.properties import text as word
from hsdns.corefile.tree import Directive, Line, Token
from hsdns.expression.builtins import BUILTINS, REFUSED
from hsdns.expression.compiler import Program
from hsdns.expression.parser import PREDICATES, WORDS
from hsdns.expression.queries import NAMES, client_ip, functions_of, read_expression
from hsdns.expression.tree import STRING, ExpressionError, Signature, signature
from hsdns.gotemplate.evaluate import Template as Text
from hsdns.gotemplate.functions import Method, Record, StringMap
from hsdns.gotemplate.tree import TemplateError
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.wire.iana import (
    ADDRESSES,
    Rcode,
    RRClass,
    RRType,
    class_from_text,
    class_to_text,
    rcode_from_text,
    type_from_text,
    type_to_text,
)
from hsdns.wire.message import AD, CD, RD, RR, Query, Reply, unwritten, with_extended_error
from hsdns.wire.name import Name
from hsdns.wire.record_text import record_from_text

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


class ExtendedError(NamedTuple):
    """An extended DNS error."""

    code: int
    reason: str = ""


class Rule(NamedTuple):
    """One `template` directive."""

    zones: tuple[Name, ...]
    qclass: int
    qtype: int
    variables: Sequence[tuple[str, Program]]
    conditions: Sequence[Program]
    options: dict[str, Any]  # the values of all PROPERTIES; without `match` every name matches

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
        passes = query.qname.longest_of(self.options["fallthrough"]) is not None
        return Miss.NEXT if passes else Miss.SERVFAIL

    def _find(self, text: str) -> tuple[str, dict[str, str]] | None:
        """Return the first pattern that matches, and its groups by number and name."""
        if not self.options["match"]:
            return ".*", {"0": text}
        for pattern in self.options["match"]:
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


SECTIONS: Final = ("answer", "additional", "authority")
_RESERVED: Final = frozenset(
    {*NAMES, *GROUP, *BUILTINS, *PREDICATES, *REFUSED, *WORDS, "true", "false", "nil"}
)


def read_text(token: Token) -> Text:
    """Read a template; an error has the position of the word, and the character in it."""
    try:
        return Text.from_text(token.text)
    except TemplateError as error:
        raise token.error(f"template: {error.message} (at character {error.at + 1})") from None


def _line(line: Line) -> Line:
    """Return the line; _read_expressions() reads it, because expressions depend on preceding variables."""
    return line


class Template(Plugin):
    """Answers with rendered templates."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "match": Property(many(read_pattern), syntax="REGEXP...", repeat="extend"),
        "var": Property(_line, syntax="NAME EXPRESSION", repeat="collect"),
        "expr": Property(_line, syntax="EXPRESSION", repeat="collect"),
        "answer": Property(many(read_text), syntax="TEMPLATE...", repeat="extend"),
        "additional": Property(many(read_text), syntax="TEMPLATE...", repeat="extend"),
        "authority": Property(many(read_text), syntax="TEMPLATE...", repeat="extend"),
        "rcode": first(lambda token: token.parse(rcode_from_text), "CODE", Rcode.NOERROR),
        "ederror": words(ExtendedError, integer(0, 65535), word, syntax="CODE [REASON]"),
        "fallthrough": Property(read_fallthrough, default=(), syntax="[ZONES...]"),
        "upstream": Property(_line, syntax="[ADDRESS...]"),
    }

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        self._zones = tuple(dict.fromkeys(zone for rule in rules for zone in rule.zones))
        self.cacheable = not any(rule.has_expressions for rule in rules)

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read all `template CLASS TYPE [ZONES...] {...}` of the block, in file order."""
        return cls([read_rule(directive, block) for directive in directives])

    async def start(self, runtime: Runtime) -> None:
        """Keep the runtime, and register the metrics."""
        self._runtime = runtime
        labels = ("server", "zone", "view", "class", "type")
        failed, counter = (*labels, "section", "template"), runtime.metrics.counter
        self._matches = counter("coredns_template_matches_total", labels)
        self._failed_templates = counter("coredns_template_template_failures_total", failed)
        self._failed_records = counter("coredns_template_rr_failures_total", failed)

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """Return its zones within a zone; None if one of them contains the whole zone."""
        return zones_within(zone, self._zones)

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer from the first rule that matches."""
        if request.query.qname.longest_of(self._zones) is None:
            return await next(request)
        for rule in self._rules:
            found = rule.match(request)
            if found is Miss.SERVFAIL:
                return unwritten(Rcode.SERVFAIL)
            if isinstance(found, Hit):
                labels = (request.server, found.zone, request.view, found.rrclass, found.rrtype)
                self._matches.inc(labels)
                if rule.options["rcode"] == Rcode.SERVFAIL:
                    return unwritten(Rcode.SERVFAIL)
                try:
                    return await self._answer(request, rule, found, labels)
                except (TemplateError, ValueError) as error:
                    return unwritten(Rcode.SERVFAIL, f"plugin/template: {error}")
        return await next(request)

    async def _answer(
        self, request: Request, rule: Rule, hit: Hit, labels: tuple[str, ...]
    ) -> Reply:
        sections: dict[str, list[RR]] = {section: [] for section in SECTIONS}
        targets: list[Reply] = []
        is_truncated = False
        for section in SECTIONS:
            for text in rule.options[section]:
                record = self._record(text, hit, (*labels, section, str(text)))
                sections[section].append(record)
                if section == "answer" and _wants_target(request.query, record):
                    target = await self._lookup(request, record)
                    sections[section] += target.answer
                    is_truncated = target.tc
                    targets.append(target)
        reply = Reply(
            rcode=rule.options["rcode"],
            answer=tuple(sections["answer"]),
            authority=tuple(sections["authority"]),
            additional=tuple(sections["additional"]),
            aa=True,
            tc=is_truncated,
        )
        for target in targets:
            reply = reply.leading_to(target)
        error: ExtendedError | None = rule.options["ederror"]
        if error is None:
            return reply
        return with_extended_error(request.query, reply, *error)

    def _record(self, text: Text, hit: Hit, labels: tuple[str, ...]) -> RR:
        try:
            rendered = text.render(hit.data)
        except TemplateError:
            self._failed_templates.inc(labels)
            raise
        try:
            return record_from_text(rendered)
        except ValueError:
            self._failed_records.inc(labels)
            raise

    async def _lookup(self, request: Request, alias: RR) -> Reply:
        """Resolve the target of a CNAME record through this server, with the client's type, flags and EDNS."""
        return await self._runtime.resolve(request.nested(Name(alias.rdata), request.query.qtype))


def _wants_target(query: Query, record: RR) -> bool:
    return record.rrtype == RRType.CNAME and query.qtype in ADDRESSES


def read_rule(directive: Directive, block: Block) -> Rule:
    """Read one directive; raise CorefileError."""
    if len(directive.args) < 2:
        raise directive.error(
            f"template takes CLASS TYPE [ZONES...], found {len(directive.args)} arguments"
        )
    qclass = directive.args[0].parse(class_from_text)
    qtype = directive.args[1].parse(type_from_text)
    options = read_properties([directive], Template.PROPERTIES)
    if options["upstream"] is not None:
        place = options["upstream"].name.position
        block.warn(f'{place}: "upstream" of template has no effect, as in CoreDNS 1.14.7')
    zones = zones_from_args(directive.args[2:]) or block.zones
    return Rule(zones, qclass, qtype, *_read_expressions(directive), options)


def _read_expressions(directive: Directive) -> tuple[list[tuple[str, Any]], list[Any]]:
    """Compile `var` and `expr` in file order: each may use the preceding variables."""
    names: dict[str, Any] = {**NAMES, **GROUP}
    variables: list[tuple[str, Any]] = []
    conditions: list[Any] = []
    for line in directive.lines:
        if line.name.text == "expr":
            conditions.append(read_expression(line, line.args, names))
        elif line.name.text == "var":
            if len(line.args) < 2:
                raise line.error(
                    f'property "var" takes NAME EXPRESSION, found {len(line.args)} arguments'
                )
            name = line.args[0]
            if not (name.text.isascii() and name.text.isidentifier()):
                raise name.error(f'"{name.text}" is not a valid variable name')
            if name.text in _RESERVED or name.text in names:
                raise name.error(f'"{name.text}" is already defined; choose another name')
            program = read_expression(line, line.args[1:], names)
            names[name.text] = program.type
            variables.append((name.text, program))
    return variables, conditions
