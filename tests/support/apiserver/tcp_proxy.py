"""A TCP proxy on loopback that a test can disable: then client and server cannot reach each other.

Path: the client -> TcpProxy -> the server, octet for octet, TLS or not.
Rule 1: the port stays the same; while the proxy is disabled, it accepts connections and resets them at once.
"""

from __future__ import annotations

import asyncio


class TcpProxy:
    """Relays to a port of 127.0.0.1; a context manager."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.is_enabled = True
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> TcpProxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self.disable()
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def disable(self) -> None:
        """Reset all connections, and each new one, until enable()."""
        self.is_enabled = False
        self.cut_connections()

    def enable(self) -> None:
        """Accept connections again."""
        self.is_enabled = True

    def cut_connections(self) -> None:
        """Reset all connections."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if not self.is_enabled:
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            there_reader, there = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            self._leave(writer)
            return
        self._writers.add(there)
        await asyncio.gather(self._relay(reader, there), self._relay(there_reader, writer))
        self._leave(writer)
        self._leave(there)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay until one side ends, then end the other."""
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except OSError:
            writer.transport.abort()
        else:
            writer.close()

    def _leave(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.transport.abort()
