"""Selects the addresses that a server block listens on.

Path: before step 1: server/transport/sockets.py asks for the addresses of a block when it opens the sockets.
Source: CoreDNS 1.14.7 plugin/bind.
Rule: the caller passes in the interfaces of the machine.  setup() only sees words, so one that is neither an address
      nor an interface is reported when the sockets are opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, ClassVar, NamedTuple, Self

from hsdns.corefile.properties import Property, many, read_properties
from hsdns.corefile.tree import Directive, Token, did_you_mean
from hsdns.plugin import Block, Plugin
from hsdns.wire import is_address

Address = IPv4Address | IPv6Address
Interfaces = Callable[[], Mapping[str, Sequence[str]]]  # name -> its addresses as text


class Choice(NamedTuple):
    """One `bind`: the addresses and interfaces to listen on, and the excepted ones."""

    words: tuple[Token, ...]
    excepted: tuple[Token, ...]


class Bind(Plugin):
    """Selects the addresses of its block."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "except": Property(many(lambda token: token), default=(), syntax="ADDRESS|INTERFACE..."),
    }

    def __init__(self, choices: Sequence[Choice]) -> None:
        self._choices = tuple(choices)

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Parse all `bind` of a block; their addresses are combined, each `bind` has its own `except`."""
        choices = []
        for directive in directives:
            if not directive.args:
                raise directive.error(
                    '"bind" names no address; give at least one IP address or interface'
                )
            options = read_properties([directive], cls.PROPERTIES)
            choices.append(Choice(directive.args, options["except"]))
        return cls(choices)

    def addresses(self, interfaces: Interfaces) -> tuple[str, ...]:
        """The addresses to listen on, in the order of the Corefile.

        Raises CorefileError for a word that is neither an address nor an interface, for an address that is there twice,
        with which CoreDNS does not start, and if no address is left.
        """
        interfaces = cache(interfaces)  # the system lists them, so it is asked once at most
        found: dict[Address, str] = {}
        for choice in self._choices:
            excepted = {address for _, address, _ in _addresses(choice.excepted, interfaces)}
            for word, address, text in _addresses(choice.words, interfaces):
                if address in found:
                    raise word.error(
                        f'"bind" has the address {text} twice, and CoreDNS does not start then; remove one'
                    )
                if address not in excepted:
                    found[address] = text
        if not found:
            first = self._choices[0].words[0]
            raise first.error(
                '"bind" leaves no address to listen on; name another one or shorten "except"'
            )
        return tuple(found.values())


def _addresses(words: Sequence[Token], interfaces: Interfaces) -> list[tuple[Token, Address, str]]:
    found = []
    for word in words:
        texts = [word.text]
        if not is_address(word.text) and word.text in interfaces():
            texts = [_with_zone(text, word.text) for text in interfaces()[word.text]]
        for text in texts:
            try:
                found.append((word, ip_address(text), text))
            except ValueError:
                raise word.error(
                    f'"{word.text}" is neither an IP address nor an interface of this machine'
                    f"{did_you_mean(word.text, interfaces())}"
                ) from None
    return found


def _with_zone(text: str, interface: str) -> str:
    """Add the interface to a link-local IPv6 address, which is ambiguous without it (RFC 4007 section 11)."""
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.is_link_local and address.scope_id is None:
        return f"{text}%{interface}"
    return text
