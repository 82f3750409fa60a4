"""The built-in Corefile, and the flags that make it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsdns.assemble import assemble
from hsdns.cli import source as builtin
from hsdns.cli.command import FlagError
from hsdns.cli.source import source_tokens
from hsdns.corefile.tree import CorefileError
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.recording.entry import Header
from tests.support.plugins.corefiles import assembled, parsed
from tests.support.tables import columns, values

TABLES = Path(__file__).with_name("tables.txt")

INTERFACES = {"lo": ["127.0.0.1", "::1"], "eth0": ["192.0.2.7"]}
ZONES = ["cluster.local.", "in-addr.arpa.", "ip6.arpa."]


@pytest.mark.parametrize(
    ("forward", "log", "zones", "plugins"),
    [
        ((), False, ZONES, ["bind", "errors", "loadbalance", "kubernetes"]),
        ((), True, [".", *ZONES], ["bind", "bind", "errors", "log", "log", "loadbalance", "template", "kubernetes"]),
        (("192.0.2.1",), False, ["."], ["bind", "errors", "loadbalance", "kubernetes", "loop", "forward"]),
        (("192.0.2.1",), True, ["."], ["bind", "errors", "log", "loadbalance", "kubernetes", "loop", "forward"]),
    ],
)  # fmt: skip
def test_corefile(
    forward: tuple[str, ...], log: bool, zones: list[str], plugins: list[str]
) -> None:
    text = builtin.corefile(["127.0.0.1", "::1"], forward=forward, log=log)
    configuration = assembled(text)
    assert [served.listen.host for served in configuration.listeners] == ["127.0.0.1", "::1"]
    assert sorted(zone.to_text() for zone in configuration.listeners[0].zones) == zones
    assert [plugin.name for plugin in configuration.plugins] == plugins


def test_the_block_of_a_recording() -> None:
    """Of its properties those that shape answers; others would have a file of somebody else read files here."""
    lines = [["pods", "verified"], ["ttl", "7"], ["kubeconfig", "/tmp/x"], ["noendpoints"], []]
    header = Header(zones=["a.test.", "10.in-addr.arpa."], kubernetes=lines)
    plugins = assembled(builtin.corefile(["::1"], header=header)).plugins
    (block,) = [each for each in plugins if isinstance(each, Kubernetes)]
    assert [zone.to_text() for zone in block.zones] == header.zones
    assert block.lines[:-1] == (("pods", "verified"), ("ttl", "7"), ("noendpoints",))
    text = builtin.corefile(["::1"], header=Header())
    assert f"kubernetes {builtin.ZONES} {{\n        source" in text


CODE = "\n}\nevil {\npython os:_exit\n}\nx {\n"


@pytest.mark.parametrize(
    "header",
    [
        Header(zones=[f"x {{{CODE}"]),
        Header(zones=["import", "/etc/passwd"]),
        Header(zones=["(x)", "{"]),
        Header(kubernetes=[["ttl", f"5\n}}{CODE}kubernetes x {{"]]),
        Header(kubernetes=[["ttl", 'x\\" ', f"{CODE}"]]),
        Header(kubernetes=[["ttl", "x\\"], ["namespaces", CODE]]),
        Header(kubernetes=[["ttl", "}"]]),
    ],
)
def test_a_recording_names_no_code(header: Header) -> None:
    """It is refused, or its text stays a word of its place."""
    try:
        text = builtin.corefile(["::1"], header=header)
    except CorefileError:
        return
    (block,) = parsed(text).blocks
    assert [each.name.text for each in block.directives] == ["bind", "errors", "kubernetes", "loadbalance"]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("127.0.0.1", ("127.0.0.1",)),
        ("::1", ("::1",)),
        ("0.0.0.0", ("0.0.0.0",)),
        ("localhost", ("127.0.0.1", "::1")),
        ("LOCALHOST", ("127.0.0.1", "::1")),
        ("eth0", ("eth0",)),
    ],
)
def test_listen_hosts(text: str, hosts: tuple[str, ...]) -> None:
    assert builtin.listen_hosts(text, "--listen", lambda: INTERFACES) == hosts


def test_localhost_without_ipv6() -> None:
    assert builtin.listen_hosts("localhost", "--listen", lambda: {"lo": ["127.0.0.1"]}) == (
        "127.0.0.1",
    )


@pytest.mark.parametrize(("text", "error"), columns(TABLES, "hosts of --listen that are none"))
def test_listen_hosts_that_are_none(text: str, error: str) -> None:
    with pytest.raises(FlagError) as raised:
        builtin.listen_hosts(text, "--listen", lambda: INTERFACES)
    assert str(raised.value) == error


def test_upstreams(tmp_path: Path) -> None:
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text("nameserver 192.0.2.1\n")
    builtin.check_upstreams(["192.0.2.1", "192.0.2.1:5353", "tls://192.0.2.1", str(resolv_conf)])


@pytest.mark.parametrize(
    ("word", "error"),
    [
        ("/no/such", '--forward: "/no/such" is not an IP address, a file or a host name; write an address such as "10.0.0.2:53"'),
        ("empty", '--forward: "empty" names no server; add a nameserver line to it'),
    ],
)  # fmt: skip
def test_upstreams_that_are_none(
    word: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").touch()
    with pytest.raises(FlagError) as raised:
        builtin.check_upstreams([word])
    assert str(raised.value) == error


@pytest.mark.parametrize("path", values(TABLES, "quoted path is one word"))
def test_quoted_path_is_one_word(path: str) -> None:
    text = f". {{\nhosts {builtin.quoted(path)}\n}}"
    corefile = parsed(text)
    assert [token.text for token in corefile.blocks[0].directives[0].args] == [path]


def test_an_error_in_a_source_names_the_flag() -> None:
    source = source_tokens(["manifest", "x"], None)
    corefile = builtin.corefile_source(None, builtin.corefile(["127.0.0.1"])).load()
    with pytest.raises(CorefileError) as raised:
        assemble(corefile, source=source, warn=pytest.fail)
    assert str(raised.value) == '--source: unknown source "manifest"; did you mean "manifests"?'


def test_a_given_corefile() -> None:
    assert builtin.corefile_source("x.conf", "").path == "x.conf"
    assert builtin.corefile_source(None, "").path == builtin.NAME
