"""Where each command looks: what flags name, the server that runs, the pod's cluster, the kubeconfig's, a nameserver.

ways.txt has a row for each command and way in.  In a row all ways behind its own one are there too: each command has
to take the first.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hsdns.ask import cli as ask
from hsdns.cli import control_path, main, offline, source
from hsdns.explanation import cli as explanation
from hsdns.resolver import cli as resolver
from tests.cli.test_names import NAMESPACE, config_map, kubeconfig
from tests.plugins.kubernetes.test_watch import ApiThread, service
from tests.server.loopback import ReloadableServer
from tests.support.tables import columns

WAYS = ("two servers", "server", "pod", "context", "one namespace", "resolv.conf", "nothing")
READ = ("services", "endpointslices", "namespaces", "pods")
WEB = Path(__file__).with_name("ways.yaml").read_text()
COREFILE = """cluster.local {
    bind 127.0.0.1
    control hsdns/1.sock
    kubernetes {
        source manifests web.yaml
    }
}
"""
# The cluster's DNS is the server that runs, whose machine has another resolv.conf.
IN_SYSTEM = {"name": "kube-dns", "namespace": "kube-system"}
KUBE_DNS: list[dict[str, Any]] = [
    {"kind": "Namespace", "metadata": {"name": "kube-system"}},
    {
        "kind": "Service",
        "metadata": IN_SYSTEM,
        "spec": {"clusterIP": "None", "clusterIPs": ["None"]},
    },
]


def slice_of(namespace: str, service: str, address: str, port: int) -> dict[str, Any]:
    labels = {"kubernetes.io/service-name": service}
    return {
        "kind": "EndpointSlice",
        "metadata": {"name": service, "namespace": namespace, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]}],
        "ports": [{"name": "dns", "port": port, "protocol": "UDP"}],
    }


DNS = """. {{
    kubernetes cluster.local
    forward . {}/resolv.conf
}}
"""
TABLE = Path(__file__).parent / "ways.txt"
ROWS = [
    pytest.param(way, *each.values, id=f"{way}: {each.id}")
    for way in WAYS
    for each in columns(TABLE, way)
]


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """A server in a thread of its own, as commands need the main thread for their signals."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    reloadable = ReloadableServer(folder, COREFILE, faults=True)
    server = reloadable.server
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
        yield reloadable.port
    finally:
        asyncio.run_coroutine_threadsafe(server.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int, ApiThread]]:
    """A folder with a kubeconfig and a resolv.conf, the port of a server that runs, and a cluster."""
    path, before = tmp_path_factory.mktemp("ways"), Path.cwd()
    os.chdir(path)
    Path("web.yaml").write_text(WEB)
    Path("resolv.conf").write_text("nameserver 127.0.0.1\n")
    Path("shop.corefile").write_text(". {\nkubernetes cluster.local {\nnamespaces shop\n}\n}\n")
    Path("hsdns").mkdir(mode=0o700)
    try:
        with ApiThread() as api, serving(path) as port, ExitStack() as stack:
            second = stack.enter_context(socket.socket(socket.AF_UNIX))
            Path("two").mkdir(mode=0o700)
            Path("two/1.sock").symlink_to("../hsdns/1.sock")
            second.bind("two/2.sock")
            second.listen()
            api.apply(*KUBE_DNS, slice_of("kube-system", "kube-dns", "127.0.0.1", port))
            api.apply(slice_of("shop", "web", "10.0.0.1", 80))
            api.apply(NAMESPACE, service("web", "10.96.7.7"), config_map("coredns", Corefile=DNS.format(path)))  # fmt: skip
            Path("config").write_text(kubeconfig(api.api.url))
            yield path, port, api
    finally:
        os.chdir(before)


@pytest.mark.sockets
@pytest.mark.parametrize(("way", "command", "said"), ROWS)
def test_way_in(
    way: str,
    command: str,
    said: str,
    place: tuple[Path, int, ApiThread],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first line on standard error."""
    folder, port, api = place
    monkeypatch.chdir(folder)
    monkeypatch.setattr(ask, "PORT", port)  # that of the nameserver
    at = WAYS.index(way)
    sockets = Path("two" if at == 0 else "hsdns" if at == 1 else "none")
    monkeypatch.setattr(control_path, "own_folder", lambda: sockets)
    monkeypatch.setattr(control_path, "SYSTEM", folder / "none")
    monkeypatch.setenv("KUBECONFIG", "config" if at < WAYS.index("resolv.conf") else "none")
    for kind in READ:
        api.api.cluster.revoke(kind)
        api.api.cluster.grant(kind, *(["shop"] if way == "one namespace" else []))
    monkeypatch.setattr(source, "is_in_pod", lambda: at <= WAYS.index("pod"))
    words, connect = source.cluster_tokens, offline.connect  # the account of a pod has no file here
    monkeypatch.setattr(source, "cluster_tokens", lambda access: words(access or ("config",)))
    monkeypatch.setattr(
        offline, "connect", lambda access, **more: connect(access or ("config",), **more)
    )
    for module in (ask, explanation, resolver):
        path = "resolv.conf" if at <= WAYS.index("resolv.conf") else "none"
        monkeypatch.setattr(module, "RESOLV_CONF", path)
    Path("out.rec").unlink(missing_ok=True)
    status = main(command.split())
    found = f"{status} {capsys.readouterr().err}".partition("\n")[0].rstrip()
    assert re.sub(r"process ID \d+", "process ID N", found) == said


def test_the_namespace_of_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hsdns.apiserver.access.SERVICE_ACCOUNT", str(tmp_path))
    assert source.default_namespace(source.cluster_tokens(())) == "default"
    (tmp_path / "namespace").write_text("shop\n")
    assert source.default_namespace(source.cluster_tokens(())) == "shop"
    assert source.default_namespace(source.source_tokens(["demo"], None)) == "default"


def test_several_kubeconfigs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that has the context, by default that of the first current context."""
    for name, current in (("a", ""), ("b", "two")):
        text = {"current-context": current, "contexts": [{"name": name, "context": {}}]}
        (tmp_path / name).write_text(json.dumps(text))
    (tmp_path / "c").write_text(json.dumps({"contexts": [{"name": "two", "context": {}}]}))
    monkeypatch.setenv("KUBECONFIG", ":".join(str(tmp_path / each) for each in "xabc"))
    monkeypatch.setattr(source, "is_in_pod", lambda: False)
    assert source.access_of() == (str(tmp_path / "c"), "two")
    assert source.access_of(context="b") == (str(tmp_path / "b"), "b")
    assert source.access_of(context="none") == (str(tmp_path / "a"), "none")
