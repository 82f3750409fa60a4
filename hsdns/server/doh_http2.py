"""HTTP/2 on one connection, without sockets: octets in, requests out; replies in, octets out.

Path: doh.py passes in the octets; doh_frames.py counts the frames, and the library h2 interprets them (RFC 9113).
Rule 1: the number of open streams (MAX_STREAMS) and the size of a body (MAX_BODY_LEN) are bounded, and so is the memory
        for them.
Rule 2: replies are sent as fast as the client's flow-control windows allow (RFC 9113 section 5.2); at most MAX_UNSENT
        octets of them wait.
Rule 3: frames are handled one by one, so that the caller decides how many to handle before other connections.
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
STREAM_LEN: Final = 1024  # octets that h2 and this module keep for an open stream
MAX_UNSENT: Final = 1024 * 1024  # octets of replies that wait for the client's windows


class _Connection(H2Connection):
    """h2 remembers how each stream was closed, 65,536 of them: 8 MB for a client that asks on one connection for hours.

    About the others it only knows that they are closed, which is what a late frame for them has to be told.
    """

    MAX_CLOSED_STREAMS = 2 * MAX_STREAMS


class HttpRequest(NamedTuple):
    """A complete request; the caller passes `stream` back with the reply."""

    stream: int
    method: str
    target: str
    body: bytes


class _Arriving:
    """A request whose end has not arrived."""

    def __init__(self, headers: dict[bytes, bytes]) -> None:
        self.method = headers.get(b":method", b"").decode("ascii", "replace")
        self.target = headers.get(b":path", b"").decode("ascii", "replace")
        self.body = bytearray()

    def take(self, data: bytes) -> None:
        """Add to the body; of a body that is too long, only one octet more than allowed is kept."""
        self.body += data[: MAX_BODY_LEN + 1 - len(self.body)]

    @property
    def octets(self) -> int:
        """The number of octets that are kept."""
        return STREAM_LEN + len(self.target) + len(self.body)


class _Unsent(NamedTuple):
    """The rest of a reply that the windows have not admitted, and when the reply was made."""

    body: bytes
    since: float


class Http2:
    """The server's side of one connection; `now` in seconds.  `excess` is the limit that its client has exceeded.

    `has_fault` is set after that, and after the client has violated HTTP/2.
    """

    def __init__(self, now: float) -> None:
        self._h2 = _Connection(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                # The headers of doh_message.py are valid and normalized already.
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
        self._arriving_len = 0
        self._unsent: dict[int, _Unsent] = {}  # in the order of time
        self._unsent_len = 0
        self.is_over = False
        self.has_fault = False
        self.excess = ""

    def feed(self, data: bytes, now: float) -> None:
        """Accept octets of the client; their frames wait for step()."""
        self._frames.feed(data, now)

    @property
    def has_waiting(self) -> bool:
        """Whether frames wait for step()."""
        return bool(self._frames.waiting) or not self._frames.is_counted

    def step(self) -> HttpRequest | None:
        """Handle the next frame, when all are counted; return the request that it completes."""
        try:
            if not self._frames.count() or not self._frames.waiting:
                return None
        except Excess as excess:
            self._send_away(excess)
            return None
        try:
            events = self._h2.receive_data(self._frames.take())
        except ProtocolError as error:
            self.is_over = True  # h2 has made the GOAWAY frame with the reason
            self.has_fault = True
            self._frames.clear()
            if isinstance(error, DenialOfServiceError):  # headers too long after HPACK
                self.excess = "header octets"
            return None
        request = None
        for event in events:
            if isinstance(event, RequestReceived):
                self._arriving[event.stream_id] = arriving = _Arriving(dict(event.headers))
                self._arriving_len += arriving.octets
            elif isinstance(event, DataReceived):
                if event.stream_id in self._arriving:
                    arriving = self._arriving[event.stream_id]
                    self._arriving_len -= arriving.octets
                    arriving.take(event.data)
                    self._arriving_len += arriving.octets
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                request = self._complete(event.stream_id)
            elif isinstance(event, StreamReset):
                self._take_arriving(event.stream_id)
                self._forget_unsent(event.stream_id)
            elif isinstance(event, WindowUpdated):
                self._send_on(event.stream_id)
            elif isinstance(event, ConnectionTerminated):
                self.is_over = True
        return request

    def _complete(self, stream: int) -> HttpRequest | None:
        """Return a complete request, unless a waiting frame cancels it."""
        arrived = self._take_arriving(stream)
        if arrived is None or stream in self._frames.reset:
            return None
        return HttpRequest(stream, arrived.method, arrived.target, bytes(arrived.body))

    def _take_arriving(self, stream: int) -> _Arriving | None:
        arriving = self._arriving.pop(stream, None)
        if arriving is not None:
            self._arriving_len -= arriving.octets
        return arriving

    def reply(self, stream: int, reply: HttpReply, now: float, *, head_only: bool = False) -> None:
        """Answer a request; does nothing if the client has cancelled it."""
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
        self.has_fault = True
        self._frames.clear()
        for stream in tuple(self._unsent):
            self._forget_unsent(stream)
        self.end(excess.code)

    def end(self, reason: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Tell the client that no more requests are accepted (GOAWAY)."""
        if not self.is_over:
            self.is_over = True
            self._h2.close_connection(reason)

    def forget(self) -> None:
        """Free the closed connection, because the connection object of h2 refers to itself."""
        vars(self._h2).clear()

    def to_send(self) -> bytes:
        """Return and clear the octets to send."""
        return bytes(self._h2.data_to_send())

    @property
    def frames(self) -> int:
        """The number of frames that have arrived."""
        return self._frames.counted

    @property
    def fed(self) -> int:
        """The number of octets that have arrived."""
        return self._frames.fed

    @property
    def octets(self) -> int:
        """The number of octets that are kept: of frames, of incomplete requests, and of replies."""
        return self._frames.octets + self._arriving_len + self._unsent_len

    @property
    def unsent_since(self) -> float | None:
        """When the oldest reply was made that waits for the client's windows; None if none waits."""
        return next(iter(self._unsent.values())).since if self._unsent else None

    def _forget_unsent(self, stream: int) -> None:
        found = self._unsent.pop(stream, None)
        if found is not None:
            self._unsent_len -= len(found.body)

    def _send_on(self, stream: int) -> None:
        """Send as much as a window allows: that of a stream, or that of the connection (0)."""
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
