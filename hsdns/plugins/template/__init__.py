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
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.chain import Next, Request
from hsdns.corefile.keys import read_fallthrough, zones_from_args
from hsdns.corefile.properties import Property, integer, many, one, read_pattern, read_properties
from hsdns.corefile.tree import Directive, Line, Token
from hsdns.expression.builtins import BUILTINS, REFUSED
from hsdns.expression.corefile import read_expression
from hsdns.expression.lexer import WORDS
from hsdns.expression.parser import PREDICATES
from hsdns.expression.queries import NAMES
from hsdns.gotemplate.evaluate import Template as Text
from hsdns.gotemplate.fault import TemplateError
from hsdns.metrics import Counter, Registry
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.template.rule import GROUP, Hit, Miss, Rule
from hsdns.wire.extended_error import with_extended_error
from hsdns.wire.iana import Rcode, RRType, class_from_text, rcode_from_text, type_from_text
from hsdns.wire.message import RR, Query, Reply, unwritten
from hsdns.wire.name import Name
from hsdns.wire.record_text import record_from_text

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


def read_error(line: Line) -> tuple[int, str]:
    """Read `ederror CODE [TEXT]`."""
    if not 1 <= len(line.args) <= 2:
        raise line.error(
            f'property "ederror" takes CODE [REASON], found {len(line.args)} arguments'
        )
    code = integer(0, 65535)(line.args[0])
    return code, line.args[1].text if len(line.args) > 1 else ""


def _line(line: Line) -> Line:
    """Return the line; _read_expressions() reads it, because expressions depend on preceding variables."""
    return line


class Template(Plugin):
    """Answers with rendered templates."""

    name: ClassVar[str] = "template"
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "match": Property(many(read_pattern), syntax="REGEXP...", repeat="extend"),
        "var": Property(_line, syntax="NAME EXPRESSION", repeat="collect"),
        "expr": Property(_line, syntax="EXPRESSION", repeat="collect"),
        "answer": Property(many(read_text), syntax="TEMPLATE...", repeat="extend"),
        "additional": Property(many(read_text), syntax="TEMPLATE...", repeat="extend"),
        "authority": Property(many(read_text), syntax="TEMPLATE...", repeat="extend"),
        "rcode": Property(
            one(lambda token: token.parse(rcode_from_text)), default=Rcode.NOERROR, syntax="CODE"
        ),
        "ederror": Property(read_error, syntax="CODE [REASON]"),
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
        self._counts = counters(runtime.metrics)

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """Return its zones within a zone; None if one of them contains the whole zone."""
        if any(zone.is_at_or_below(own) for own in self._zones):
            return None
        return tuple(own for own in self._zones if own.is_at_or_below(zone))

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
                self._counts.matches.inc(labels)
                if rule.rcode == Rcode.SERVFAIL:
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
            for text in rule.sections[section]:
                record = self._record(text, hit, (*labels, section, str(text)))
                sections[section].append(record)
                if section == "answer" and _wants_target(request.query, record):
                    target = await self._lookup(request, record)
                    sections[section] += target.answer
                    is_truncated = target.tc
                    targets.append(target)
        reply = Reply(
            rcode=rule.rcode,
            answer=tuple(sections["answer"]),
            authority=tuple(sections["authority"]),
            additional=tuple(sections["additional"]),
            aa=True,
            tc=is_truncated,
        )
        for target in targets:
            reply = reply.leading_to(target)
        if rule.error is None:
            return reply
        return with_extended_error(request.query, reply, *rule.error)

    def _record(self, text: Text, hit: Hit, labels: tuple[str, ...]) -> RR:
        try:
            rendered = text.render(hit.data)
        except TemplateError:
            self._counts.templates.inc(labels)
            raise
        try:
            return record_from_text(rendered)
        except ValueError:
            self._counts.records.inc(labels)
            raise

    async def _lookup(self, request: Request, alias: RR) -> Reply:
        """Resolve the target of a CNAME record through this server, with the client's type, flags and EDNS."""
        return await self._runtime.resolve(request.nested(Name(alias.rdata), request.query.qtype))


def _wants_target(query: Query, record: RR) -> bool:
    return record.rrtype == RRType.CNAME and query.qtype in (RRType.A, RRType.AAAA)


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
    variables, conditions = _read_expressions(directive)
    return Rule(
        zones_from_args(directive.args[2:]) or block.zones,
        qclass,
        qtype,
        tuple(options["match"]),
        tuple(variables),
        tuple(conditions),
        {section: tuple(options[section]) for section in SECTIONS},
        options["rcode"],
        options["ederror"],
        options["fallthrough"],
    )


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


class Counters(NamedTuple):
    """The metrics of the plugin."""

    matches: Counter
    templates: Counter
    records: Counter


def counters(metrics: Registry) -> Counters:
    """Return the counters of matches, of failed templates and of texts that are not records."""
    labels = ("server", "zone", "view", "class", "type")
    failed = (*labels, "section", "template")
    return Counters(
        metrics.counter(
            "coredns_template_matches_total", "Counter of template regex matches.", labels
        ),
        metrics.counter(
            "coredns_template_template_failures_total", "Counter of go template failures.", failed
        ),
        metrics.counter(
            "coredns_template_rr_failures_total", "Counter of mis-templated RRs.", failed
        ),
    )
