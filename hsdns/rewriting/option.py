"""Rules of `edns0` for the options in queries and in their replies, and the parser for their arguments.

Path: beside rule.py; plugins/rewrite.py reads them with read_option().
Source: CoreDNS 1.14.7 plugin/rewrite edns0.go and wire.go; RFC 6891, RFC 7871 (client subnet), RFC 5001 (NSID).
Rule 1: a query without an OPT record gets one with 4,096 octets, even if no option is added.
Rule 2: a reply echoes the options of the rewritten query, of the kinds that are echoed; with `revert` the original
        ones.
Rule 3: no rule is pure: the client's address may matter, and the fast path echoes the options of the original query.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, ip_address
from typing import ClassVar, Final

from hsdns.chain import Request
from hsdns.corefile.tree import Token, did_you_mean
from hsdns.rewriting.rule import Draft, ReplyRule, Rule, Step
from hsdns.wire.edns import Edns
from hsdns.wire.iana import OptCode
from hsdns.wire.message import Query

PAYLOAD_SIZE: Final = 4096  # of an OPT record that a rule adds
Options = list[tuple[int, bytes]]
Data = Callable[[Query, Request], bytes | None]  # None: no data, so no option


# What to do if the option is present or absent.
SET: Final = "set"
APPEND: Final = "append"
REPLACE: Final = "replace"
UNSET: Final = "unset"


@dataclass
class OptionReverted(ReplyRule):
    """Undoes what a rule did to an option: restores the data that it replaced, or removes what it added (None)."""

    code: int
    data: bytes | None

    def change_message(self, draft: Draft) -> None:
        """Undo it in the reply's own OPT record."""
        if draft.options is not None:
            self.revert(draft.options)

    def revert(self, options: Options) -> None:
        """Change or remove the first option with the code."""
        at = _find(options, self.code)
        if at is not None:
            options[at : at + 1] = [] if self.data is None else [(self.code, self.data)]


@dataclass
class RewriteOption(Rule):
    """Sets, adds, replaces or removes an option.

    `data` makes its data, before the query is changed.  `is_single`: `append` adds nothing if the option is present.
    `echoed`: replies may contain its code.
    """

    is_pure: ClassVar[bool] = False

    action: str
    code: int
    data: Data
    is_single: bool = False
    echoed: bool = False
    reverts: bool = False
    stops: bool = True

    def apply(self, query: Query, request: Request) -> Step:
        """Change the options of the query."""
        data = self.data(query, request)
        if data is None:
            return Step(query, is_done=False)
        edns = query.edns or Edns(PAYLOAD_SIZE)
        options: Options = list(edns.options)
        undo: ReplyRule | None = None
        at = _find(options, self.code)
        is_done = True
        if self.action == UNSET:
            options = [option for option in options if option[0] != self.code]
        elif at is not None and self.action in (SET, REPLACE):
            undo = OptionReverted(self.code, options[at][1])
            options[at] = (self.code, data)
        elif self.action == REPLACE or (at is not None and self.is_single):
            is_done = False
        else:
            undo = OptionReverted(self.code, None)
            options.append((self.code, data))
        changed = query.replace(edns=replace(edns, options=tuple(options)))
        return Step(changed, (undo,) if undo is not None and self.reverts else (), is_done)


def constant(data: bytes) -> Data:
    """Return a constant."""
    return lambda query, request: data


