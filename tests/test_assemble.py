"""A Corefile to listeners and plugins; nothing is opened."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from hsdns.assemble import Configuration, ListenAddress, assemble, plugin_class
from hsdns.corefile.parser import parse
from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.plugin import Block, Plugin
from hsdns.plugins import NOT_YET, ORDER
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.plugins.whoami import Whoami
from tests.support.plugins.corefiles import KUBEADM

INTERFACES = {"lo": ["127.0.0.1", "::1"], "eth0": ["192.0.2.7"]}


DATA = Path(__file__).parent / "data" / "tls"
TLS = f"tls {DATA}/server.pem {DATA}/server.key"


def build(text: str, path: str = "Corefile", **options: Any) -> Configuration:
    corefile = parse(path, text=text, environ={}, known_directives=ORDER, not_yet=NOT_YET)
    settings: dict[str, Any] = {"interfaces": lambda: INTERFACES, "warn": pytest.fail, **options}
    return assemble(corefile, **settings)


def listeners(configuration: Configuration) -> dict[str, list[str]]:
    return {
        listener.listen.server: [zone.to_text() for zone in listener.zones]
        for listener in configuration.listeners
    }


# --- where blocks listen ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(". {\nwhoami\n}", {"dns://:1053": ["."]}, id="port-of-the-command-line"),
        pytest.param(".:53 {\nwhoami\n}", {"dns://:53": ["."]}, id="port-of-the-key"),
        pytest.param("dns://.:53 {\nwhoami\n}", {"dns://:53": ["."]}, id="scheme"),
        pytest.param("a.org, b.org {\nwhoami\n}", {"dns://:1053": ["a.org.", "b.org."]}, id="two-keys"),
        pytest.param(
            "a.org:53 b.org:54 {\nwhoami\n}", {"dns://:53": ["a.org."], "dns://:54": ["b.org."]}, id="two-ports",
        ),
        pytest.param(
            "a.org {\nwhoami\n}\nb.org {\nlog\n}", {"dns://:1053": ["a.org.", "b.org."]}, id="blocks-share-a-socket",
        ),
        pytest.param(
            "10.0.0.0/23 {\nwhoami\n}",
            {"dns://:1053": ["0.0.10.in-addr.arpa.", "1.0.10.in-addr.arpa."]},
            id="network",
        ),
        pytest.param(
            ". {\nbind 127.0.0.1 ::1\nwhoami\n}", {"dns://127.0.0.1:1053": ["."], "dns://[::1]:1053": ["."]}, id="bind",
        ),
        pytest.param(". {\nbind eth0\nwhoami\n}", {"dns://192.0.2.7:1053": ["."]}, id="bind-interface"),
        pytest.param(
            "a.org:53 b.org:54 {\nbind lo\nwhoami\n}",
            {
                "dns://127.0.0.1:53": ["a.org."], "dns://[::1]:53": ["a.org."],
                "dns://127.0.0.1:54": ["b.org."], "dns://[::1]:54": ["b.org."],
            },
            id="two-ports-and-bind",
        ),
        pytest.param(
            ". {\nbind 127.0.0.1\nwhoami\n}\n. {\nbind 127.0.0.2\nwhoami\n}",
            {"dns://127.0.0.1:1053": ["."], "dns://127.0.0.2:1053": ["."]},
            id="one-zone-on-two-addresses",
        ),
        pytest.param(
            ". {\nbind 127.0.0.1\nwhoami\n}\na.org {\nwhoami\n}",
            {"dns://127.0.0.1:1053": ["."], "dns://:1053": ["a.org."]},
            id="bound-and-unbound-of-different-zones",
        ),
        pytest.param(
            ".:53 {\nbind 127.0.0.1\nwhoami\n}\n.:54 {\nwhoami\n}",
            {"dns://127.0.0.1:53": ["."], "dns://:54": ["."]},
            id="bound-and-unbound-of-different-ports",
        ),
    ],
)  # fmt: skip
def test_listeners(text: str, expected: dict[str, list[str]]) -> None:
    assert listeners(build(text, default_port=1053)) == expected


def test_default_port_is_53() -> None:
    assert listeners(build(". {\nwhoami\n}")) == {"dns://:53": ["."]}


@pytest.mark.parametrize(
    ("host", "server", "is_wildcard"),
    [
        ("", "dns://:53", True),
        ("0.0.0.0", "dns://0.0.0.0:53", True),
        ("::", "dns://[::]:53", True),
        ("0:0::0", "dns://[0:0::0]:53", True),
        ("127.0.0.1", "dns://127.0.0.1:53", False),
        ("::1", "dns://[::1]:53", False),
        ("fe80::1%eth0", "dns://[fe80::1%eth0]:53", False),
    ],
)
def test_listen(host: str, server: str, is_wildcard: bool) -> None:
    listen = ListenAddress(host, 53)
    assert (listen.server, listen.is_wildcard) == (server, is_wildcard)


def test_interfaces_are_looked_at_only_for_bind() -> None:
    def no_interfaces() -> dict[str, list[str]]:
        raise AssertionError("no block has bind")

    assert build(". {\nwhoami\n}", interfaces=no_interfaces).listeners


@pytest.mark.parametrize(
    ("text", "any_class"),
    [
        pytest.param(". {\nwhoami\n}", [False], id="closed"),
        pytest.param(". {\nforward . 127.0.0.1\n}", [True], id="forward"),
        pytest.param("a.org {\nwhoami\n}\nb.org {\nforward . 127.0.0.1\n}", [True], id="neighbour"),
        pytest.param("a.org:54 {\nwhoami\n}\nb.org {\nforward . 127.0.0.1\n}", [False, True], id="other-port"),
    ],
)  # fmt: skip
def test_any_class(text: str, any_class: list[bool]) -> None:
    assert [listener.any_class for listener in build(text).listeners] == any_class


# --- plugins ---


def test_plugins_are_set_up_in_order_through_all_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up: list[tuple[str, str]] = []
    words = ("whoami", "log", "errors", "loadbalance")
    for name in words:
        plugin = plugin_class(name)
        real = plugin.setup

        def setup(directives: Any, block: Block, real: Any = real, name: str = name) -> Plugin:
            set_up.append((name, block.zones[0].to_text()))
            made: Plugin = real(directives, block)
            return made

        monkeypatch.setattr(plugin, "setup", setup)
    body = "\n".join(words)
    configuration = build(f"a.org {{\n{body}\n}}\nb.org {{\n{body}\n}}")
    in_order = [name for name in ORDER if name in words]
    assert set_up == [(name, zone) for name in in_order for zone in ("a.org.", "b.org.")]
    for block in configuration.blocks:
        assert [plugin.name for plugin in block.plugins] == in_order
    assert [plugin.name for plugin in configuration.plugins] == [
        name for name in in_order for _ in range(2)
    ]


def test_plugins_that_answer_nothing_stand_in_no_chain() -> None:
    block = build(". {\nwhoami\nreload\nbind 127.0.0.1\ndebug\nlog\n}").blocks[0]
    assert [plugin.name for plugin in block.plugins] == ["reload", "bind", "debug", "log", "whoami"]
    assert [plugin.name for plugin in block.handlers] == ["log", "whoami"]


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("Corefile", "."),
        ("/Corefile", "/"),
        ("/etc/coredns/Corefile", "/etc/coredns"),
        ("conf/Corefile", "conf"),
        ("stdin", "."),
    ],
)
def test_block(path: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a setup is told of its block."""
    told: list[Block] = []

    def setup(directives: Any, block: Block) -> Whoami:
        told.append(block)
        return Whoami()

    monkeypatch.setattr(Whoami, "setup", setup)
    source = (Token("synthetic", Position("command line", 1, 1)),)
    text = "a.org b.org:54 a.org:54 {\nbind 127.0.0.1\nwhoami\nlog\n}"
    build(text, path, validating=True, source=source)
    (block,) = told
    assert [zone.to_text() for zone in block.zones] == ["a.org.", "b.org."]
    assert block.servers == ("dns://127.0.0.1:53", "dns://127.0.0.1:54")
    assert block.plugins == {"bind", "whoami", "log"}
    assert block.corefile_dir == folder
    assert block.validating
    assert block.source == source


