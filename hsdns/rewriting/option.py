"""Rules of `edns0` for the options in queries and in their replies.

Path: beside rule.py; option_syntax.py makes them.
Source: CoreDNS 1.14.7 plugin/rewrite edns0.go and wire.go; RFC 6891, RFC 7871 (client subnet), RFC 5001 (NSID).
Rule 1: a query without an OPT record gets one with 4,096 octets, even if no option is added.
Rule 2: a reply echoes the options of the rewritten query, of the kinds that are echoed; with `revert` the original
        ones.
Rule 3: no rule is pure: the client's address may matter, and the fast path echoes the options of the original query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from ipaddress import IPv4Address, ip_address
from typing import Final

from hsdns.chain import Request
from hsdns.rewriting.draft import Draft, Lookup, Record, ReplyRule
from hsdns.rewriting.match import AffectedNames
from hsdns.rewriting.rule import Step
from hsdns.wire.edns import Edns
from hsdns.wire.message import Query
from hsdns.wire.name import Name

PAYLOAD_SIZE: Final = 4096  # of an OPT record that a rule adds
Options = list[tuple[int, bytes]]
Data = Callable[[Query, Request], bytes | None]  # None: no data, so no option


class Action(Enum):
    """What to do if the option is present or absent."""

    SET = "set"
    APPEND = "append"
    REPLACE = "replace"
    UNSET = "unset"


class OptionReverted:
    """Undoes what a rule did to an option: restores the data that it replaced, or removes what it added (None)."""

    is_about_message = True

    def __init__(self, code: int, data: bytes | None) -> None:
        self._code, self._data = code, data

    def apply(self, draft: Draft, record: Record | None) -> Lookup | None:
        """Undo it in the reply's own OPT record."""
        if draft.options is not None:
            self.revert(draft.options)
        return None

    def revert(self, options: Options) -> None:
        """Change or remove the first option with the code."""
        at = _find(options, self._code)
        if at is not None:
            options[at : at + 1] = [] if self._data is None else [(self._code, self._data)]


class RewriteOption:
    """Sets, adds, replaces or removes an option.

    `data` makes its data, before the query is changed.  `is_single`: `append` adds nothing if the option is present.
    `echoed`: replies may contain its code.
    """

    is_pure = False

    def __init__(
        self,
        action: Action,
        code: int,
        data: Data,
        *,
        is_single: bool = False,
        echoed: bool = False,
        reverts: bool = False,
        stops: bool = True,
    ) -> None:
        self.stops, self.action, self.code, self.echoed = stops, action, code, echoed
        self._data, self._is_single, self._reverts = data, is_single, reverts

    def apply(self, query: Query, request: Request) -> Step:
        """Change the options of the query."""
        data = self._data(query, request)
        if data is None:
            return Step(query, is_done=False)
        edns = query.edns or Edns(PAYLOAD_SIZE)
        options: Options = list(edns.options)
        undo: ReplyRule | None = None
        at = _find(options, self.code)
        is_done = True
        if self.action is Action.UNSET:
            options = [option for option in options if option[0] != self.code]
        elif at is not None and self.action in (Action.SET, Action.REPLACE):
            undo = OptionReverted(self.code, options[at][1])
            options[at] = (self.code, data)
        elif self.action is Action.REPLACE or (at is not None and self._is_single):
            is_done = False
        else:
            undo = OptionReverted(self.code, None)
            options.append((self.code, data))
        changed = query.replace(edns=replace(edns, options=tuple(options)))
        return Step(changed, (undo,) if undo is not None and self._reverts else (), is_done)

    def affected_names(self, zone: Name) -> AffectedNames:
        """All."""
        return None


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
