"""What is answered over HTTP at one path.

Path: beside the queries; plugins hand pages to Runtime.serve_http(), server/http/pages.py answers with them.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Mapping
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import ssl

TEXT: Final = "text/plain; charset=utf-8"
_ELEMENTS: Final = re.compile(r"<(script|style)>(.*?)</", re.DOTALL)
FIRST_PAUSE: Final = 0.1  # seconds
LONGEST_PAUSE: Final = 3.2  # seconds
FORGOTTEN_AFTER: Final = 60.0  # seconds without a wrong token
MAX_PAUSED: Final = 1024  # clients

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


def content_policy(page: str, **more: str) -> str:
    """The Content-Security-Policy that allows the scripts and styles in a file by their hashes, and nothing else."""
    allowed = {
        "default_src": "'none'",
        "script_src": "",
        "style_src": "",
        "base_uri": "'none'",
        "form_action": "'none'",
        "require_trusted_types_for": "'script'",
        "trusted_types": "'none'",
        **more,
    }
    for element, content in _ELEMENTS.findall(page):
        digest = b64encode(sha256(content.encode()).digest()).decode()
        allowed[f"{element}_src"] += f" 'sha256-{digest}'"
    return "; ".join(f"{name.replace('_', '-')} {text.strip()}" for name, text in allowed.items())


class PageRequest(NamedTuple):
    """What is asked of a page in pieces: the method, the parameters after the question mark, and the body."""

    method: str = "GET"
    parameters: Mapping[str, str] = {}
    body: bytes = b""


class AccessToken:
    """What requests for the pages of an address must know; `now` is monotonic seconds.

    After a wrong token the client has a pause, twice as long as its last one, and what it sends meanwhile is compared
    at the end.  So it tries as many tokens in a pause as it has connections, and the right one waits for one at most.
    """

    def __init__(self, text: str) -> None:
        self._text = text.encode()
        # The end and the length of the pause of each client, the oldest first.
        self._pauses: dict[bytes, tuple[float, float]] = {}

    def pause(self, client: bytes, now: float) -> float:
        """The seconds before a token of this client may be compared."""
        return max(0.0, self._pauses.get(client, (0.0, 0.0))[0] - now)

    def is_text(self, text: str, client: bytes, now: float) -> bool:
        """Compare a token; a wrong one is remembered."""
        if hmac.compare_digest(text.encode(), self._text):
            return True
        end, length = self._pauses.pop(client, (-inf, 0.0))
        if now >= end:  # not one of several that waited for this end
            length = 2 * length if now - end < FORGOTTEN_AFTER else FIRST_PAUSE
            length = min(length, LONGEST_PAUSE)
            end = now + length
        self._pauses[client] = end, length
        if len(self._pauses) > MAX_PAUSED:
            del self._pauses[next(iter(self._pauses))]
        return False


class HttpStream(NamedTuple):
    """A page in pieces, each of which is sent before the next one is made; between them queries are answered.

    `pieces` gets the request, and raises HttpRefusal before the first piece.  With a token, only requests with
    `Authorization: Bearer TOKEN` are answered.  Other methods and parameters than these are refused; HEAD is GET
    without the body.  `headers` are sent with it.  A page that `is_public` may be on the address of other pages.  One
    with `any_host` may be asked by any name of the server: it tells nothing that a page of another site must not read.
    Of those that are `is_endless`, few are sent at a time.
    """

    content_type: str
    pieces: Callable[..., AsyncGenerator[bytes, None]]
    token: AccessToken | None = None
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