@pytest.mark.parametrize("name", ORDER)
def test_plugin_class(name: str) -> None:
    assert plugin_class(name).name == name


def test_source_of_the_command_line_replaces_the_blocks_own(tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text("")
    text = (
        "cluster.local {\nkubernetes {\nsource manifests none.yaml\n}\n}\n"
        "other.local {\nkubernetes\n}"
    )
    path = str(tmp_path / "Corefile")
    token = Token("synthetic", Position("command line", 1, 1))

    def sources(**options: Any) -> list[str]:
        return [
            type(plugin.source).__name__
            for plugin in build(text, path, **options).plugins
            if isinstance(plugin, Kubernetes)
        ]

    own = sources()
    assert own[1] == "ApiServer"
    replaced = sources(source=(token,))
    assert replaced == ["Synthetic", "Synthetic"]
    assert own[0] != replaced[0]


# --- faults ---


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            ". {\nwhoami\n}\n. {\nlog\n}",
            "Corefile:4:1: dns://.:53 is already served by the block at Corefile:1:1; merge the blocks or change one of "
            "the keys",
            id="zone-twice",
        ),
        pytest.param(
            "a.org A.ORG:53 {\nwhoami\n}",
            "Corefile:1:7: dns://a.org.:53 is already served by the block at Corefile:1:1; merge the blocks or change "
            "one of the keys",
            id="zone-twice-in-one-block",
        ),
        pytest.param(
            "10.0.0.0/8 {\nwhoami\n}\n10.in-addr.arpa {\nwhoami\n}",
            "Corefile:4:1: dns://10.in-addr.arpa.:53 is already served by the block at Corefile:1:1; merge the blocks or "
            "change one of the keys",
            id="network-twice",
        ),
        pytest.param(
            ". {\nbind 127.0.0.1\nwhoami\n}\n. {\nbind lo\nwhoami\n}",
            "Corefile:5:1: dns://.:53 is already served by the block at Corefile:1:1; merge the blocks or change one of "
            "the keys",
            id="zone-twice-on-one-address",
        ),
        pytest.param(
            ". {\nbind 127.0.0.1\nwhoami\n}\n. {\nwhoami\n}",
            "Corefile:5:1: dns://.:53 overlaps with the block at Corefile:1:1: one of them is bound to an address and the "
            "other to all; give both a bind",
            id="bound-then-unbound",
        ),
        pytest.param(
            ". {\nwhoami\n}\n. {\nbind 127.0.0.1\nwhoami\n}",
            "Corefile:4:1: dns://.:53 overlaps with the block at Corefile:1:1: one of them is bound to an address and the "
            "other to all; give both a bind",
            id="unbound-then-bound",
        ),
        pytest.param(
            ". {\nbind eht0\nwhoami\n}",
            'Corefile:2:6: "eht0" is neither an IP address nor an interface of this machine; did you mean "eth0"?',
            id="no-interface",
        ),
        *(
            pytest.param(
                f"{scheme}://. {{\nwhoami\n}}",
                f'Corefile:1:1: "{scheme}://.": hsdns has no {scheme}:// listener, since {why}; it has dns://, tls://, https://',
                id=scheme,
            )
            for scheme, why in (
                ("quic", "Python has no maintained QUIC library that works with its ssl module"),
                ("https3", "it needs QUIC"),
                ("grpc", "only CoreDNS itself sends queries over it"),
            )
        ),
        pytest.param(
            ".:1053 {\nwhoami\n}\ntls://.:1053 {\nwhoami\n}",
            'Corefile:4:1: "tls://.:1053": port 1053 already speaks dns://; change one of the ports',
            id="two-schemes",
        ),
        pytest.param(
            "tls://.:1 {\nbind 127.0.0.1\nwhoami\n}\nhttps://.:1 {\nwhoami\n}",
            'Corefile:5:1: "https://.:1": port 1 already speaks tls://; change one of the ports',
            id="two-schemes-one-bound",
        ),
        pytest.param(
            "tls://.:1 {\nwhoami\n}\ntls://. tls://.:1 {\nwhoami\n}",
            "Corefile:4:9: tls://.:1 is already served by the block at Corefile:1:1; merge the blocks or change one of the keys",
            id="twice-over-tls",
        ),
        pytest.param(
            f"tls://a.org {{\n{TLS}\nwhoami\n}}\ntls://b.org {{\n{TLS} {DATA}/ca.pem\nwhoami\n}}",
            "Corefile:6:5: another block of this address has other TLS files, at Corefile:2:5; "
            "an address has one certificate; use the same files or another port",
            id="two-certificates",
        ),
        pytest.param(
            ". {\nwhoami now\n}", 'Corefile:2:8: "whoami" takes no argument, found "now"', id="of-a-plugin",
        ),
        pytest.param(
            ". {\nkubernetes cluster.local {\nttll 5\n}\n}",
            'Corefile:3:1: unknown property "ttll" of kubernetes; did you mean "ttl"?',
            id="property",
        ),
    ],
)  # fmt: skip
def test_error(text: str, error: str) -> None:
    with pytest.raises(CorefileError) as caught:
        build(text)
    assert str(caught.value) == error


