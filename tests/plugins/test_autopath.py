"""The walk along a search list; the walk of a pod of a cluster stands in tests/scenarios/autopath."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.answer_table.capabilities import Cacheable
from hsdns.chain import Handler, Request
from hsdns.plugins.autopath import Autopath
from hsdns.plugins.whoami import Whoami
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from hsdns.wire.name import ROOT, Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import Answers, make_request, next_with, reply
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

NXDOMAIN = reply(
    authority=["lab. 60 IN SOA ns.lab. host.lab. 1 2 3 4 5"], rcode=Rcode.NXDOMAIN, aa=True
)


class Knows(Whoami):
    """A plugin that knows one search list."""

    search: tuple[Name, ...] | None = None

    def search_path(self, request: Request) -> tuple[Name, ...] | None:
        """The list, whoever asks."""
        return self.search


def made(
    text: str = "autopath @whoami", search: str | None = "a.lab b.lab", zones: tuple[str, ...] = (".",)
) -> tuple[Autopath, FakeRuntime]:  # fmt: skip
    """The plugin, beside one that knows this list."""
    plugin, knows, runtime = set_up(Autopath, text, zones), Knows(), FakeRuntime()
    if search is not None:
        knows.search = (*map(Name.from_text, search.split()), ROOT)
    plugin.find_handlers([plugin, knows])
    finish(plugin.start(runtime))
    return plugin, runtime


def walk(plugin: Autopath, qname: str, *replies: Reply) -> tuple[Reply, list[str]]:
    """The reply, and the names that were asked for."""
    below: Answers = next_with(*replies)
    found = finish(plugin.handle(make_request(qname), below))
    return found, [request.query.qname.to_text() for request in below.requests]


# --- setup ---


def test_a_plugin_that_is_not_there_is_a_warning_and_nothing_is_walked() -> None:
    warnings: list[str] = []
    plugin = set_up(Autopath, "autopath @kubernetes", warnings=warnings)
    plugin.find_handlers([plugin, Whoami()])
    finish(plugin.start(FakeRuntime()))
    assert warnings == [
        "Corefile:2:10: there is no plugin kubernetes in this server block, so autopath has no effect"
    ]
    assert walk(plugin, "www.a.lab.", NXDOMAIN)[1] == ["www.a.lab."]


def test_a_plugin_that_knows_no_lists_is_an_error() -> None:
    plugin = set_up(Autopath, "autopath @whoami")
    others: list[Handler] = [plugin, Whoami()]
    with pytest.raises(
        Exception, match="whoami has no search lists; write a plugin that has, such"
    ):
        plugin.find_handlers(others)


def test_a_file_has_the_list_of_all_clients(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("search x.lab\nnameserver 192.0.2.1\nsearch a.lab B.lab\n")
    plugin = set_up(Autopath, f"autopath lab {path}")
    plugin.find_handlers([plugin])
    finish(plugin.start(FakeRuntime()))
    assert walk(plugin, "www.a.lab.", NXDOMAIN)[1] == ["www.a.lab.", "www.b.lab.", "www."]
    path.write_text("nameserver 192.0.2.1\n")
    alone = set_up(Autopath, f"autopath lab {path}")
    alone.find_handlers([alone])
    finish(alone.start(FakeRuntime()))
    assert walk(alone, "www.a.lab.", NXDOMAIN)[1] == ["www.a.lab."]


def test_it_is_not_kept_in_the_answer_table() -> None:
    assert not isinstance(made()[0], Cacheable)


# --- the walk ---


@pytest.mark.parametrize(
    ("qname", "search", "zones"),
    [
        pytest.param("www.b.lab.", "a.lab b.lab", ".", id="not below the first domain"),
        pytest.param("a.lab.", "a.lab b.lab", ".", id="the first domain itself"),
        pytest.param("www.a.lab.", "a.lab b.lab", "example.org", id="outside the zones"),
        pytest.param("www.a.lab.", None, ".", id="client without a list"),
    ],
)
def test_other_names_are_passed_on(qname: str, search: str | None, zones: str) -> None:
    plugin, runtime = made(f"autopath {zones} @whoami", search)
    found, asked = walk(plugin, qname, NXDOMAIN)
    assert found is NXDOMAIN
    assert asked == [qname]
    assert counted(runtime) == {}


def counted(runtime: FakeRuntime) -> dict[tuple[str, ...], float]:
    """The successes by server."""
    found = runtime.metrics.counter("coredns_autopath_success_total", "", ("server",))
    return dict(found.values)


def test_a_name_that_would_be_too_long_is_left_out() -> None:
    own = ".".join(["x" * 60, "x" * 60, "x" * 60, "x" * 4])
    plugin, _ = made(search=f"a.lab {'y' * 63}.lab c.lab")
    _, asked = walk(plugin, f"{own}.a.lab.", NXDOMAIN)
    assert asked == [f"{own}.a.lab.", f"{own}.c.lab.", f"{own}."]


def test_the_question_below_is_of_the_same_type_and_class() -> None:
    plugin, _ = made()
    below = next_with(NXDOMAIN)
    finish(plugin.handle(make_request("www.a.lab.", "MX", id=7), below))
    last = below.requests[-1].query
    assert (last.id, last.qtype, last.question_wire) == (7, 15, b"\3www\0\0\x0f\0\1")


def test_a_late_watch_is_waited_for_before_the_search_list_is_read() -> None:
    plugin, runtime = made(search=None)
    knows = plugin._paths
    assert isinstance(knows, Knows)

    async def catch_up() -> None:
        knows.search = (Name.from_text("a.lab"), ROOT)

    runtime.late = lambda now: catch_up()
    assert walk(plugin, "www.a.lab", NXDOMAIN)[1] == ["www.a.lab.", "www."]
