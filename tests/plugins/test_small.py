"""What a dialogue or a row of a table cannot say of small plugins: chance, properties, time, this host, other plugins."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address, IPv6Network, ip_network
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns import __version__
from hsdns.assemble import assemble
from hsdns.chain import Handler, Next, Request
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import CorefileError, Line, Position, Token
from hsdns.metrics import Registry
from hsdns.plugin import Plugin
from hsdns.plugins import ORDER, reload
from hsdns.plugins.acl import read_policy
from hsdns.plugins.autopath import Autopath
from hsdns.plugins.bind import Bind
from hsdns.plugins.cancel import Cancel
from hsdns.plugins.chaos import Chaos
from hsdns.plugins.dashboard import Dashboard
from hsdns.plugins.dns64 import embed
from hsdns.plugins.erratic import Erratic
from hsdns.plugins.hosts import Hosts
from hsdns.plugins.metadata import Metadata
from hsdns.plugins.nsid import Nsid
from hsdns.plugins.ready import Ready
from hsdns.plugins.reload import Reload, failures, show_version, versions
from hsdns.plugins.root import Root
from hsdns.plugins.whoami import Whoami
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import ROOT, Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

HOST = os.uname().nodename


def ask(
    plugin: Chaos | Erratic | Whoami,
    qname: str,
    qtype: str = "A",
    qclass: str = "IN",
    seed: int = 1,
) -> Reply:
    finish(plugin.start(FakeRuntime(seed)))
    return finish(plugin.handle(make_request(qname, qtype, qclass=qclass), next_with(Reply())))


# --- acl, dns64: addresses ---


@given(st.ip_addresses(), st.ip_addresses(), st.integers(0, 128))
def test_networks_of_acl_are_those_of_the_standard_library(
    address: Any, other: Any, bits: int
) -> None:
    network = f"{other}/{bits % (other.max_prefixlen + 1)}"
    position = Position("Corefile", 1, 1)
    words = tuple(Token(word, position) for word in ("net", network))
    policy = read_policy(Line(Token("block", position), words))
    found = ip_network(network, strict=False)
    if other.version == 6 and other.ipv4_mapped is not None:
        return  # those stand for IPv4 networks
    assert policy.matches(1, address) is (address in found)
    assert policy.matches(1, found[0])
    assert policy.matches(1, found[-1])


@pytest.mark.parametrize(("prefix", "expected"), columns(TABLES, "dns64"))
def test_dns64_embeds_an_address(prefix: str, expected: str) -> None:
    assert str(IPv6Address(embed(IPv6Network(prefix), bytes((192, 0, 2, 33))))) == expected


@given(st.sampled_from(range(32, 97, 8)), st.binary(min_size=4, max_size=4))
def test_an_embedded_address_is_16_octets_behind_its_prefix(length: int, address: bytes) -> None:
    prefix = IPv6Network(("2001:db8::", length))
    packed = embed(prefix, address)
    assert len(packed) == 16
    assert IPv6Address(packed) in prefix


# --- autopath: lists of another plugin, limits ---


class Knows(Whoami):
    """A plugin that knows one search list."""

    search: tuple[Name, ...] | None = None

    def search_path(self, request: Request) -> tuple[Name, ...] | None:
        """The list, whoever asks."""
        return self.search


@pytest.mark.parametrize(
    ("search", "late", "qname", "asked"),
    [
        (None, None, "www.a.lab.", ["www.a.lab."]),
        # A late watch is waited for before the list is read.
        (None, "a.lab", "www.a.lab.", ["www.a.lab.", "www."]),
        # A name that would be too long is left out.
        (f"a.lab {'y' * 63}.lab c.lab", None, "OWN.a.lab.", ["OWN.a.lab.", "OWN.c.lab.", "OWN."]),
    ],
)
def test_the_search_list_of_a_plugin(
    search: str | None, late: str | None, qname: str, asked: list[str]
) -> None:
    def names(text: str | None) -> tuple[Name, ...] | None:
        return None if text is None else (*map(Name.from_text, text.split()), ROOT)

    async def catch_up() -> None:
        knows.search = names(late)

    own = ".".join(["x" * 60, "x" * 60, "x" * 60, "x" * 4])
    plugin, knows, runtime = set_up(Autopath, "autopath @whoami"), Knows(), FakeRuntime()
    knows.search = names(search)
    runtime.late = lambda now: catch_up() if late else None
    plugin.find_handlers([plugin, knows])
    finish(plugin.start(runtime))
    below = next_with(reply(rcode=Rcode.NXDOMAIN))
    finish(plugin.handle(make_request(qname.replace("OWN", own), "MX", id=7), below))
    found = [request.query for request in below.requests]
    assert [query.qname.to_text().replace(own, "OWN") for query in found] == asked
    assert [(query.id, query.question_wire) for query in found] == [
        (7, query.qname.wire + b"\0\x0f\0\1") for query in found
    ]


def test_a_plugin_without_search_lists() -> None:
    plugin = set_up(Autopath, "autopath @whoami")
    with pytest.raises(
        Exception, match="whoami has no search lists; write a plugin that has, such"
    ):
        plugin.find_handlers([plugin, Whoami()])


def test_a_file_without_a_search_list(tmp_path: Path) -> None:
    (tmp_path / "resolv.conf").write_text("nameserver 192.0.2.1\n")
    plugin, below = set_up(Autopath, f"autopath lab {tmp_path}/resolv.conf"), next_with(Reply())
    plugin.find_handlers([plugin])
    finish(plugin.start(FakeRuntime()))
    finish(plugin.handle(make_request("www.a.lab."), below))
    assert len(below.requests) == 1


# --- bind: interfaces of this machine ---


INTERFACES = {
    "lo": ["127.0.0.1", "::1"],
    "eth0": ["10.0.0.5", "2001:db8::5", "fe80::5"],
    "dummy0": ["169.254.20.10"],
}
NEITHER = "is neither an IP address nor an interface of this machine"


@pytest.mark.parametrize(("text", "expected"), columns(TABLES, "bind"))
def test_addresses_of_bind(text: str, expected: str) -> None:
    try:
        found = " ".join(set_up(Bind, text.replace("\\n", "\n")).addresses(lambda: INTERFACES))
    except CorefileError as error:
        found = str(error)
    assert found == expected


# --- cancel: real time ---


def test_a_query_that_waits_too_long_is_cancelled() -> None:
    cancelled: list[bool] = []

    async def slow(request: Request) -> Reply:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)
        return Reply()

    found = asyncio.run(set_up(Cancel, "cancel 1ms").handle(make_request("x."), slow))
    assert found == unwritten(Rcode.SERVFAIL, "plugin/cancel: no answer within 1ms")
    assert cancelled == [True]
    assert all(
        ORDER.index(name) < ORDER.index("cancel") for name in ("prometheus", "errors", "log")
    )


def test_a_timeout_of_a_handler_is_its_own() -> None:
    async def raises(request: Request) -> Reply:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        asyncio.run(Cancel(5.0).handle(make_request("x."), raises))


# --- chaos, nsid: this server, by chance ---


@pytest.mark.parametrize(
    ("text", "qname", "answer"),
    [
        ("chaos", "version.bind.", f"hsdns-{__version__}"),
        (f"chaos {'v' * 300}", "version.bind.", "v" * 255),
        ("chaos", "hostname.bind.", HOST),
        ("chaos", "id.server.", HOST),
    ],
)
def test_chaos(text: str, qname: str, answer: str) -> None:
    found = ask(set_up(Chaos, text), qname, "TXT", "CH")
    assert section(found.answer) == [f'{qname} 0 CH TXT "{answer}"']


def test_authors_come_in_any_order() -> None:
    orders = {
        tuple(
            section(ask(set_up(Chaos, "chaos v1 a b"), "authors.bind.", "TXT", "CH", seed).answer)
        )
        for seed in range(20)
    }
    a, b = (f'authors.bind. 0 CH TXT "{name}"' for name in "ab")
    assert orders == {(a, b), (b, a)}


@pytest.mark.parametrize(("directive", "expected"), [("chaos", True), ("whoami", False)])
def test_a_listener_with_chaos_lets_other_classes_through(directive: str, expected: bool) -> None:
    text = f"a.test {{\n{directive}\n}}\nb.test {{\nwhoami\n}}\n"
    tree = parse("Corefile", text=text, environ={}, known_directives=frozenset(ORDER))
    (listener,) = assemble(tree, warn=lambda sentence: None).listeners
    assert listener.any_class is expected


@pytest.mark.parametrize("text", ["nsid", 'nsid ""'])
def test_nsid_is_the_name_of_the_host_by_default(text: str) -> None:
    assert set_up(Nsid, text).data == HOST.encode()


def test_records_of_whoami_have_the_class_of_the_question() -> None:
    assert [record.rrclass for record in ask(Whoami(), "x.", qclass="CH").additional] == [3, 3]


# --- dashboard, erratic: what they tell the server and others ---


def test_addresses_of_dashboards() -> None:
    runtime = FakeRuntime()
    finish(set_up(Dashboard, "dashboard [::1]:8079\ndashboard :8080").start(runtime))
    assert runtime.dashboards == ["[::1]:8079", ":8080"]


def test_erratic_is_ready_after_the_third_and_the_fourth_query_and_has_the_search_list_of_coredns() -> (
    None
):
    plugin, ready = set_up(Erratic, "erratic"), []
    for _ in range(6):
        ready.append(plugin.ready())
        ask(plugin, "a.")
    assert ready == [False, False, False, True, True, False]
    found = plugin.search_path(make_request("a."))
    assert [name.to_text() for name in found] == ["a.example.org.", "b.example.org.", "."]


@pytest.mark.parametrize(
    ("zones", "is_warned"), [(".", False), ("org", False), ("example.org", True)]
)
def test_zones_of_erratic_restrict_nothing(zones: str, is_warned: bool) -> None:
    warnings: list[str] = []
    own = ["."] if zones == "." else ["example.org.", "a.org."]
    set_up(Erratic, f"erratic {zones}", own, warnings)
    sentence = "Corefile:2:9: the zones of erratic have no effect, as in CoreDNS 1.14.7: it answers all names of the server block"
    assert warnings == [sentence] * is_warned


def test_last_of_several_takes_effect() -> None:
    assert set_up(Root, "root /etc\nroot /").root_folder == "/"


def test_a_missing_directory_is_a_warning(tmp_path: Path) -> None:
    warnings: list[str] = []
    set_up(Root, f"root {tmp_path}/none", warnings=warnings)
    assert warnings == [
        f"Corefile:2:6: root directory {tmp_path}/none does not exist; relative paths still refer to it"
    ]


def test_relative_paths_of_the_block(tmp_path: Path) -> None:
    text = f"a {{\n hosts list\n root {tmp_path}\n}}\nb {{\n hosts list\n}}\nc {{\n root {tmp_path}\n hosts /list\n}}\n"
    corefile = parse("Corefile", text=text, environ={}, known_directives=frozenset(ORDER))
    plugins = assemble(corefile, warn=lambda sentence: None).plugins
    paths = [plugin.path for plugin in plugins if isinstance(plugin, Hosts)]
    assert paths == [str(tmp_path / "list"), "list", "/list"]


TEXT = "text/plain; charset=utf-8"
OK = (200, TEXT, b"OK")


def waits(names: str) -> tuple[int, str, bytes]:
    return 503, TEXT, names.encode()


@pytest.mark.parametrize(("given", "expected"), columns(TABLES, "ready"))
def test_answer(given: str, expected: str) -> None:
    """Each time the plugins that are not ready; `-` are none."""
    text, _, unready = given.partition(": ")
    runtime = FakeRuntime()
    finish(set_up(Ready, text.replace("\\n", "\n")).start(runtime))
    page = runtime.http[":8181"]["/ready"]
    for names, answer in zip(unready.split("; "), expected.split("; "), strict=True):
        runtime.unready = [] if names == "-" else names.split()
        status, body = answer.split(" ", 1)
        assert page("/ready") == (int(status), TEXT, body.encode())


@pytest.mark.parametrize("text", ["ready", "ready {\n monitor continuously\n}"])
def test_stopping_is_not_ready(text: str) -> None:
    runtime = FakeRuntime()
    finish(set_up(Ready, text).start(runtime))
    page = runtime.http[":8181"]["/ready"]
    assert page("/ready") == OK
    runtime.stopping = True
    assert page("/ready") == waits("Shutting down")


def test_unready_plugins_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hsdns.plugin.ready")
    runtime = FakeRuntime()
    runtime.unready = ["kubernetes"]
    finish(set_up(Ready, "ready").start(runtime))
    runtime.http[":8181"]["/ready"]("/ready")
    assert [record.getMessage() for record in caplog.records] == [
        'plugin/ready: Plugins not ready: "kubernetes"'
    ]


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


def test_period_is_the_interval_plus_or_minus_half_of_the_jitter() -> None:
    random, plugin = Random(1), Reload(30, 10)
    periods = [plugin.period(random) for _ in range(1000)]
    assert 25 <= min(periods) < 25.5
    assert 34.5 < max(periods) <= 35


def test_checks_after_each_period(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        if len(slept) == 3:
            raise asyncio.CancelledError
        slept.append(seconds)

    monkeypatch.setattr(reload, "sleep", sleep)
    runtime = FakeRuntime()
    finish(set_up(Reload, "reload 20s 0s").start(runtime))
    assert runtime.reloads == 0
    with pytest.raises(asyncio.CancelledError):
        finish(runtime.spawned["reload"])
    assert (slept, runtime.reloads) == ([20.0] * 3, 3)


def test_metrics() -> None:
    runtime = FakeRuntime()
    finish(Reload().start(runtime))
    runtime.spawned["reload"].close()
    assert failures(runtime.metrics).values == {(): 0}
    assert versions(runtime.metrics).values == {}


def test_only_the_last_digest_is_exported() -> None:
    metrics = Registry()
    show_version(metrics, "aa")
    show_version(metrics, "bb")
    failures(metrics).inc()
    text = metrics.to_text().decode()
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'coredns_reload_version_info{hash="sha512",value="bb"} 1.0',
        "coredns_reload_failed_total 1.0",
    ]
