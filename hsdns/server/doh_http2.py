"""HTTP/2 on one connection: bytes in, requests out; replies in, bytes out; no socket here.

Path: doh.py feeds it; doh_frames.py counts the frames, and the library h2 knows what they mean (RFC 9113).
Rule 1: what a client may have open at once is bounded (MAX_STREAMS, MAX_BODY_LEN), and so is what is kept for it.
Rule 2: a reply goes out as fast as the client's windows allow (RFC 9113 section 5.2), of which MAX_UNSENT may wait.
Rule 3: frames are handled one by one, so that the caller decides how many of them hold up others.
"""

from __future__ import annotations

from email.utils import formatdate
from typing import Final, NamedTuple

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import DenialOfServiceError, ProtocolError, StreamClosedError
from h2.settings import SettingCodes, Settings

from hsdns.server.doh_frames import MAX_BLOCK_LEN, Excess, Frames
from hsdns.server.doh_message import MAX_BODY_LEN, HttpReply

MAX_STREAMS: Final = 128
MAX_HEADERS_LEN: Final = MAX_BLOCK_LEN  # octets, with 32 for each field as RFC 9113 counts them
MAX_UNSENT: Final = 1024 * 1024  # octets of replies that wait for the client's windows


class _Connection(H2Connection):
    """h2 remembers how each stream was closed, 65,536 of them: 8 MB for a client that asks on one connection for hours.

    About the others it only knows that they are closed, which is what a late frame for them has to be told.
    """

    MAX_CLOSED_STREAMS = 2 * MAX_STREAMS


class HttpRequest(NamedTuple):
    """A complete request; `stream` is to be named in the reply."""

    stream: int
    method: str
    target: str
    body: bytes


class _Arriving:
    """A request whose end has not come."""

    def __init__(self, headers: dict[bytes, bytes]) -> None:
        self.method = headers.get(b":method", b"").decode("ascii", "replace")
        self.target = headers.get(b":path", b"").decode("ascii", "replace")
        self.body = bytearray()

    def take(self, data: bytes) -> None:
        """Add to the body, but one octet more than is allowed says enough."""
        self.body += data[: MAX_BODY_LEN + 1 - len(self.body)]


class _Unsent(NamedTuple):
    """What the windows have not let through of a reply, and when it was made."""

    body: bytes
    since: float


class Http2:
    """The server's side of one connection; `now` in seconds.  `excess` is the limit that its client has exceeded.

    `has_fault` tells that it has broken HTTP/2.
    """

    def __init__(self, now: float) -> None:
        self._h2 = _Connection(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                # Those of doh_message.py are as they have to be.
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self._h2.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADERS_LEN,
            },
        )
        # h2 applies a setting when the client has acknowledged it, which it may never do.
        self._h2.decoder.max_header_list_size = MAX_HEADERS_LEN
        self._h2.initiate_connection()
        self._frames = Frames(now)
        self._arriving: dict[int, _Arriving] = {}
        self._unsent: dict[int, _Unsent] = {}  # in the order of time
        self._unsent_len = 0
        self.is_over = False
        self.has_fault = False
        self.excess = ""

    def feed(self, data: bytes, now: float) -> None:
        """Take octets of the client; their frames wait for step()."""
        try:
            self._frames.feed(data, now)
        except Excess as excess:
            self._send_away(excess)

    @property
    def has_waiting(self) -> bool:
        """Whether frames wait for step()."""
        return bool(self._frames.waiting)

    def step(self) -> HttpRequest | None:
        """Handle the next frame; return the request that it completes."""
        try:
            events = self._h2.receive_data(self._frames.take())
        except ProtocolError as error:
            self.is_over = True  # h2 has made the GOAWAY frame that says why
            self.has_fault = True
            self._frames.clear()
            if isinstance(error, DenialOfServiceError):  # headers that HPACK makes too long
                self.excess = "header octets"
            return None
        request = None
        for event in events:
            if isinstance(event, RequestReceived):
                self._arriving[event.stream_id] = _Arriving(dict(event.headers))
            elif isinstance(event, DataReceived):
                if event.stream_id in self._arriving:
                    self._arriving[event.stream_id].take(event.data)
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                request = self._complete(event.stream_id)
            elif isinstance(event, StreamReset):
                self._arriving.pop(event.stream_id, None)
                self._forget_unsent(event.stream_id)
            elif isinstance(event, WindowUpdated):
                self._send_on(event.stream_id)
            elif isinstance(event, ConnectionTerminated):
                self.is_over = True
        return request

    def _complete(self, stream: int) -> HttpRequest | None:
        """Return a request that has ended, unless it is taken back in what waits."""
        arrived = self._arriving.pop(stream, None)
        if arrived is None or stream in self._frames.reset:
            return None
        return HttpRequest(stream, arrived.method, arrived.target, bytes(arrived.body))

    def reply(self, stream: int, reply: HttpReply, now: float, *, head_only: bool = False) -> None:
        """Answer a request; nothing happens where the client has taken it back."""
        try:
            self._h2.send_headers(
                stream,
                [(":status", str(reply.status)), *reply.headers, ("date", formatdate(usegmt=True))],
                end_stream=head_only,
            )
        except ProtocolError:
            return
        if not head_only:
            self._unsent[stream] = _Unsent(reply.body, now)
            self._unsent_len += len(reply.body)
            self._send(stream)
            if self._unsent_len > MAX_UNSENT:
                self._send_away(Excess("unsent octets"))

    def _send_away(self, excess: Excess) -> None:
        self.excess = excess.what
        self._frames.clear()
        for stream in tuple(self._unsent):
            self._forget_unsent(stream)
        self.end(excess.code)

    def end(self, reason: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Tell the client that no more requests are taken."""
        if not self.is_over:
            self.is_over = True
            self._h2.close_connection(reason)

    def forget(self) -> None:
        """Free the connection, which is closed: that of h2 refers to itself."""
        vars(self._h2).clear()

    def to_send(self) -> bytes:
        """Take what is to go out."""
        return bytes(self._h2.data_to_send())

    @property
    def unsent_since(self) -> float | None:
        """When the oldest reply was made that waits for the client's windows; None if none does."""
        return next(iter(self._unsent.values())).since if self._unsent else None

    def _forget_unsent(self, stream: int) -> None:
        found = self._unsent.pop(stream, None)
        if found is not None:
            self._unsent_len -= len(found.body)

    def _send_on(self, stream: int) -> None:
        """Send what a window lets through: that of a stream, or that of the connection (0)."""
        if stream:
            if stream in self._unsent:
                self._send(stream)
            return
        for each in tuple(self._unsent):
            if self._h2.outbound_flow_control_window <= 0:
                return
            self._send(each)

    def _send(self, stream: int) -> None:
        body, since = self._unsent[stream]
        before = len(body)
        try:
            while body:
                room = min(
                    self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size
                )
                if room <= 0:
                    break
                self._h2.send_data(stream, body[:room], end_stream=len(body) <= room)
                body = body[room:]
        except (ProtocolError, StreamClosedError):
            body = b""
        self._unsent_len -= before - len(body)
        if body:
            self._unsent[stream] = _Unsent(body, since)
        else:
            del self._unsent[stream]
