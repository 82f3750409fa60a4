"""Loop around a reflector: sends its requests, feeds it the responses, and pauses after failures.

Path: sources/api_server.py runs one for each scope; transport.py carries the requests.
Rule 1: the loop ends only when cancelled, or when `gives_up` returns True.
Rule 2: a server that is away gets a request as soon as it accepts connections (returning.py); the pauses start over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hsdns.apiserver.contact import Contact, labels_of
from hsdns.apiserver.reflector import Purpose, Reflector
from hsdns.apiserver.transport import Away, Response, Transport, Unreachable

MAX_ERROR_LEN: Final = 4096  # octets to read of the body of a refusal
MAX_RETRY_AFTER: Final = 120.0  # seconds; longer values of Retry-After are cut
ESTABLISHED_AFTER: Final = 1.0  # seconds after which a watch without events counts as established
log = logging.getLogger("hsdns.apiserver")


class Watcher:
    """Watches one scope."""

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
        """Watch until cancelled, or until `gives_up` returns True after a failure."""
        reflector, contact = self._reflector, self._contact
        while True:
            is_away = False
            try:
                await self._request()
            except Unreachable as error:
                is_away = isinstance(error, Away)
                reflector.fail(str(error))
            except Exception:
                log.exception("%s: cannot handle an event", reflector.scope)
                reflector.relist("distrust")
                reflector.fail("cannot handle an event; relisting")
            contact.metrics.objects.set(len(reflector.known), self._labels)
            if not reflector.failure:
                continue
            if self._gives_up(reflector):
                contact.remove(reflector.scope)
                return
            pause = reflector.pause(self._clock())
            contact.lost(reflector.scope, reflector, pause)
            if await contact.wait(pause, is_away=is_away):
                reflector.begin_anew(self._clock())

    async def _request(self) -> None:
        """Send one request and process its response; raise Unreachable if there is none."""
        reflector, requests = self._reflector, self._contact.metrics.requests
        request = reflector.next_request()
        purpose = request.purpose.value
        try:
            async with self._transport.get(request.path, request.query, request.accept) as response:
                requests.inc((*self._labels, purpose, str(response.status)))
                if response.status == 200:
                    await self._receive(response, request.purpose)
                    return
                text = await response.text(MAX_ERROR_LEN)
                retry_after = _retry_after(response.headers.get("Retry-After", ""))
                reflector.refuse(response.status, text, retry_after)
        except Unreachable:
            requests.inc((*self._labels, purpose, "none"))
            raise

    async def _receive(self, response: Response, purpose: Purpose) -> None:
        reflector, contact, scope = self._reflector, self._contact, self._reflector.scope
        reflector.open(self._clock(), response.headers.get("Content-Type", ""))
        contact.opened(scope)
        error = ""
        was_synced = is_established = False

        def take(chunk: bytes) -> bool:
            nonlocal was_synced, is_established
            try:
                if not reflector.receive_data(chunk):
                    return False
            finally:
                contact.received(scope)  # last, so that no event waits for it
            if not is_established and purpose is not Purpose.LIST:
                is_established = True
                contact.established(scope)
            if reflector.synced and not was_synced:
                was_synced = True
                contact.metrics.objects.set(len(reflector.known), self._labels)
            return True

        # An idle watch sends nothing for a minute, so its duration is sufficient.
        later = asyncio.get_running_loop().call_later(ESTABLISHED_AFTER, contact.established, scope)
        try:
            await response.feed(take, lambda: reflector.read_timeout)
        except Unreachable as found:
            error = str(found)
        finally:
            later.cancel()
            if purpose is not Purpose.LIST:
                contact.closed(scope)
        reflector.close(self._clock(), error)
        if purpose is Purpose.LIST and not reflector.failure:
            contact.established(scope)


def _retry_after(text: str) -> float:
    """Return the seconds of a Retry-After header; the API server sends no dates."""
    return min(float(text), MAX_RETRY_AFTER) if text.isdecimal() else 0.0
