"""What is answered over HTTP at one path.

Path: beside the queries; plugins hand pages to Runtime.serve_http(), server/http.py answers with them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ssl

HttpHandler = Callable[[str], tuple[int, str, bytes]]  # path?query -> status, content type, body


class HttpPage(NamedTuple):
    """A handler, and how it is to be called.

    A page that is slow is made in a thread, after `prepare` was called on the event loop; others are made on the loop,
    where they prove that it turns.  `tls` has all pages of the address answered over HTTPS.
    """

    handler: HttpHandler
    is_slow: bool = False
    prepare: Callable[[], None] = lambda: None
    tls: ssl.SSLContext | None = None

    def __call__(self, path: str) -> tuple[int, str, bytes]:
        """Make the answer to a request for `path?query`."""
        return self.handler(path)


class Asked(NamedTuple):
    """What is asked of a page in pieces: the method, the parameters after the question mark, and the body."""

    method: str = "GET"
    parameters: Mapping[str, str] = {}
    body: bytes = b""


class HttpStream(NamedTuple):
    """A page in pieces, each of which is sent before the next one is made; between them queries are answered.

    `pieces` raises HttpRefusal before the first piece.  With a token, only requests with `Authorization: Bearer TOKEN`
    are answered.  Other methods and parameters than these are refused; HEAD is GET without the body.  `headers` are
    sent with it.  A page that `is_public` may be on the address of other pages.  One with `any_host` may be asked by
    any name of the server: it tells nothing that a page of another site must not read.  Of those that are `is_endless`,
    few are sent at a time.
    """

    content_type: str
    pieces: Callable[[Asked], AsyncGenerator[bytes, None]]
    token: str | None = None
    parameters: tuple[str, ...] = ()
    methods: tuple[str, ...] = ("GET",)
    headers: Mapping[str, str] = {}
    is_public: bool = False
    any_host: bool = False
    is_endless: bool = False


class HttpRefusal(Exception):
    """Why a request is not answered: a status, a sentence for who asks, and headers of the response."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] = {}) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers
