from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hsdns.chain import Handler, Next, Request
from hsdns.plugin import Plugin
from hsdns.plugins.metadata import Metadata
from hsdns.plugins.whoami import Whoami
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with
from tests.support.plugins.setup import set_up
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")


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


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "metadata"))
def test_collects(given: str, expected: str) -> None:
    text, _, qname = given.partition(": ")
    found = collected(text, qname, Provider(a="1", b="1"), Whoami(), Provider(a="2"))
    shown = [f"{label.removeprefix('provider/')}={value}" for label, value in found.items()]
    assert (" ".join(shown) or "none") == expected


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
