"""The file of `loadbalance weighted`: how often each address of a name is to come first.

Path: plugins/loadbalance.py reads it at the start and whenever its content has changed.
Source: CoreDNS 1.14.7 plugin/loadbalance/weighted.go.

    # a comment
    www.example.org
    192.0.2.1 3
    192.0.2.2 1

Rule 1: a name opens its lines of addresses and weights, 1 to 255; an address that is not listed has weight 1.
"""

from __future__ import annotations

import asyncio
import logging
import re
from asyncio import sleep
from collections.abc import Sequence
from random import Random
from typing import Final

from hsdns.chain import Runtime
from hsdns.cluster.address import pack_address
from hsdns.corefile.tree import CorefileError, Position
from hsdns.wire.message import RR
from hsdns.wire.name import Name

DEFAULT: Final = 1
LARGEST: Final = 255

log = logging.getLogger("hsdns.plugin.loadbalance")


class BadWeights(ValueError):
    """A sentence that begins with the line's number."""


class Weights:
    """Weights by name and address."""

    def __init__(self, text: str = "") -> None:
        """Read the file's content; raise BadWeights."""
        self._weights: dict[bytes, dict[bytes, int]] = {}
        current: dict[bytes, int] | None = None
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) == 1:
                current = self._weights.setdefault(_name(words[0], number).lower, {})
            elif len(words) == 2:
                address, weight = _address(words[0], number), _weight(words[1], number)
                if current is None:
                    raise BadWeights(
                        f"{number}: no name stands above this address; write one on a line of its own"
                    )
                current.setdefault(address, weight)  # of two the first one counts
            else:
                raise BadWeights(
                    f"{number}: {len(words)} words; write a name, or an address and its weight"
                )

    def __len__(self) -> int:
        """How many names have weights."""
        return len(self._weights)

    def first(self, addresses: Sequence[RR], random: Random) -> int:
        """Draw which of some A and AAAA records, at least one, comes first."""
        weights = [self._weights.get(rr.owner.lower, {}).get(rr.rdata, DEFAULT) for rr in addresses]
        return random.choices(range(len(addresses)), weights)[0]


class WeightsFile:
    """The file, looked at again every `reload` seconds (0: never); `position` is where the Corefile names it."""

    def __init__(self, path: str, reload: float, position: Position) -> None:
        self.weights = Weights()
        self._path = path
        self._reload = reload
        self._position = position
        self._text: str | None = None

    async def start(self, runtime: Runtime) -> None:
        """Read it, and begin to look at it; raise CorefileError, but not for a file that may still come."""
        try:
            self._use(self._read())
        except OSError as error:
            if not self._reload:
                raise CorefileError(self._position, self._unreadable(error)) from error
            log.warning(
                "plugin/loadbalance: %s; trying again every %g seconds",
                self._unreadable(error),
                self._reload,
            )
        except BadWeights as error:
            raise CorefileError(self._position, f"{self._path}:{error}") from error
        if self._reload:
            runtime.spawn(self._watch(), "loadbalance")

    async def _watch(self) -> None:
        while True:
            await sleep(self._reload)
            try:
                self._use(await asyncio.to_thread(self._read))
            except OSError as error:
                log.error("plugin/loadbalance: %s", self._unreadable(error))
            except BadWeights as error:
                log.error(
                    "plugin/loadbalance: %s:%s; still using the previous weights", self._path, error
                )

    def _read(self) -> tuple[str, Weights] | None:
        """What it says; None where that is what it said before.  Called in a thread, it changes nothing."""
        with open(self._path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        return None if text == self._text else (text, Weights(text))

    def _use(self, found: tuple[str, Weights] | None) -> None:
        if found is not None:
            self._text, self.weights = found
            log.info("plugin/loadbalance: Successfully reloaded weight file %s", self._path)

    def _unreadable(self, error: OSError) -> str:
        return f'weight file "{self._path}" cannot be read: {error.strerror}'


def _name(word: str, number: int) -> Name:
    if pack_address(word) is not None:
        raise BadWeights(f'{number}: "{word}" is an address without a weight; write one behind it')
    try:
        return Name.from_text(word)
    except ValueError as error:
        raise BadWeights(f'{number}: "{word}" is no name: {error}') from None


def _address(word: str, number: int) -> bytes:
    address = pack_address(word)
    if address is None:
        raise BadWeights(f'{number}: "{word}" is no address')
    return address


def _weight(word: str, number: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", word) or not 1 <= int(word) <= LARGEST:
        raise BadWeights(f'{number}: "{word}" is no weight; write a number from 1 to {LARGEST}')
    return int(word)
