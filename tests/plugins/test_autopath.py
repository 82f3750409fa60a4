"""The walk along a search list; the walk of a pod of a cluster stands in tests/scenarios/autopath."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.answer_table.capabilities import Cacheable
from hsdns.chain import Handler, Request
from hsdns.plugins.autopath import Autopath
from hsdns.plugins.whoami import Whoami
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import ROOT, Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import Answers, make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up

NXDOMAIN = reply(
    authority=["lab. 60 IN SOA ns.lab. host.lab. 1 2 3 4 5"], rcode=Rcode.NXDOMAIN, aa=True
)
NODATA = reply(authority=["lab. 60 IN SOA ns.lab. host.lab. 1 2 3 4 5"], aa=True)


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


def test_the_first_name_that_exists_is_the_answer() -> None:
    plugin, runtime = made()
    there = reply(["www.b.lab. 30 IN A 192.0.2.1", "www.b.lab. 30 IN A 192.0.2.2"], aa=True)
    found, asked = walk(plugin, "www.a.lab.", NXDOMAIN, there)
    assert asked == ["www.a.lab.", "www.b.lab."]
    assert section(found.answer) == [
        "www.a.lab. 30 IN CNAME www.b.lab.",
        "www.b.lab. 30 IN A 192.0.2.1",
        "www.b.lab. 30 IN A 192.0.2.2",
    ]
    assert (found.rcode, found.aa) == (Rcode.NOERROR, True)
    assert counted(runtime) == {("dns://:53",): 1.0}


def test_the_name_alone_comes_last() -> None:
    plugin, _ = made()
    there = reply(["Www.Example.org. 30 IN A 192.0.2.1"])
    found, asked = walk(plugin, "Www.Example.org.a.lab.", NXDOMAIN, NXDOMAIN, there)
    assert asked == ["Www.Example.org.a.lab.", "Www.Example.org.b.lab.", "Www.Example.org."]
    assert section(found.answer)[0] == "Www.Example.org.a.lab. 30 IN CNAME Www.Example.org."


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(NODATA, id="nodata"),
        pytest.param(reply(["www.a.lab. 30 IN A 192.0.2.1"]), id="as asked"),
        pytest.param(
            reply(["www.a.lab. 30 IN CNAME x.", "x. 60 IN A 192.0.2.1"]), id="with a CNAME of its own"
        ),
        pytest.param(reply(rcode=Rcode.SERVFAIL), id="SERVFAIL that was written"),
    ],
)  # fmt: skip
def test_a_name_that_exists_as_it_was_asked_for_is_answered_as_it_is(there: Reply) -> None:
    plugin, runtime = made()
    found, asked = walk(plugin, "www.a.lab.", there)
    assert found is there
    assert asked == ["www.a.lab."]
    assert counted(runtime) == {("dns://:53",): 1.0}


def test_nodata_further_on_counts_as_found() -> None:
    plugin, _ = made()
    found, asked = walk(plugin, "www.a.lab.", NXDOMAIN, NODATA)
    assert asked == ["www.a.lab.", "www.b.lab."]
    assert (found.rcode, found.answer) == (Rcode.NOERROR, ())


def test_where_nothing_exists_the_first_reply_counts() -> None:
    plugin, runtime = made()
    other = reply(rcode=Rcode.NXDOMAIN)
    found, asked = walk(plugin, "www.a.lab.", NXDOMAIN, other, other)
    assert found is NXDOMAIN
    assert asked == ["www.a.lab.", "www.b.lab.", "www."]
    assert counted(runtime) == {}


def test_what_no_handler_wrote_is_walked_past() -> None:
    plugin, _ = made()
    there = reply(["www.b.lab. 30 IN A 192.0.2.1"])
    assert walk(plugin, "www.a.lab.", unwritten(Rcode.REFUSED), there)[0].rcode == Rcode.NOERROR
    first, last = unwritten(Rcode.REFUSED), NXDOMAIN
    assert walk(plugin, "www.a.lab.", first, last)[0] is first


@pytest.mark.parametrize(
    "ends", [unwritten(Rcode.SERVFAIL, "no upstream"), Reply(dropped=True)], ids=["error", "dropped"]
)  # fmt: skip
def test_an_error_ends_the_walk(ends: Reply) -> None:
    plugin, _ = made()
    found, asked = walk(plugin, "www.a.lab.", NXDOMAIN, ends)
    assert found is ends
    assert asked == ["www.a.lab.", "www.b.lab."]


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
