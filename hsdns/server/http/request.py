"""Reads the requests of an HTTP/1.1 connection, and writes the heads of responses; without sockets.

Path: pages.py and doh.py pass in the octets of a client -> requests, one after the other.
Rule 1: of a head, at most MAX_HEAD octets are read, of a body MAX_BODY.  Octets behind a request are not parsed before
        the caller takes the next one, so a client that sends many at once gets no more work done than others.
Rule 2: what is no valid request is Malformed, with the status of its response.  The caller closes the connection:
        nobody knows where the next request begins.
Rule 3: no exception refers to the octets, so they are freed with the connection.
Source: RFC 9112; Go's net/http for the status codes; llhttp (httptools), which refuses what proxies read in other ways.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple, NoReturn, Self

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from hsdns.http_page import TEXT

# Octets of a request line and its headers; also of what is between the data of a body.
MAX_HEAD: Final = 16_384
MAX_BODY: Final = 65_536
PIECES: Final = (
    64  # lines, or parts of a body, in one step of a connection: a third of a millisecond
)
_STATUSES: Final = {"Invalid HTTP version": 505, "Pause on PRI/Upgrade": 505}
_ABSOLUTE: Final = re.compile(r"(?i)https?://([^/?#]*)")


class Request(NamedTuple):
    """A request; `target` is the path with its query string.

    `headers` are by lower-case names, those of one name in one value.  `body` is None if it is longer than MAX_BODY: it
    has not been read, so the connection ends with the response.  `stream` is that of HTTP/2.
    """

    method: str
    target: str
    headers: Mapping[str, str] = {}
    body: bytes | None = b""
    is_old: bool = False  # HTTP/1.0
    keeps: bool = True  # whether the connection stays open
    stream: int = 0

    @property
    def path(self) -> str:
        """The target without its query string."""
        return self.target.partition("?")[0]


class Response(NamedTuple):
    """A whole response."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @classmethod
    def of(
        cls, status: int, content_type: str, body: bytes, headers: Iterable[tuple[str, str]] = ()
    ) -> Self:
        """Make one with the headers of a body."""
        own = ("Content-Type", content_type), ("Content-Length", str(len(body)))
        return cls(status, (*own, *headers), body)

    def to(self, request: Request | None) -> bytes:
        """Its octets for HTTP/1.1, as the answer to a request, or to octets that are none."""
        head = head_of(self.status, self.headers, request)
        return head if request is not None and request.method == "HEAD" else head + self.body


class Malformed(Exception):
    """Octets that are no request: the status of the response, and what is wrong."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    @property
    def response(self) -> Response:
        """The response to them, as Go writes it."""
        text = f"{self.status} {HTTPStatus(self.status).phrase}: {self}"
        return Response.of(self.status, TEXT, text.encode())


class _Message:
    """What the parser has found of one request."""

    def __init__(self) -> None:
        self.target = b""
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.has_head = self.is_complete = False

    def on_url(self, part: bytes) -> None:
        """Add a part of the target."""
        self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; trailers are ignored."""
        if not self.has_head:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """Note that a body follows, or the end."""
        self.has_head = True

    def on_body(self, part: bytes) -> None:
        """Add a part of the body."""
        self.body += part

    def on_message_complete(self) -> None:
        """Note the end."""
        self.is_complete = True


