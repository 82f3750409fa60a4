"""Logs queries and their replies.

Path: step 5, after `errors` and before all plugins that change queries, so lines contain the names that clients sent.
Source: CoreDNS 1.14.7 plugin/log, plugin/pkg/replacer, plugin/pkg/response.
Rule 1: the first rule whose name contains the queried name applies; its classes decide whether a line is logged.
Rule 2: a format is compiled once, at setup; a line costs one call per placeholder.
Cacheable: unless a format contains {local} or metadata.  Hits of the answer table are logged slightly later; if there
are more than can be written, the rest is counted.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.chain import Next, Request
from hsdns.corefile.keys import read_name
from hsdns.corefile.properties import Property, choice, many, read_properties
from hsdns.corefile.tree import Directive
from hsdns.fastpath import LogRecord
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.wire.encode import MAX_TCP_LEN, is_truncated, reply_size, udp_limit
from hsdns.wire.iana import Rcode, class_to_text, rcode_to_text, type_to_text
from hsdns.wire.message import AA, AD, CD, RA, RD, TC, Outcome, Reply, outcome, reply_flags
from hsdns.wire.name import ROOT, Name

LOGGER: Final = "hsdns.plugin.log"  # for lines about queries
LINES: Final = "lines"  # attribute of a log record that stands for this many lines
_log = logging.getLogger(LOGGER)

COMMON: Final = (
    "{remote}:{port} - {>id}"
    ' "{type} {class} {name} {proto} {size} {>do} {>bufsize}" {rcode} {>rflags} {rsize} {duration}'
)
COMBINED: Final = COMMON + ' "{>opcode}"'
EMPTY: Final = "-"
_FLAGS: Final = ((AA, "aa"), (TC, "tc"), (RD, "rd"), (RA, "ra"), (AD, "ad"), (CD, "cd"))
_CLASSES: Final = {
    "all": frozenset(Outcome),
    "success": frozenset({Outcome.POSITIVE, Outcome.DELEGATION}),
    "denial": frozenset({Outcome.NXDOMAIN, Outcome.NODATA}),
    "error": frozenset({Outcome.SERVER_ERROR, Outcome.META, Outcome.OTHER_ERROR}),
}
# The class of a hit without an answer, by rcode; for replies with another class, the answer table has no entries.
_WITHOUT_ANSWER: Final[dict[int, Outcome]] = {
    Rcode.NOERROR: Outcome.NODATA,
    Rcode.SERVFAIL: Outcome.SERVER_ERROR,
    Rcode.NXDOMAIN: Outcome.NXDOMAIN,
    Rcode.NOTIMP: Outcome.SERVER_ERROR,
}
# Stands for any line; the filter of cli/launch.py does not read the text.
_ANY: Final = logging.LogRecord(LOGGER, logging.INFO, "", 0, "", (), None)
# Values of the labels log/class and log/type, as in CoreDNS.
_CLASS_OF: Final = {
    outcome: word for word, found in _CLASSES.items() if word != "all" for outcome in found
}
_TYPES: Final = {
    **{outcome: outcome.name.replace("_", "") for outcome in Outcome},
    Outcome.POSITIVE: "NOERROR",
}


class Exchange(NamedTuple):
    """A query and its reply, `seconds` later; `reply` is None if none is sent.

    If the answer table has sent the reply, `hit` describes it.
    """

    request: Request
    reply: Reply | None
    seconds: float
    hit: LogRecord | None = None


class _Line(NamedTuple):
    """A line that is formatted when it is written, and never if nobody reads the log (server/query_log.py)."""

    form: Callable[[Exchange], str]
    exchange: Exchange

    def __str__(self) -> str:
        return self.form(self.exchange)


class Rule(NamedTuple):
    """A selection of queries to log, and their format."""

    zone: Name
    outcomes: frozenset[Outcome]
    line: Callable[[Exchange], str]
    cacheable: bool = True  # whether a hit of the answer table has all values of the line


class Log(Plugin):
    """Logs queries."""

    skips_recompute = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "class": Property(
            many(choice(*_CLASSES)), syntax="all|success|denial|error...", repeat="extend"
        ),
    }

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = tuple(rules)
        self.cacheable = all(rule.cacheable for rule in rules)
        self.logs_all = any(
            rule.zone == ROOT and rule.outcomes == _CLASSES["all"] for rule in self._rules[:1]
        )

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read all `log [NAMES...] [FORMAT]` of the block, in file order."""
        rules = []
        for directive in directives:
            classes = read_properties([directive], cls.PROPERTIES)["class"]
            outcomes = frozenset().union(*(_CLASSES[word] for word in classes or ["all"]))
            names, form = _names_and_format(directive, block)
            line = compile_format(form)
            # The answer table does not report the server's address, nor metadata about the client.
            cacheable = "{local}" not in form and (
                "{/" not in form or "metadata" not in block.plugins
            )
            rules += [Rule(zone, outcomes, line, cacheable) for zone in names]
        return cls(rules)

    async def start(self, runtime: Runtime) -> None:
        """Store the runtime's clocks."""
        self._clock = runtime.clock
        self._wall = runtime.wall

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass the query on, and log it with its reply."""
        rule = self._rule_of(request)
        if rule is None:
            return await next(request)
        reply = await next(request)
        sent = None if reply.dropped else reply
        found = outcome(request.query, sent, self._wall)
        if request.metadata is not None:
            request.metadata["log/type"] = lambda: _TYPES[found]
            request.metadata["log/class"] = lambda: _CLASS_OF[found]
        if found in rule.outcomes and not self.drop_lines():
            _log.info(_Line(rule.line, Exchange(request, sent, self._clock() - request.now)))
        return reply

    @staticmethod
    def drop_lines(count: int = 1) -> bool:
        """While nobody reads the log, count lines as lost and return True; otherwise do nothing."""
        record = _ANY if count == 1 else logging.makeLogRecord({"name": LOGGER, LINES: count})
        return not _log.isEnabledFor(logging.INFO) or not _log.filter(record)

    def log_hit(self, request: Request, hit: LogRecord) -> None:
        """Log a query that the answer table has answered."""
        rule = self._rule_of(request)
        if rule is None:
            return
        found = Outcome.POSITIVE if hit.answers else _WITHOUT_ANSWER[hit.flags & 15]
        if found in rule.outcomes and not self.drop_lines():
            _log.info(_Line(rule.line, Exchange(request, None, hit.seconds, hit)))

    def _rule_of(self, request: Request) -> Rule | None:
        qname = request.query.qname
        for rule in self._rules:
            if qname.is_at_or_below(rule.zone):
                return rule
        return None


def _names_and_format(directive: Directive, block: Block) -> tuple[list[Name], str]:
    args, form = directive.args, COMMON
    if len(args) > 1 and "{" in args[-1].text:
        args, form = args[:-1], args[-1].text
        if "{/" in form and "metadata" not in block.plugins:
            block.warn(
                f'{directive.args[-1].position}: placeholders that begin with "{{/" are logged as "-"'
                " without metadata in the block; add metadata"
            )
    elif len(args) == 1 and "{" in args[0].text:
        block.warn(
            f'{args[0].position}: "{args[0].text}" is parsed as a name, not as a format;'
            ' to log all names in this format, write "log . FORMAT"'
        )
    return [read_name(token) for token in args] or [ROOT], form


def compile_format(form: str) -> Callable[[Exchange], str]:
    """Compile a format to a function; unknown placeholders are logged unchanged."""
    form = form.replace("{common}", COMMON).replace("{combined}", COMBINED)
    pieces: list[str] = []
    fields: list[Callable[[Exchange], str]] = []
    at = 0
    # A placeholder contains no braces: `{ {name} }` contains one, `{name}`.
    for found in re.finditer(r"\{([^{}]*)\}", form):
        word = found[1]
        field = _FIELDS.get(word) or (_metadata(word[1:]) if word.startswith("/") else None)
        if field is not None:
            pieces.append(form[at : found.start()].replace("%", "%%"))
            fields.append(field)
            at = found.end()
    template = "%s".join([*pieces, form[at:].replace("%", "%%")])
    getters = tuple(fields)
    return lambda exchange: template % tuple([field(exchange) for field in getters])


def _metadata(label: str) -> Callable[[Exchange], str]:
    def show(exchange: Exchange) -> str:
        known = exchange.request.metadata
        value = known.get(label) if known is not None else None
        return value() if value is not None else EMPTY

    return show


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _bufsize(exchange: Exchange) -> str:
    request = exchange.request
    return str(MAX_TCP_LEN if request.protocol == "tcp" else udp_limit(request.query))


def _rcode(exchange: Exchange) -> str:
    if exchange.hit is not None:
        return rcode_to_text(exchange.hit.flags & 15)
    reply = exchange.reply
    return EMPTY if reply is None else rcode_to_text(reply.rcode).removeprefix("RCODE")


def _rflags(exchange: Exchange) -> str:
    query, reply = exchange.request.query, exchange.reply
    if exchange.hit is not None:
        flags = exchange.hit.flags
    elif reply is None:
        return EMPTY
    else:
        is_cut = is_truncated(query, reply, exchange.request.protocol)
        flags = reply_flags(query, reply, is_cut=is_cut)
    return ",".join(["qr", *(word for bit, word in _FLAGS if flags & bit)])


def _rsize(exchange: Exchange) -> str:
    if exchange.hit is not None:
        return str(exchange.hit.size)
    reply = exchange.reply
    return "0" if reply is None else str(reply_size(exchange.request.query, reply))


def _duration(exchange: Exchange) -> str:
    return f"{exchange.seconds:.9f}".rstrip("0").rstrip(".") + "s"


_FIELDS: Final[dict[str, Callable[[Exchange], str]]] = {
    "type": lambda exchange: type_to_text(exchange.request.query.qtype),
    "name": lambda exchange: exchange.request.query.qname.lowered().to_text(),
    "class": lambda exchange: class_to_text(exchange.request.query.qclass),
    "proto": lambda exchange: exchange.request.protocol,
    "size": lambda exchange: str(exchange.request.query.size),
    "remote": lambda exchange: _bracketed(exchange.request.client.address),
    "port": lambda exchange: str(exchange.request.client.port),
    "local": lambda exchange: _bracketed(exchange.request.local.address),
    ">id": lambda exchange: str(exchange.request.query.id),
    ">opcode": lambda exchange: str(exchange.request.query.opcode),
    ">do": lambda exchange: "true" if exchange.request.query.do else "false",
    ">bufsize": _bufsize,
    "rcode": _rcode,
    "rsize": _rsize,
    "duration": _duration,
    ">rflags": _rflags,
}