def test_faults_come_in_the_order_of_setup() -> None:
    """Listeners first, then plugins by ORDER, not by the file."""
    with pytest.raises(CorefileError, match=r"^Corefile:3:8: cannot log errors"):
        build(". {\nwhoami now\nerrors nowhere\n}")
    with pytest.raises(CorefileError, match="already served"):
        build(". {\nwhoami now\n}\n. {\nlog\n}")


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        pytest.param(
            "_tcp.org {\nwhoami\n}",
            ['Corefile:1:1: zone "_tcp.org." does not follow the preferred syntax of RFC 1035'],
            id="odd-zone",
        ),
        pytest.param(
            ". {\nimport none*.conf\nwhoami\n}",
            ['Corefile:2:8: no file matches import pattern "none*.conf" (looked for none*.conf)'],
            id="empty-glob",
        ),
        pytest.param(
            ". {\nhosts none.hosts\n}",
            ["Corefile:2:7: hosts file none.hosts does not exist yet; it is read when it does"],
            id="no-hosts-file",
        ),
        pytest.param(
            "cluster.local {\nkubernetes {\napiserver_qps 5\n}\n}",
            ['Corefile:2:1: "apiserver_qps" has no effect, as in CoreDNS 1.14.7'],
            id="without-effect",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("validating", [False, True])
def test_warnings(
    text: str,
    warnings: list[str],
    validating: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    heard: list[str] = []
    build(text, warn=heard.append, validating=validating)
    assert heard == warnings


# --- nothing is touched ---


def test_kubeadm_corefile_is_set_up_without_a_socket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    warnings: list[str] = []
    resolv = tmp_path / "resolv.conf"
    resolv.write_text("nameserver 192.0.2.53\n")

    def no_socket(*args: Any, **options: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", no_socket)
    monkeypatch.setattr(socket, "create_connection", no_socket)
    monkeypatch.setattr(socket, "getaddrinfo", no_socket)
    text = KUBEADM.replace("/etc/resolv.conf", str(resolv))
    configuration = build(text, warn=warnings.append, validating=True)
    assert warnings == []
    assert [plugin.name for plugin in configuration.plugins] == [
        "reload", "ready", "health", "prometheus", "errors", "loadbalance", "cache", "kubernetes", "loop", "forward",
    ]  # fmt: skip
    assert listeners(configuration) == {"dns://:53": ["."]}
    assert configuration.listeners[0].any_class
