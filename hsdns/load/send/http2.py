"""The client side of DNS over HTTPS on HTTP/2, sans I/O: requests that are made in advance, and their replies.

Path: connection.py passes octets in both directions -> here -> hsdns/http2.py, which interprets the frames.
Source: RFC 8484 (section 4.1: the ID is 0), RFC 7541.
Rule 1: a query is sent only if the server's windows and its number of streams leave room.
Rule 2: the headers that all requests of a connection share enter its dynamic table with the first request, as a
        browser's do; the others never do.  So there are two forms of a header block, and both depend only on the query;
        for a server that requires a smaller table there is a third form, which uses none.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Final

from hpack import Encoder, NeverIndexedHeaderTuple

from hsdns import http2
from hsdns.load.counters import CLOSED
from hsdns.load.outcome import WHY_UNMATCHED
from hsdns.load.plan import GET
from hsdns.load.send.connection import QueryResult, Session
from hsdns.load.send.loop import HEADER_LEN, Query

Fields = list[tuple[str, str]]
# The forms of a header block: on a new connection, later, and without a table.
FIRST, LATER, PLAIN = range(3)


class Requests:
    """Makes requests to one server; `method` is GET or POST."""

    def __init__(self, authority: str, path: str, method: str) -> None:
        self._path = path
        self.is_get = method == GET
        before = [(":method", method.upper()), (":scheme", "https"), (":authority", authority)]
        after = [("accept", http2.MEDIA_TYPE)]
        if not self.is_get:
            before.append((":path", path))
            after.append(("content-type", http2.MEDIA_TYPE))
        table = Encoder()
        self._forms = [
            (table.encode(before), table.encode(after)),
            (table.encode(before), table.encode(after)),
            (http2.NO_TABLE + _without_table(before), _without_table(after)),
        ]
        self._made: list[dict[bytes, list[bytes]]] = [{} for _ in self._forms]

    def of(self, octets: bytes, form: int) -> list[bytes]:
        """The frames of a query without its ID, in the parts between which the number of their stream stands."""
        made = self._made[form]
        found = made.get(octets)
        if found is None:
            found = made[octets] = self._make(b"\0\0" + octets, *self._forms[form])
        return found

    def _make(self, message: bytes, before: bytes, after: bytes) -> list[bytes]:
        if self.is_get:
            mark = "&" if "?" in self._path else "?"
            text = urlsafe_b64encode(message).rstrip(b"=").decode()
            block = before + _without_table([(":path", f"{self._path}{mark}dns={text}")]) + after
            return [frame_head(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, block), block]
        block = before + after + _without_table([("content-length", str(len(message)))])
        data = frame_head(http2.DATA, http2.END_STREAM, message)
        return [frame_head(http2.HEADERS, http2.END_HEADERS, block), block + data, message]


def frame_head(kind: int, flags: int, payload: bytes) -> bytes:
    """The header of a frame, without the number of its stream."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags))


def _without_table(fields: Fields) -> bytes:
    return Encoder().encode([NeverIndexedHeaderTuple(name, value) for name, value in fields])


CREDIT: Final = 1 << 30  # octets of replies: a window that never limits the server
MOST_QUERY: Final = 1024  # maximum octets of a query
_USUAL_TABLE: Final = 4096  # octets


class Http2Session(Session, http2.Client):
    """A connection; several connections may share `requests`."""

    def __init__(self, requests: Requests) -> None:
        Session.__init__(self)
        http2.Client.__init__(self)
        self._widen()
        self._requests = requests
        self._table_size = _USUAL_TABLE
        self._found: list[QueryResult] = []

    @property
    def has_room(self) -> bool:
        """Whether another query can be sent now."""
        return (
            self.takes
            and len(self.in_flight) < self.max_streams
            and self._window >= MOST_QUERY
            and self._initial >= MOST_QUERY
        )

    def ask(self, query: Query) -> int:
        """Send a query; return its stream."""
        number = self.last + 2 if self.last else 1
        self.open(number)
        if number + 2 > http2.LAST_STREAM:
            self.takes, self.leaves = False, "all its streams used"
        form = FIRST if number == 1 else LATER
        if self._table_size < _USUAL_TABLE:
            form = PLAIN
        if not self._requests.is_get:
            self._window -= len(query.octets) + 2
        self.out += number.to_bytes(4, "big").join(self._requests.of(query.octets, form))
        self.in_flight[number] = query
        return number

    def forget(self, key: int) -> None:
        """Cancel a stream."""
        if self.in_flight.pop(key, None) is not None:
            self.reset(key, http2.ErrorCode.CANCEL)

    def end(self) -> None:
        """Send GOAWAY."""
        self.go_away(http2.ErrorCode.NO_ERROR, 0)

    def feed(self, octets: bytes) -> list[QueryResult]:
        """Process octets of the server."""
        self.receive(octets)
        if self._room < CREDIT // 2:
            self._widen()
        found, self._found = self._found, []
        return found

    def _widen(self) -> None:
        self.out += http2.frame(http2.WINDOW_UPDATE, 0, 0, CREDIT.to_bytes(4, "big"))
        self._room += CREDIT

    def _take_setting(self, setting: int, value: int) -> None:
        super()._take_setting(setting, value)
        if setting == http2.TABLE_SIZE:
            self._table_size = value

    def take_head(self, number: int, head: str, *, ends: bool) -> None:
        """A reply begins, perhaps one to a query that was cancelled."""
        if number not in self.streams:
            self._found.append(QueryResult(None, None))
        super().take_head(number, head, ends=ends)

    def take_goaway(self, last: int, code: int) -> None:
        """The server accepts no more queries."""
        self.leaves = f"{CLOSED} (GOAWAY{'' if not code else f', {http2.code_to_text(code)}'})"
        super().take_goaway(last, code)

    def finish(self, number: int, message: bytes | None, why: str = "") -> None:
        """A query has its result."""
        if message is not None and len(message) < HEADER_LEN:
            why, message = f"HTTP reply of {len(message)} octets, which is not a DNS message", None
        query = self.in_flight.pop(number)
        if message is not None and (misfit := query.misfit(message)) is not None:
            why, message = WHY_UNMATCHED[misfit], None
        self._found.append(QueryResult(query, message, why))
