"""Sends what clients ask and get, and what upstreams are asked and reply, to readers of dnstap.

Path: step 5, after `log` and before all plugins that answer; wire/dnstap.py has the format.
Source: CoreDNS 1.14.7 plugin/dnstap.
Rule 1: no query waits: frames wait for their reader, at most 10,000 unless configured; others are dropped and counted.
Rule 2: the reply is what the plugins after this one made; what the server makes or drops is not sent.
Cacheable: no, because it sees every query.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Self

from hsdns import __version__
from hsdns.chain import Next, Request
from hsdns.corefile.keys import HostPort, split_host_port
from hsdns.corefile.properties import Property, flag, integer, many, one, read_properties, text
from hsdns.corefile.tree import Directive, Token
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.log import Exchange, compile_format
from hsdns.plugins.tls import Files, make_context
from hsdns.wire.dnstap import BEGIN, Control, Kind, control, frame, message
from hsdns.wire.encode import MAX_TCP_LEN, encode, encode_query
from hsdns.wire.message import Reply

MIB: Final = 2**20
WAITING: Final = 10_000  # frames
ANSWERED_IN: Final = 4.0  # seconds: connecting, and the greeting
PAUSE: Final = 10.0  # seconds between two attempts to connect, and between two reports
log = logging.getLogger("hsdns.plugin.dnstap")


class Socket(NamedTuple):
    """Where readers are: the address, or the path of a Unix socket; `listens` if they come here."""

    host: str
    port: int | None
    tls: ssl.SSLContext | None
    listens: bool

    def __str__(self) -> str:
        return self.host if self.port is None else str(HostPort(self.host, self.port))


class _Reader:
    """A connection to a reader, with the frames that wait for it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._frames: list[bytes] = []
        self._wake = asyncio.Event()
        self._ended = False
        self.greeted = False

    def put(self, octets: bytes) -> bool:
        """Add a frame; return whether there was room."""
        if len(self._frames) >= self._most:
            return False
        self._frames.append(octets)
        self._wake.set()
        return True

    def end(self) -> None:
        """Let serve() end."""
        self._ended = True
        self._wake.set()

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Greet, and send frames until the end; raise OSError or EOFError."""
        try:
            async with asyncio.timeout(ANSWERED_IN):
                writer.write(control(Control.READY))
                if await reader.readexactly(4) != BEGIN:
                    raise EOFError("it does not speak frame streams")
                greeting = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                if int.from_bytes(greeting[:4]) != Control.ACCEPT:
                    raise EOFError("it does not accept dnstap")
            writer.write(control(Control.START))
            self.greeted = True
            while not self._ended:
                await self._wake.wait()
                self._wake.clear()
                self._send(writer)
                await writer.drain()
        finally:
            self._send(writer)
            writer.write(control(Control.STOP))
            writer.close()

    def _send(self, writer: StreamWriter) -> None:
        writer.writelines(self._frames)
        self._frames = []


class Tap:
    """The readers of one directive, and what they get."""

    def __init__(self, where: Socket, values: dict[str, Any], sizes: Sequence[int]) -> None:
        """Take the properties, and after 1 for `full` the MiB to be sent and the 10,000 frames that may wait."""
        self.where, self.full = where, bool(sizes)
        _, buffer, most = (*sizes, 1, 1, 1)[:3]
        self.buffer, self.most = buffer * MIB, most * WAITING
        self.identity = (values["identity"] or socket.gethostname()).encode()
        self.version = values["version"].encode()
        self._extra: Callable[[Exchange], str] | None = None
        if values["extra"]:
            self._extra = compile_format(values["extra"])
        self._readers: list[_Reader] = []
        self._dropped = 0
        self._ended = False

    def put(self, request: Request, found: dict[int, int | bytes]) -> None:
        """Send a message to all readers."""
        extra = b"" if self._extra is None else self._extra(Exchange(request, None, 0.0)).encode()
        octets = frame(found, self.identity, self.version, extra)
        if not (self._readers or self.where.listens):
            self._dropped += 1
        for reader in self._readers:
            self._dropped += not reader.put(octets)

    async def connect(self) -> None:
        """Be connected to the reader until the end."""
        where = self.where
        while not self._ended:
            greeted = False
            try:
                async with asyncio.timeout(ANSWERED_IN):
                    streams = (
                        await asyncio.open_unix_connection(where.host)
                        if where.port is None
                        else await asyncio.open_connection(where.host, where.port, ssl=where.tls)
                    )
                greeted = await self._serve(*streams)
            except (OSError, EOFError) as error:
                log.error("plugin/dnstap: No connection to dnstap endpoint %s: %s", where, error)
            if not greeted:
                await asyncio.sleep(PAUSE)

    async def listen(self) -> asyncio.Server:
        """Begin to let readers connect; raise OSError."""
        where = self.where
        if where.port is None:
            return await asyncio.start_unix_server(self._accept, where.host)
        # The next configuration may listen before this one stops.
        return await asyncio.start_server(
            self._accept, where.host or None, where.port, ssl=where.tls, reuse_port=True
        )

    async def report(self) -> None:
        """Log what was dropped, from time to time."""
        while True:
            await asyncio.sleep(PAUSE)
            if self._dropped:
                log.warning("plugin/dnstap: Dropped dnstap messages: %d", self._dropped)
                self._dropped = 0

    def end(self) -> None:
        """End all connections, once what waits is sent."""
        self._ended = True
        for reader in self._readers:
            reader.end()

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError) as error:
            log.warning("plugin/dnstap: No dnstap for who connected to %s: %s", self.where, error)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> bool:
        """Send to a reader until it is gone; True if it was one.  Raise OSError or EOFError if it was not."""
        found = _Reader(self.most)
        writer.transport.set_write_buffer_limits(self.buffer)
        self._readers.append(found)
        try:
            await found.serve(reader, writer)
        except (OSError, EOFError):
            if not found.greeted:
                raise
        finally:
            self._readers.remove(found)
        return found.greeted


def _full(token: Token) -> int:
    token.one_of(("full",))
    return 1


class Dnstap(Plugin):
    """Sends messages to readers."""

    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "identity": Property(one(text), "", "IDENTITY", reads=1),
        "version": Property(one(text), f"hsdns-{__version__}", "VERSION", reads=1),
        "extra": Property(one(text), "", "EXTRA", reads=1),
        "skipverify": Property(flag, default=False, reads=0, stops=True),
        "tls": Property(many(lambda token: token, 2, 3), (), "CERT KEY [CA]"),
    }

    def __init__(self, taps: Sequence[Tap]) -> None:
        """Take a tap for each directive."""
        self.taps = taps

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read each `dnstap [listen] SOCKET [full [WRITEBUFFER [QUEUE]]]`."""
        taps = []
        for directive in directives:
            args = directive.args
            listens = bool(args) and args[0].text == "listen"
            args = args[listens:]
            if not 1 <= len(args) <= 4:
                raise directive.error(
                    '"dnstap" takes [listen] SOCKET [full [WRITEBUFFER [QUEUE]]], such as tcp://127.0.0.1:6000 full'
                )
            values = read_properties([directive], cls.PROPERTIES)
            reads = (_full, integer(1, 1024), integer(1, 4096))
            sizes = [read(token) for read, token in zip(reads, args[1:], strict=False)]
            taps.append(Tap(_socket(args[0], values, block, listens=listens), values, sizes))
        return cls(taps)

    async def start(self, runtime: Runtime) -> None:
        """Connect to readers, and let readers connect."""
        await super().start(runtime)
        self._servers = []
        for tap in self.taps:
            if tap.where.listens:
                try:
                    self._servers.append(await tap.listen())
                except OSError as error:
                    log.error("plugin/dnstap: Failed to start dnstap listener: %s", error)
            else:
                runtime.spawn(tap.connect(), f"dnstap {tap.where}")
            runtime.spawn(tap.report(), f"dnstap {tap.where}: dropped")

    async def stop(self) -> None:
        """Let no reader connect any more, and end the connections."""
        for server in self._servers:
            server.close()
        for tap in self.taps:
            tap.end()

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Send the query and what is replied, and pass on."""
        wall, query, client = self._runtime.wall, request.query, request.client
        asked = wall()
        self._tell(request, Kind.CLIENT_QUERY, request.protocol, lambda: query.whole or encode_query(query, query.id),
                   client=client, asked=asked)  # fmt: skip
        reply = await next(request)
        if reply.written and not reply.dropped:
            self._tell(request, Kind.CLIENT_RESPONSE, request.protocol, lambda: encode(query, reply, MAX_TCP_LEN),
                       client=client, asked=asked, answered=wall())  # fmt: skip
        return reply

    def note_forwarded(
        self,
        request: Request,
        server: tuple[str, int],
        protocol: str,
        asked: float,
        reply: Reply | None,
    ) -> None:
        """Send what an upstream was asked, `asked` seconds since the epoch, and what it replied, if it did."""
        query = request.query
        self._tell(request, Kind.FORWARDER_QUERY, protocol, lambda: encode_query(query, query.id),
                   server=server, asked=asked)  # fmt: skip
        if reply is not None:
            self._tell(request, Kind.FORWARDER_RESPONSE, protocol, lambda: encode(query, reply, MAX_TCP_LEN),
                       server=server, asked=asked, answered=self._runtime.wall())  # fmt: skip

    def _tell(
        self,
        request: Request,
        kind: int,
        protocol: str,
        octets: Callable[[], bytes],
        **about: Any,
    ) -> None:
        """Send a message with the octets, where they are wanted, and what message() takes besides."""
        for tap in self.taps:
            wanted = octets() if tap.full else None
            tap.put(request, message(kind, protocol, octets=wanted, **about))


def _socket(token: Token, values: dict[str, Any], block: Block, *, listens: bool) -> Socket:
    """The socket that a word names; raise CorefileError."""
    scheme, mark, rest = token.text.partition("://")
    files = [block.path(each.text) for each in values["tls"]]
    if files and not (listens and scheme == "tls"):
        raise values["tls"][0].error('"tls" is only for dnstap listen tls://...')
    if not mark or scheme == "unix":
        return Socket(rest if mark else token.text, None, None, listens)
    if scheme not in ("tcp", "tls"):
        raise token.error(f'"{token.text}" is neither a path nor unix://, tcp:// or tls://')
    found = split_host_port(rest)
    if found is None or found.port is None:
        raise token.error(
            f'"{token.text}" needs a host and a port, such as {scheme}://127.0.0.1:6000'
        )
    tls = None
    if scheme == "tls" and listens:
        if not files:
            raise token.error('dnstap listen tls://... needs "tls CERT KEY" in its body')
        verifies = ssl.CERT_OPTIONAL if values["skipverify"] else ssl.CERT_REQUIRED
        tls = make_context(
            Files(files[0], files[1], "".join(files[2:]), verifies if files[2:] else ssl.CERT_NONE),
            token.position,
        )
    elif scheme == "tls":
        tls = ssl.create_default_context()
        if values["skipverify"]:
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return Socket(found.host, found.port, tls, listens)
