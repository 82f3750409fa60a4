"""The page in a browser, with a server behind it that shows what a test gives it.

Path: tests and docs/pictures only.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

from hsdns.http_page import AccessToken, HttpRefusal, HttpStream, PageRequest
from hsdns.server.control.door import Door, to_line
from hsdns.server.control.routes import EVENTS, HTML, events, headers, page
from hsdns.server.http.pages import HttpListeners, HttpPages
from hsdns.server.transport.admission import Places
from tests.support.browser.chromium import Tab, tab

TIME = "2026-11-22T21:00:{:02}.000+00:00"
QUIET: dict[str, Any] = {
    "time": TIME.format(0), "uptime_seconds": 100.0,
    "rates": {"queries_per_second": 0, "table_share": 0, "by_type": {}, "by_rcode": {}},
    "past": [], "failing": [], "changes": [], "slowest": [], "search_waste": [], "upstreams": [], "faults": [],
}  # fmt: skip
NO_DOOR = cast("Door", None)  # neither the page nor a stand-in reads the server


class Stand:
    """Stands for a server: `pictures` are what it shows, `explanations` what it says about a name."""

    def __init__(self, token: str | None = None) -> None:
        self.pictures: list[dict[str, Any]] = [QUIET]
        self.explanations: dict[str, dict[str, Any]] = {}
        self.refusal = ""  # what it says in place of pictures
        self.asked: list[tuple[str, dict[str, str]]] = []
        self._token = None if token is None else AccessToken(token)
        self._more = asyncio.Event()
        self._address = "127.0.0.1:0"
        self._listeners = HttpListeners(Places(64))

    @property
    def url(self) -> str:
        return f"http://{self._address}/"

    async def start(self) -> None:
        """Listen, after a stop at the same port."""
        pages = HttpPages()
        names = ("namespace", "name")
        pages.serve(
            self._address,
            {
                "/": HttpStream(HTML, partial(page, NO_DOOR), headers=headers()),
                "/v1/top/events": HttpStream(
                    EVENTS, partial(events(self._top), NO_DOOR), self._token, names
                ),
                "/v1/explain": HttpStream(
                    "application/json", self._explain, self._token, ("name", "type")
                ),
            },
        )
        await self._listeners.open(pages)
        ((host, port),) = self._listeners.bound.values()
        self._address = f"{host}:{port}"

    async def stop(self) -> None:
        """End all streams and close the socket."""
        await self._listeners.close()

    def show(self, picture: dict[str, Any]) -> None:
        """Show one more picture."""
        self.pictures.append({**QUIET, "time": TIME.format(len(self.pictures) % 60), **picture})
        self._more.set()
        self._more = asyncio.Event()

    async def _top(self, door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
        self.asked.append(("top", dict(asked.parameters)))
        if self.refusal:
            raise HttpRefusal(503, self.refusal)
        at = max(len(self.pictures) - 70, 0)
        while True:
            while at < len(self.pictures):
                yield to_line(self.pictures[at])
                at += 1
            await self._more.wait()

    async def _explain(self, asked: PageRequest) -> AsyncGenerator[bytes, None]:
        name = asked.parameters["name"]
        self.asked.append(("explain", dict(asked.parameters)))
        if name not in self.explanations:
            raise HttpRefusal(400, f"{name} is not in the test")
        yield json.dumps(self.explanations[name]).encode()


@asynccontextmanager
async def shown(*names: str, token: str | None = None) -> AsyncIterator[tuple[Stand, Tab]]:
    """A stand-in, and a browser to look at it."""
    stand = Stand(token)
    await stand.start()
    try:
        async with tab(*names) as opened:
            yield stand, opened
    finally:
        await stand.stop()
