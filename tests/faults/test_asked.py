"""What a rule sees of a request."""

from __future__ import annotations

import pytest

from hsdns.faults.selector import Asked
from tests.support.plugins.requests import make_request


@pytest.mark.parametrize(
    ("server", "protocol", "transport"),
    [
        ("dns://:53", "udp", "udp"),
        ("dns://127.0.0.1:53", "tcp", "tcp"),
        ("tls://:853", "tcp", "dot"),
        ("https://:443", "tcp", "doh"),
    ],
)
def test_transport(server: str, protocol: str, transport: str) -> None:
    request = make_request("Web.test", "AAAA", server=server, protocol=protocol, client="10.0.0.1")
    found = Asked.of(request, {"10.0.0.1": (b"shop", "web-0")}.get)
    assert (found.transport, found.server, found.local) == (transport, server, "127.0.0.1")
    assert (found.qname.to_text(), found.qtype, found.client) == ("Web.test.", 28, ("10.0.0.1", 40000))  # fmt: skip
    assert found.pod_of("10.0.0.1") == (b"shop", "web-0")
