from __future__ import annotations

import pytest

from hsdns.plugins.python import Next, Rcode, Reply, Request, UserHandler, record
from hsdns.plugins.python.testing import PASSED_ON, ask, options
from hsdns.wire.name import Name
from tests.support.plugins.requests import reply


class Mine(UserHandler):
    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        if request.query.qname.to_text() != "own.example.org.":
            return await next(request)
        ttl, address = self.options.args
        return Reply(answer=(record(request, 5, "A", address)._replace(ttl=int(ttl)),), aa=True)


def test_options() -> None:
    found = options("a", "b", lines=[("x", "1"), ("y",)], zones=("Example.ORG",))
    assert (found.args, found.lines) == (("a", "b"), (("x", "1"), ("y",)))
    assert found.zones == (Name.from_text("example.org."),)
    assert [word.text for word in found.directive.args] == ["module:Class", "a", "b"]
    assert [line.name.text for line in found.directive.lines] == ["x", "y"]


def test_ask() -> None:
    handler = Mine(options("30", "192.0.2.1"))
    assert ask(handler, "own.example.org.") == reply(
        ["own.example.org. 30 IN A 192.0.2.1"], aa=True
    )
    assert ask(handler, "other.example.org.", "TXT") == PASSED_ON
    below = Reply(rcode=Rcode.NXDOMAIN)
    assert ask(handler, "other.example.org.", below=below) is below


def test_what_the_server_would_refuse() -> None:
    with pytest.raises(
        AssertionError, match=r"^Mine returned a Reply whose answer\[0\] has TTL -1;"
    ):
        ask(Mine(options("-1", "192.0.2.1")), "own.example.org.")
    with pytest.raises(ValueError, match="300"):
        ask(Mine(options("1", "192.0.2.300")), "own.example.org.")