def subnet(ipv4_bits: int, ipv6_bits: int) -> Data:
    """Return the client's network with as many bits of its address as given (RFC 7871 section 6)."""

    def data(query: Query, request: Request) -> bytes:
        address = ip_address(request.client.address.partition("%")[0])
        family, bits = (1, ipv4_bits) if isinstance(address, IPv4Address) else (2, ipv6_bits)
        kept = int(address) >> (address.max_prefixlen - bits) << (address.max_prefixlen - bits)
        octets = kept.to_bytes(address.max_prefixlen // 8, "big")[: (bits + 7) // 8]
        return family.to_bytes(2, "big") + bytes((bits, 0)) + octets

    return data


def _address(text: str) -> bytes:
    return ip_address(text.partition("%")[0]).packed


# The values of `{word}`, as octets.
VARIABLES: Final[dict[str, Data]] = {
    "qname": lambda query, request: query.qname.to_text().encode(),
    "qtype": lambda query, request: query.qtype.to_bytes(2, "big"),
    "client_ip": lambda query, request: _address(request.client.address),
    "client_port": lambda query, request: request.client.port.to_bytes(2, "big"),
    "protocol": lambda query, request: request.protocol.encode(),
    "server_ip": lambda query, request: _address(request.local.address),
    "server_port": lambda query, request: request.local.port.to_bytes(2, "big"),
}


def metadata(label: str) -> Data:
    """Return the metadata with a label such as `kubernetes/namespace`."""

    def data(query: Query, request: Request) -> bytes | None:
        found = (request.metadata or {}).get(label)
        value = found() if found is not None else ""
        return value.encode("utf-8", "surrogateescape") or None

    return data


def reverted(edns: Edns, undo: tuple[ReplyRule, ...]) -> Edns:
    """Return the OPT record that the reply to a query echoes."""
    options: Options = list(edns.options)
    for rule in reversed(undo):
        if isinstance(rule, OptionReverted):
            rule.revert(options)
    return replace(edns, options=tuple(options))


def _find(options: Options, code: int) -> int | None:
    return next((at for at, option in enumerate(options) if option[0] == code), None)


# The arguments after `KIND ACTION`: in general, and for `unset`.
_EDNS0_ARGUMENTS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "local": (("CODE", "DATA"), ("CODE",)),
    "nsid": ((), ()),
    "subnet": (("IPV4-BITS", "IPV6-BITS"), ()),
}


def read_option(words: Sequence[Token], stops: bool) -> RewriteOption:
    """Parse `KIND ACTION ...` (at least two words); raise CorefileError."""
    kind, verb, arguments = words[0], words[1], words[2:]
    name = kind.one_of(_EDNS0_ARGUMENTS, ignore_case=True)
    action = verb.one_of((SET, APPEND, REPLACE, UNSET), ignore_case=True)
    reverts = action != UNSET and bool(arguments) and arguments[-1].text == "revert"
    if reverts:
        arguments = arguments[:-1]
    wanted = _EDNS0_ARGUMENTS[name][action == UNSET]
    if len(arguments) != len(wanted):
        raise verb.error(
            f'"{kind.text} {verb.text}" takes {" ".join(wanted) or "no argument"}, found {len(arguments)} arguments'
        )
    code, data, is_single = int(OptCode.NSID), constant(b""), False
    if name == "local":
        code = _number(arguments[0], 0xFFFF, "an option code; write 0 to 65535 or 0x0 to 0xffff")
        if len(arguments) > 1:
            data, is_single = _data(arguments[1])
    elif name == "subnet":
        code, is_single = int(OptCode.SUBNET), True
        if arguments:
            data = subnet(_bits(arguments[0], 32), _bits(arguments[1], 128))
    return RewriteOption(action, code, data, is_single, name == "local", reverts, stops)


def _bits(token: Token, most: int) -> int:
    return _number(token, most, f"a prefix length; allowed is 0 to {most}")


def _number(token: Token, most: int, wanted: str) -> int:
    """Parse a number in Go's syntax (decimal, 0x, 0o, 0b, or octal after a zero); raise CorefileError."""
    text = token.text
    if re.fullmatch("[0-9A-Za-z_]{1,40}", text):
        with suppress(ValueError):
            value = int(text, 8) if re.fullmatch("0[0-7_]+", text) else int(text, 0)
            if value <= most:
                return value
    raise token.error(f'"{text}" is not {wanted}')


def _data(token: Token) -> tuple[Data, bool]:
    """Return the data of a local option, and whether it is a variable, which is only added if the option is absent."""
    text = token.text
    if text.startswith("{") and text.endswith("}"):
        word = text[1:-1]
        if word in VARIABLES:
            return VARIABLES[word], True
        namespace, _, name = word.partition("/")
        if not namespace or not name:
            raise token.error(
                f'"{text}" is not a variable; variables are {", ".join(VARIABLES)} and metadata labels such as '
                f"plugin/name{did_you_mean(word, VARIABLES)}"
            )
        return metadata(word), True
    if text.startswith("0x"):
        if not re.fullmatch("([0-9A-Fa-f]{2})*", text[2:]):
            raise token.error(f'"{text}" is not hexadecimal; write two digits per octet')
        return constant(bytes.fromhex(text[2:])), False
    return constant(text.encode("utf-8", "surrogateescape")), False
