"""Verifies TSIG-signed queries and signs their replies.

Path: step 5, before `rewrite` and all sources of answers; wire/tsig.py reads and signs the record.
Source: CoreDNS 1.14.7 plugin/tsig; RFC 8945.
Rule 1: later plugins see the query without its signature, and `forward` sends it unsigned.
Rule 2: every reply to a signed query is signed, refusals and failures included.
Cacheable: no, because each signature covers the query and the time, and unsigned queries may have to be refused.
"""

from __future__ import annotations

import binascii
import logging
import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns.chain import Next, Request
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import Property, many, one, only_once, read_properties, text
from hsdns.corefile.tree import Directive, Line, Position, Token
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.wire.iana import Rcode, type_from_text, type_to_text
from hsdns.wire.message import Reply
from hsdns.wire.name import Name
from hsdns.wire.tsig import NO_ERROR, BadRecord, ReplySigner, read_signature, verify

OPCODES: Final = {"QUERY": 0, "IQUERY": 1, "STATUS": 2, "NOTIFY": 4, "UPDATE": 5}
ALL: Final = "all"
NONE: Final = "none"
_WORDS: Final = re.compile(r'"[^"]*"|//[^\n]*|\#[^\n]*|/\*.*?\*/|[{};]|[^\s{};"]+', re.DOTALL)
log = logging.getLogger("hsdns.plugin.tsig")


class Secret(NamedTuple):
    """A key, its secret, and their position in the Corefile."""

    key: Name
    secret: bytes
    position: Position


class Required(NamedTuple):
    """The types or opcodes whose queries must be signed."""

    numbers: frozenset[int] = frozenset()
    everything: bool = False

    def includes(self, number: int) -> bool:
        """Whether queries of a type or opcode must be signed."""
        return self.everything or number in self.numbers


def _read_secret(line: Line) -> Secret:
    """Read `NAME KEY`."""
    name, key = many(lambda token: token, 2, 2)(line)
    return _secret(name.text, key.text, name.position)


def _secret(name: str, key: str, position: Position) -> Secret:
    try:
        owner = Name.from_text(name).lowered()
    except ValueError as error:
        raise position.error(f'"{name}" is not a key name: {error}') from None
    try:
        return Secret(owner, b64decode(key, validate=True), position)
    except binascii.Error:
        raise position.error(
            f'the secret of key "{name}" is not base64; make one with tsig-keygen'
        ) from None


def _read_required(known: Any) -> Any:
    """Return a reader of `all`, `none` or a list of types or opcodes."""

    def read(line: Line) -> Required:
        tokens = many(lambda token: token)(line)
        if tokens[0].text in (ALL, NONE):
            return Required(everything=tokens[0].text == ALL)
        return Required(frozenset(known(token) for token in tokens))

    return read


@dataclass(eq=False, repr=False)
class Tsig(Plugin):
    """Verifies queries and signs replies."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "secret": Property(_read_secret, syntax="NAME KEY", repeat="collect"),
        "secrets": Property(lambda line: _read_file(line), syntax="FILE", repeat="extend"),
        "require": Property(
            _read_required(lambda token: token.parse(type_from_text)),
            default=Required(),
            syntax="all|none|QTYPE...",
        ),
        "require_opcode": Property(
            _read_required(lambda token: OPCODES[token.one_of(OPCODES)]),
            default=Required(),
            syntax="all|none|OPCODE...",
        ),
    }

    zones: tuple[Name, ...]
    secrets: dict[Name, bytes]
    types: Required
    opcodes: Required

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `tsig [ZONE...]` and the files with secrets."""
        directive = only_once(directives)
        options = read_properties(directives, cls.PROPERTIES)
        secrets: dict[Name, bytes] = {}
        for secret in (*options["secret"], *options["secrets"]):
            if secret.key in secrets:
                raise secret.position.error(f'key "{secret.key.to_text()}" already has a secret')
            secrets[secret.key] = secret.secret
        if not secrets:
            block.warn(
                f"{directive.name.position}: tsig has no secret, so it cannot verify any signed query"
            )
        zones = zones_from_args(directive.args) or block.zones
        return cls(zones, secrets, options["require"], options["require_opcode"])

    async def start(self, runtime: Runtime) -> None:
        """Keep the runtime for its wall clock."""
        self._runtime = runtime

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Verify a signed query and sign its reply; refuse an unsigned query that must be signed."""
        query = request.query
        if not any(query.qname.is_at_or_below(zone) for zone in self.zones):
            return await next(request)
        try:
            found = read_signature(query.whole)
        except BadRecord as reason:
            return Reply(rcode=Rcode.FORMERR, error=f"malformed TSIG record: {reason}")
        if found is None:
            if self.types.includes(query.qtype) or self.opcodes.includes(query.opcode):
                log.debug(
                    "plugin/tsig: rejecting %s request without TSIG", type_to_text(query.qtype)
                )
                return Reply(rcode=Rcode.REFUSED)
            return await next(request)
        wall = self._runtime.wall
        error = verify(query.whole, found, self.secrets, int(wall()))
        signer = ReplySigner(found, self.secrets.get(found.key), error, wall)
        if error != NO_ERROR:
            log.debug(
                "plugin/tsig: TSIG validation failed: %s %d", type_to_text(query.qtype), error
            )
            return Reply(rcode=Rcode.NOTAUTH, sign=signer)
        reply = await next(request)
        return reply if reply.dropped else reply.replace(sign=signer, written=True)


def _read_file(line: Line) -> list[Secret]:
    """Read the `key` statements of a file in the format of named.conf(5); algorithms are ignored."""
    token = one(lambda token: token)(line)
    try:
        with open(text(token), encoding="utf-8", errors="replace") as file:
            content = file.read()
    except OSError as error:
        raise token.error(f'cannot read secrets from "{token.text}": {error.strerror}') from None
    words = [
        word.strip('"')
        for word in _WORDS.findall(content)
        if not word.startswith(("//", "#", "/*"))
    ]
    found: list[Secret] = []
    while words:
        found.append(_read_key(words, token))
    return found


def _read_key(words: list[str], token: Token) -> Secret:
    """Remove one `key NAME { algorithm A; secret S; };` from the words of a file and return its secret."""
    key, secret = "", ""
    try:
        if words.pop(0) != "key":
            raise ValueError
        key = words.pop(0)
        if words.pop(0) != "{":
            raise ValueError
        while (word := words.pop(0)) != "}":
            if word not in ("algorithm", "secret", ";"):
                raise ValueError
            if word == "secret":
                secret = words.pop(0)
            elif word == "algorithm":
                words.pop(0)
        if not secret:
            raise ValueError
    except (IndexError, ValueError):
        raise token.error(
            f'syntax error in "{token.text}" near key "{key}"; expected: key "NAME" {{ secret "KEY"; }};'
        ) from None
    if words and words[0] == ";":
        words.pop(0)
    return _secret(key, secret, token.position)
