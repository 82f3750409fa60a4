from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from hsdns.chain import Handler, Next, Request
from hsdns.plugin import Plugin
from hsdns.plugins.metadata import Metadata
from hsdns.plugins.whoami import Whoami
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with
from tests.support.plugins.setup import set_up


class Provider(Plugin):
    """Provides given values, and the client's address."""

    name = "provider"

    def __init__(self, **values: str) -> None:
        self.values = values

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass everything on."""
        return await next(request)

    def metadata(self, request: Request) -> Mapping[str, Callable[[], str]]:
        """Return the values."""
        found: dict[str, Callable[[], str]] = {
            f"provider/{label}": lambda value=value: value  # type: ignore[misc]  # a default for each
            for label, value in self.values.items()
        }
        return {**found, "provider/client": lambda: request.client.address}


def collected(text: str, qname: str, *handlers: Handler) -> dict[str, str]:
    """Return the metadata of a query, with all values computed."""
    plugin = set_up(Metadata, text, ["example.org."])
    plugin.find_handlers([plugin, *handlers])
    request = plugin.filter_request(make_request(qname))
    assert request.metadata is not None
    return {label: value() for label, value in request.metadata.items()}


@pytest.mark.parametrize(
    ("text", "qname", "expected"),
    [
        pytest.param(
            "metadata",
            "www.example.org.",
            {"provider/a": "2", "provider/b": "1", "provider/client": "127.0.0.1"},
            id="zones-of-the-block",
        ),
        pytest.param("metadata", "example.net.", {}, id="outside"),
        pytest.param("metadata a.example.org b.example.org", "example.org.", {}, id="own-zones"),
        pytest.param(
            "metadata a.example.org b.example.org",
            "www.B.example.org.",
            {"provider/a": "2", "provider/b": "1", "provider/client": "127.0.0.1"},
            id="inside-own-zones",
        ),
    ],
)
def test_collects(text: str, qname: str, expected: dict[str, str]) -> None:
    assert collected(text, qname, Provider(a="1", b="1"), Whoami(), Provider(a="2")) == expected


def test_values_belong_to_one_query() -> None:
    plugin = set_up(Metadata, "metadata")
    plugin.find_handlers([plugin, Provider(a="1")])
    first, second = (
        plugin.filter_request(make_request("a.")),
        plugin.filter_request(make_request("a.")),
    )
    assert first.metadata is not None
    first.metadata["provider/later"] = lambda: "x"
    assert second.metadata is not None
    assert "provider/later" not in second.metadata


def test_passes_queries_on() -> None:
    reply = Reply(aa=True)
    assert finish(Metadata([]).handle(make_request("a."), next_with(reply))) is reply
    assert Metadata.cacheable
