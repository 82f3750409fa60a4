"""What a plugin has answered over HTTP at one path.

Path: beside the queries; plugins hand pages to Runtime.serve_http(), server/http.py answers with them.
"""

from __future__ import annotations

from collections.abc import Callable
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
