"""The faults of an API server, and of proxies before it, that tests make.

Source: Kubernetes API concepts, and what proxies and load balancers in front of an API server send.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loadtest.apiserver.faults import JSON, Fault, error_line, status_body

TEXT: Final = {"Content-Type": "text/plain; charset=utf-8"}
HTML: Final = {"Content-Type": "text/html"}
PAGE: Final = b"<html><head><title>503 Service Temporarily Unavailable</title></head>\n<body>try later</body></html>\n"


def too_many_requests(retry_after: int | None = 1) -> Fault:
    """Make the response of API Priority and Fairness under load: 429 and a text."""
    return Fault(429, _retry(TEXT, retry_after), b"Too many requests, please try again later.\n")


def unavailable(retry_after: int | None = None) -> Fault:
    """Make the server's 503, as while it starts."""
    body = status_body(503, "ServiceUnavailable", "the server is currently unable to handle it")
    return Fault(503, _retry(JSON, retry_after), body)


def html_page(status: int = 503) -> Fault:
    """Make a proxy's error page; with status 200 one that only looks like success (a login page)."""
    return Fault(status, HTML, PAGE)


def internal_error() -> Fault:
    """Make a 500, as when etcd is unreachable."""
    return Fault(500, body=status_body(500, "InternalError", "etcdserver: request timed out"))


def not_found() -> Fault:
    """Make the response of a server without the resource."""
    return Fault(404, TEXT, b"404 page not found\n")


def expired() -> Fault:
    """Make a 410 as the status of the response."""
    return Fault(410, body=status_body(410, "Expired", "too old resource version: 1 (2)"))


def expired_event() -> Fault:
    """Make a 410 as an ERROR event in a response with status 200."""
    return Fault(200, body=error_line(expired().body))


def refused() -> Fault:
    """End the connection before a response."""
    return Fault(then="refused")


def cut(at: int = 0) -> Fault:
    """Cut the connection after this many octets of the body."""
    return Fault(then="cut", at=at)


def ended(at: int = 0) -> Fault:
    """End the body in an orderly way after this many octets, but inside a line."""
    return Fault(then="ended", at=at)


def silent(at: int = 0) -> Fault:
    """Send nothing after this many octets, and keep the connection open."""
    return Fault(then="silent", at=at)


def slowly(piece: int = 1) -> Fault:
    """Send the body in pieces of this many octets."""
    return Fault(piece=piece)


def _retry(headers: Mapping[str, str], seconds: int | None) -> Mapping[str, str]:
    return headers if seconds is None else {**headers, "Retry-After": str(seconds)}
