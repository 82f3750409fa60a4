"""An HTTP server that sends what a test scripts, octet by octet; over TLS where asked.

Path: our client -> ScriptedServer -> the test's answer to that request.
Rule 1: of HTTP it understands only where a request ends, so that a test can break every other rule.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

TLS_DATA = Path(__file__).parents[2] / "data" / "tls"


class Said(NamedTuple):
    """Octets to send, and what happens to the connection then."""

    data: bytes
    then: Literal["keep", "close", "abort", "hang"] = "keep"


def said(
    status: str = "200 OK",
    body: bytes = b"{}",
    then: Literal["keep", "close", "abort", "hang"] = "keep",
    *headers: str,
) -> Said:
    """A complete response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return Said("\r\n".join(lines).encode() + body, then)


def chunked(*chunks: bytes, then: Literal["keep", "close", "abort", "hang"] = "keep") -> Said:
    """A chunked response; it ends after an empty chunk, and is incomplete without one."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return Said(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body, then)


def server_context(name: str = "server") -> ssl.SSLContext:
    """The TLS context of a server: `server`, or `other-server` with another CA."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS_DATA / f"{name}.pem", TLS_DATA / f"{name}.key")
    return context


class ScriptedServer:
    """Use it as `async with ScriptedServer(answer) as server:`; `answer` takes the head of a request.

    `greeting` is sent before anything was asked.
    """

    def __init__(
        self,
        answer: Callable[[str], Said],
        tls: ssl.SSLContext | None = None,
        greeting: bytes = b"",
    ) -> None:
        self.requests: list[str] = []  # heads, in order
        self.subjects: list[str] = []  # of the client certificate, for each connection with TLS
        self.connections = 0
        self.ended = asyncio.Event()  # set whenever a client has closed a connection
        self.url = ""
        self._answer = answer
        self._tls = tls
        self._address = "127.0.0.1"
        self._greeting = greeting
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ScriptedServer:
        self._server = await asyncio.start_server(self._accept, self._address, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://{self._address}:{self.port}"
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        if self._tls is not None:
            found = writer.get_extra_info("peercert") or {}
            self.subjects.append(str(dict(pair[0] for pair in found.get("subject", ()))))
        try:
            await self._talk(reader, writer)
        except (ConnectionError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            self.ended.set()
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._greeting:
            writer.write(self._greeting)
            await writer.drain()
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                return
            self.requests.append(head)
            if head.startswith("CONNECT "):
                await self._tunnel(head, reader, writer)
                return
            answer = self._answer(head)
            writer.write(answer.data)
            await writer.drain()
            if answer.then == "abort":
                writer.transport.abort()
            if answer.then in ("abort", "close"):
                return
            if answer.then == "hang":
                await reader.read()  # until the client closes
                return

    async def _tunnel(
        self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Act as a proxy if the test's response to CONNECT is 200."""
        answer = self._answer(head)
        writer.write(answer.data)
        await writer.drain()
        if not answer.data.startswith(b"HTTP/1.1 200"):
            return
        host, _, port = head.split()[1].rpartition(":")
        there_reader, there = await asyncio.open_connection(host, int(port))

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
            target.close()

        try:
            await asyncio.gather(pump(reader, there), pump(there_reader, writer))
        finally:
            there.close()
