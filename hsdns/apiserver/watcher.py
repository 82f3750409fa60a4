"""The loop around a reflector: send what it asks for, feed it what comes, wait where it says so.

Path: sources/api_server.py runs one for each scope; transport.py carries.
Rule 1: nothing that happens here ends the loop but being cancelled, or `gives_up`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hsdns.apiserver.contact import Contact, labels_of
from hsdns.apiserver.reflector import Purpose, Reflector
from hsdns.apiserver.transport import Answer, Transport, Unreachable

REFUSAL_LEN: Final = 4096  # octets of a refusal's body that are read
LONGEST_RETRY_AFTER: Final = 120.0  # seconds; what a server asks for beyond that is not waited for
LASTS: Final = 1.0  # seconds after which a watch that brings nothing counts as of use
log = logging.getLogger("hsdns.apiserver")


class Watcher:
    """Watches one scope for ever."""

    def __init__(
        self,
        reflector: Reflector,
        transport: Transport,
        contact: Contact,
        clock: Callable[[], float],
        gives_up: Callable[[Reflector], bool] = lambda reflector: False,
    ) -> None:
        self._reflector = reflector
        self._transport = transport
        self._contact = contact
        self._clock = clock
        self._gives_up = gives_up
        self._labels = labels_of(reflector.scope)
        contact.add(reflector.scope)

    async def run(self) -> None:
        """Watch until cancelled, or until `gives_up` says so after a failure."""
        reflector, contact = self._reflector, self._contact
        while True:
            try:
                await self._ask()
            except Unreachable as error:
                reflector.failed(str(error))
            except Exception:
                log.exception("%s: an event could not be handled", reflector.scope)
                reflector.distrust("distrust")
                reflector.failed("an event could not be handled; the whole state is read again")
            contact.metrics.objects.set(len(reflector.known), self._labels)
            if not reflector.failure:
                continue
            if self._gives_up(reflector):
                contact.remove(reflector.scope)
                return
            pause = reflector.pause(self._clock())
            contact.lost(reflector.scope, reflector, pause)
            await contact.wait(pause)

    async def _ask(self) -> None:
        """Send one request and take all of its answer; raise Unreachable where none came."""
        reflector, requests = self._reflector, self._contact.metrics.requests
        ask = reflector.ask()
        purpose = ask.purpose.value
        try:
            async with self._transport.get(ask.path, ask.query) as answer:
                requests.inc((*self._labels, purpose, str(answer.status)))
                if answer.status == 200:
                    await self._take(answer, ask.purpose)
                    return
                text = await answer.text(REFUSAL_LEN)
                retry_after = _retry_after(answer.headers.get("Retry-After", ""))
                reflector.refused(answer.status, text, retry_after)
        except Unreachable:
            requests.inc((*self._labels, purpose, "none"))
            raise

    async def _take(self, answer: Answer, purpose: Purpose) -> None:
        reflector, contact, scope = self._reflector, self._contact, self._reflector.scope
        reflector.opened(self._clock())
        contact.opened(scope)
        error = ""
        was_synced = is_settled = False
        # An idle watch brings nothing for a minute; that it lasts says enough.
        later = asyncio.get_running_loop().call_later(LASTS, contact.settled, scope)
        try:
            async for chunk in answer.chunks(lambda: reflector.silence):
                contact.heard(scope)
                if not reflector.feed(chunk):
                    break
                if not is_settled and purpose is not Purpose.LIST:
                    is_settled = True
                    contact.settled(scope)
                if reflector.synced and not was_synced:
                    was_synced = True
                    contact.metrics.objects.set(len(reflector.known), self._labels)
        except Unreachable as found:
            error = str(found)
        finally:
            later.cancel()
            if purpose is not Purpose.LIST:
                contact.closed(scope)
        reflector.ended(self._clock(), error)
        if purpose is Purpose.LIST and not reflector.failure:
            contact.settled(scope)


def _retry_after(text: str) -> float:
    """The seconds of a Retry-After header; the API server writes no dates."""
    return min(float(text), LONGEST_RETRY_AFTER) if text.isdecimal() else 0.0
