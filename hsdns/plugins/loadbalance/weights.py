"""The weight file of `loadbalance weighted`: how often each address of a name comes first.

Path: plugins/loadbalance reads it at startup and when its content has changed.
Source: CoreDNS 1.14.7 plugin/loadbalance/weighted.go.

    # a comment
    www.example.org
    192.0.2.1 3
    192.0.2.2 1

Rule 1: a name is followed by its addresses and their weights, 1 to 255; an address that is not listed has weight 1.
"""

from __future__ import annotations

import asyncio
import logging
import re
from asyncio import sleep
from collections.abc import Sequence
from random import Random
from typing import Final

from hsdns.cluster.address import pack_address
from hsdns.corefile.tree import Position
from hsdns.plugin import Runtime
from hsdns.turns import listed
from hsdns.wire.message import RR
from hsdns.wire.name import Name

DEFAULT: Final = 1
LARGEST: Final = 255

log = logging.getLogger("hsdns.plugin.loadbalance")


class BadWeights(ValueError):
    """An error in the weight file; the message begins with the line number."""


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
                        f"{number}: no name precedes this address; write one on a line of its own"
                    )
                current.setdefault(address, weight)  # of two weights the first takes effect
            else:
                raise BadWeights(
                    f"{number}: found {len(words)} words; write a name, or an address and its weight"
                )

    def __len__(self) -> int:
        """Return the number of names."""
        return len(self._weights)

    async def first(self, addresses: Sequence[RR], random: Random) -> int:
        """Select at random which of some A and AAAA records, at least one, comes first."""
        known = self._weights
        weights = await listed(
            known.get(rr.owner.lower, {}).get(rr.rdata, DEFAULT) for rr in addresses
        )
        return random.choices(range(len(addresses)), weights)[0]


class WeightsFile:
    """The file, read again every `reload` seconds (0: never); `position` is that of its name in the Corefile."""

    def __init__(self, path: str, reload: float, position: Position) -> None:
        self.weights = Weights()
        self._path = path
        self._reload = reload
        self._position = position
        self._text: str | None = None

    async def start(self, runtime: Runtime) -> None:
        """Read the file, and start checking it; raise CorefileError, but not for a missing file that is read again."""
        try:
            self._use(self._read())
        except OSError as error:
            if not self._reload:
                raise self._position.error(self._unreadable(error)) from error
            log.warning(
                "plugin/loadbalance: %s; trying again every %g seconds",
                self._unreadable(error),
                self._reload,
            )
        except BadWeights as error:
            raise self._position.error(f"{self._path}:{error}") from error
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
        """Return the content and its weights, None if unchanged.  Called in a thread; changes no state."""
        with open(self._path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        return None if text == self._text else (text, Weights(text))

    def _use(self, found: tuple[str, Weights] | None) -> None:
        if found is not None:
            self._text, self.weights = found
            log.info("plugin/loadbalance: Successfully reloaded weight file %s", self._path)

    def _unreadable(self, error: OSError) -> str:
        return f'cannot read weight file "{self._path}": {error.strerror}'


def _name(word: str, number: int) -> Name:
    if pack_address(word) is not None:
        raise BadWeights(f'{number}: "{word}" is an address without a weight; add one')
    try:
        return Name.from_text(word)
    except ValueError as error:
        raise BadWeights(f'{number}: "{word}" is not a name: {error}') from None


def _address(word: str, number: int) -> bytes:
    address = pack_address(word)
    if address is None:
        raise BadWeights(f'{number}: "{word}" is not an address')
    return address


def _weight(word: str, number: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", word) or not 1 <= int(word) <= LARGEST:
        raise BadWeights(f'{number}: "{word}" is not a weight; write a number from 1 to {LARGEST}')
    return int(word)