class RequestReader:
    """The requests of one connection."""

    def __init__(self) -> None:
        self.has_waiting = False  # whether there are octets that take() has not seen
        self._data = bytearray()
        self._begin()

    def _begin(self) -> None:
        self._message = _Message()
        self._parser = HttpRequestParser(self._message)
        self._head_len = 0
        self._between = 0  # octets since the last data of a body
        self._rest = 0  # octets of a body of known length that are missing
        self._has_started = self._says_continue = self._is_upgrade = False

    def feed(self, data: bytes) -> None:
        """Accept octets of the client."""
        self._data += data
        self.has_waiting = True

    @property
    def octets(self) -> int:
        """The number of octets that are kept."""
        return len(self._data) + self._head_len + len(self._message.body)

    @property
    def has_head(self) -> bool:
        """Whether the body of a request is missing, or a part of it."""
        return self._message.has_head

    def take(self) -> Request | None:
        """Return the next request, if all of it has arrived; raise Malformed.

        None while `has_waiting` means that the next call goes on: one reads PIECES.
        """
        message = self._message
        for _ in range(PIECES):
            if not self._data:
                break
            # A head, the size of a chunk and the end of the last one end with a line; so a request ends with a piece.
            size = self._rest or self._data.find(b"\n") + 1
            if not message.has_head:
                if self._head_len + (size or len(self._data)) > MAX_HEAD:
                    if self._head_len:
                        self._fail(431, f"the headers take more than {MAX_HEAD} octets")
                    self._fail(414, f"the target takes more than {MAX_HEAD} octets")
                if not size:
                    break
                self._head_len += size
            piece = bytes(self._data[: size or len(self._data)])
            del self._data[: len(piece)]
            # The offer of another protocol is ignored.  After it the parser would leave the body to that one.
            if message.has_head or piece[:8].lower() != b"upgrade:":
                self._parse(piece)
            if message.has_head and not self._has_started:
                self._check_head()
            if message.is_complete or self._is_upgrade or self._is_too_long():
                return self._complete()
        else:
            return None
        self.has_waiting = False
        return None

    def interim(self) -> bytes:
        """The response that a client waits for before it sends a body, once."""
        says, self._says_continue = self._says_continue, False
        return b"HTTP/1.1 100 Continue\r\n\r\n" if says else b""

    def _parse(self, piece: bytes) -> None:
        had_head, held, fault = self._message.has_head, len(self._message.body), ""
        try:
            self._parser.feed_data(piece)
        except HttpParserUpgrade:
            self._is_upgrade = True  # CONNECT, behind which is another protocol
        except HttpParserError as error:
            fault = str(error)
        if fault:  # raised here, so that it has no context
            self._fail(_STATUSES.get(fault, 400), fault)
        found = len(self._message.body) - held
        self._rest -= min(self._rest, found)
        self._between = self._between + len(piece) if had_head and not found else 0
        if self._between > MAX_HEAD:
            self._fail(431, f"more than {MAX_HEAD} octets between the data of a body")

    def _check_head(self) -> None:
        self._has_started = True
        headers, version = self._message.headers, self._parser.get_http_version()
        if version not in ("1.0", "1.1"):
            self._fail(505, "unsupported protocol version")
        if "host" not in headers and version == "1.1":
            self._fail(400, "missing required Host header")
        if "," in headers.get("host", ""):
            self._fail(400, "too many Host headers")
        expected = headers.get("expect", "").lower()
        if expected not in ("", "100-continue"):
            self._fail(417, "unsupported expectation")
        # The parser has found that it is a number, which may begin with any number of zeros.
        self._rest = int(headers.get("content-length", "0")[-20:] or "0")
        self._says_continue = bool(
            expected and version == "1.1" and not self._data and not self._message.is_complete
        )

    def _is_too_long(self) -> bool:
        return self._rest > MAX_BODY or len(self._message.body) > MAX_BODY

    def _complete(self) -> Request:
        message, parser = self._message, self._parser
        is_old, is_too_long = parser.get_http_version() == "1.0", self._is_too_long()
        tokens = message.headers.get("connection", "").lower().replace(" ", "").split(",")
        # A proxy that does not know chunks may have taken their octets for another request.
        is_open = (
            "keep-alive" in tokens and "transfer-encoding" not in message.headers
            if is_old
            else "close" not in tokens
        )
        target = message.target.decode("latin-1")
        absolute = _ABSOLUTE.match(target)
        if absolute is not None:  # its host counts (RFC 9112 section 3.2.2)
            message.headers["host"] = absolute[1]
            rest = target[absolute.end() :]
            target = rest if rest.startswith("/") else f"/{rest}"
        request = Request(
            parser.get_method().decode("latin-1"),
            target,
            message.headers,
            None if is_too_long else bytes(message.body),
            is_old,
            is_open and not is_too_long and not self._is_upgrade,
        )
        self._begin()
        self.has_waiting = bool(self._data)
        return request

    def _fail(self, status: int, reason: str) -> NoReturn:
        self._data.clear()
        self._begin()
        self.has_waiting = False
        raise Malformed(status, reason)


def date(now: float) -> str:
    """Seconds since the epoch as a date of HTTP (RFC 9110 section 5.6.7); email.utils takes 3 ms to import."""
    day, month, number, clock, year = time.asctime(time.gmtime(now)).split()
    return f"{day}, {int(number):02} {month} {year} {clock} GMT"


def head_of(status: int, headers: Iterable[tuple[str, str]], request: Request | None) -> bytes:
    """The head of a response; without a request, and after one that ends the connection, it says that it closes."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers)]
    lines.append(f"Date: {date(time.time())}")
    if request is None or not request.keeps:
        lines.append("Connection: close")
    elif request.is_old:
        lines.append("Connection: keep-alive")
    return "\r\n".join((*lines, "", "")).encode("latin-1")
