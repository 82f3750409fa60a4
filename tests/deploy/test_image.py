"""The image without a registry: its root from this machine's interpreter, started as a container's runtime does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import pytest

from deploy.image.assemble import copy_packages
from hsdns import __version__
from hsdns.apiserver.kubeconfig import INSTALL
from hsdns.plugins import ORDER
from tests.deploy.test_programs import FAKES, KNOWN, plugin, program, words_of
from tests.support.namespaces import container
from tests.support.namespaces.container import USER, Outcome

ROOT = Path(__file__).resolve().parents[2]
COREFILE = Path(__file__).with_name("image.corefile").read_text()
# Only a program that gives credentials needs the library.
KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://10.0.0.1"}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /login, interactiveMode: Never}}}]
"""
WEB = """
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.7.7, ports: [{port: 80}]}
"""
REFUSAL = "cannot listen on UDP :53: ports below 1024 need a right; grant CAP_NET_BIND_SERVICE"
CAPABLE = f"{1 << container.NET_BIND_SERVICE:016x}"

REFUSED = container.refusal()
MISSING = [name for name in ("setcap", "ldd") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.sockets,
    pytest.mark.skipif(bool(REFUSED), reason=REFUSED or "namespaces can be made"),
    pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="an image is for Linux"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root of the image, made once: it takes longer than all that is done with it."""
    folder = tmp_path_factory.mktemp("image") / "root"
    container.with_root_rights(
        [sys.executable, str(ROOT / "deploy/image/assemble.py"), str(folder)],
        {"PYTHONPATH": str(ROOT)},
    )
    for above in folder.parents:  # the user of the container must reach it
        if above.stat().st_uid == folder.stat().st_uid and not above.stat().st_mode & 1:
            above.chmod(0o755)
    (folder / "etc/coredns/web.yaml").write_text(WEB)
    for port in (53, 1053):
        (folder / f"etc/coredns/Corefile.{port}").write_text(COREFILE.format(port=port))
    # Copying a file leaves its capabilities behind: this is the interpreter as a distribution has it.
    shutil.copyfile(folder / "usr/bin/python3", folder / "usr/bin/stock")
    (folder / "usr/bin/stock").chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def serve(
    root: Path,
    *command: str,
    port: int = 53,
    no_new_privs: bool = True,
    may_bind: bool = True,
    beside: Sequence[Sequence[str]] = (),
    writable: str = "",
) -> Outcome:
    queries = [
        dns.message.make_query(name, "A", id=number).to_wire()
        for number, name in enumerate(("web.shop.svc.cluster.local", "none.shop.svc.cluster.local"))
    ]
    return container.run(
        root,
        [
            *(command or ("/coredns",)),
            "-conf",
            f"/etc/coredns/Corefile.{port}",
            "-v",
            *_control(writable),
        ],
        no_new_privs=no_new_privs,
        may_bind=may_bind,
        queries=queries,
        port=port,
        pages=[(8080, "/health"), (8181, "/ready"), (9153, "/metrics")],
        beside=beside,
        writable=writable,
    )


def _control(folder: str) -> list[str]:
    return ["-control", f"{folder}/hsdns/control.sock"] if folder else []


def addresses_in(wire: str) -> list[str]:
    """A reply's rcode, flags and records."""
    message = dns.message.from_wire(bytes.fromhex(wire))
    records = [rrset.to_text() for section in message.sections[1:] for rrset in section]
    return [f"{dns.rcode.to_text(message.rcode())} {dns.flags.to_text(message.flags)}", *records]


def check_served(found: Outcome) -> None:
    assert found.status == 0, found.output
    positive, negative = (addresses_in(wire) for wire in found.replies)
    assert positive == ["NOERROR QR AA RD", "web.shop.svc.cluster.local. 5 IN A 10.96.7.7"]
    assert negative[0] == "NXDOMAIN QR AA RD"
    assert len(negative) == 2
    assert " 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. " in negative[1]
    health, ready, metrics = found.pages
    assert (health, ready) == ("OK", "OK")
    assert "coredns_build_info{" in metrics
    assert "coredns_dns_requests_total{" in metrics
    assert f"hsdns-{__version__}" in found.output
    assert "Traceback" not in found.output


@pytest.mark.parametrize("no_new_privs", [True, False])
def test_port_53_as_a_user(root: Path, no_new_privs: bool) -> None:
    found = serve(root, no_new_privs=no_new_privs)
    check_served(found)
    assert found.process["CapEff"] == found.process["CapPrm"] == CAPABLE
    assert found.process["NoNewPrivs"] == str(int(no_new_privs))
    assert set(found.process["Uid"].split()) <= {str(USER), "0"}


@pytest.mark.parametrize(
    ("command", "may_bind"), [(("/usr/bin/stock", "-IB", "/coredns"), True), ((), False)]
)
def test_without_the_capability_on_port_53(
    root: Path, command: tuple[str, ...], may_bind: bool
) -> None:
    found = serve(root, *command, may_bind=may_bind)
    assert found.status == 1
    assert REFUSAL in found.output


def test_without_the_capability_on_another_port(root: Path) -> None:
    found = serve(root, port=1053, may_bind=False)
    check_served(found)
    assert found.process["CapPrm"] == "0" * 16


def test_a_program_that_starts_it_loses_the_capability(root: Path) -> None:
    """The reason why /coredns is a script whose interpreter has the capability, and no program that starts it."""
    start = "import os, sys; os.execv('/coredns', ['/coredns', *sys.argv[1:]])"
    command = ("/usr/bin/stock", "-c", start)
    assert serve(root, *command, no_new_privs=True).status == 1
    check_served(serve(root, *command, no_new_privs=False))


NAME = "web.shop.svc.cluster.local"
LOOKING = [["explain", NAME], ["names"], ["top", "-once"], ["wait", NAME, "-server", "127.0.0.1"]]


@pytest.mark.parametrize("writable", ["/run", ""])
def test_commands_beside_the_server(root: Path, writable: str) -> None:
    """In the pods of the manifests: the root is read-only, and at most the folder of the control socket is not."""
    beside = [["/coredns", *words] for words in LOOKING]
    found = serve(root, beside=beside, writable=writable)
    check_served(found)
    assert "Traceback" not in "".join(output for _, output in found.beside)
    explained, names, top, wait = found.beside
    assert (wait[0], explained[0], names[0], top[0]) == (0, *[0 if writable else 2] * 3)
    if writable:
        assert "NOERROR: the cluster IP of Service shop/web" in explained[1]
        assert f"{NAME}. 5 IN A 10.96.7.7" in names[1]
        assert "queries/s" in top[1]
    else:
        assert all(each[1].startswith("no server is running; ") for each in found.beside[:3])


def test_the_kubectl_plugin(root: Path, tmp_path: Path) -> None:
    """What it lets kubectl run in the pod, run in the image."""
    program(tmp_path, "kubectl", (FAKES / "kubectl").read_text())
    calls = [words_of(each) for each in plugin(tmp_path, "explain", NAME, "AAAA").calls]
    beside = [each[each.index("--") + 1 :] for each in calls if "exec" in each]
    found = serve(root, beside=beside, writable="/run")
    (_, usage), (status, explained) = found.beside
    assert KNOWN["FOUND"] in usage
    assert (status, f"{NAME}. AAAA" in explained) == (1, True)


def test_flags(root: Path) -> None:
    for name in ("/coredns", "/usr/bin/hsdns"):
        version = container.run(root, [name, "-version"])
        assert (version.status, version.output.split()[0]) == (0, f"hsdns-{__version__}")
    plugins = container.run(root, ["/coredns", "--plugins"])
    assert plugins.output.split() == sorted(ORDER)
    valid = container.run(root, ["/coredns", "-conf", "/etc/coredns/Corefile.53", "-validate"])
    assert valid.output == "/etc/coredns/Corefile.53: valid, 1 server block\n"


def test_every_module_can_be_imported(root: Path) -> None:
    """Each module of hsdns, in the loader's secure mode, without the library that reads kubeconfigs.

    Also what `hsdns top` imports late; not what needs pytest or testcontainers, which are not in the image.
    """
    words = (
        "import importlib, pkgutil, hsdns, rich.console, rich.live\n"
        "for found in pkgutil.walk_packages(hsdns.__path__, 'hsdns.'):\n"
        "    if found.name not in ('hsdns.__main__', 'hsdns.pytest_plugin', 'hsdns.testing.container'):\n"
        "        importlib.import_module(found.name)\n"
    )
    found = container.run(root, ["/usr/bin/python3", "-IBc", words])
    assert (found.status, found.output) == (0, "")
    corefile = (
        ".:53 {\n    kubernetes cluster.local {\n        kubeconfig /etc/coredns/config\n    }\n}\n"
    )
    (root / "etc/coredns/Corefile.kubeconfig").write_text(corefile)
    (root / "etc/coredns/config").write_text(KUBECONFIG)
    found = container.run(
        root, ["/coredns", "-conf", "/etc/coredns/Corefile.kubeconfig", "-validate"]
    )
    assert found.status == 1
    assert found.output.startswith("/etc/coredns/Corefile.kubeconfig:2:5: ")
    assert found.output.endswith(f"{INSTALL}\n")


def test_files(root: Path) -> None:
    """Nothing in it can start a shell, and every user may read all of it."""
    assert {path.name for path in root.glob("**/bin/*")} == {"python3", "hsdns", "stock"}
    assert not list(root.glob("**/pip"))
    files = [path for path in root.rglob("*") if not path.is_symlink()]
    assert [path for path in files if path.stat().st_mode & 0o444 != 0o444] == []


@pytest.mark.parametrize(
    ("folder", "environment", "status", "reason"),
    [
        ("new", {}, 1, "this interpreter does not find hsdns; install it, or set PYTHONPATH\n"),
        (".", {"PYTHONPATH": str(ROOT)}, 2, " is not empty\n"),
    ],
    ids=["no-hsdns", "not-empty"],
)
def test_assembly_errors(
    tmp_path: Path, folder: str, environment: dict[str, str], status: int, reason: str
) -> None:
    (tmp_path / "file").touch()
    # Without site-packages, where a hsdns may be installed.
    command = [sys.executable, "-S", str(ROOT / "deploy/image/assemble.py"), str(tmp_path / folder)]
    found = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd="/", timeout=30)  # fmt: skip
    assert (found.returncode, found.stderr.endswith(reason)) == (status, True)


# Imported from the copied packages alone: -I and -S leave out this environment's.
LOAD = """
import sys
sys.path.insert(0, sys.argv[1])
from hsdns.apiserver.kubeconfig_process import KubeconfigError, load_package
try:
    print(load_package("FILE").__name__)
except KubeconfigError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("kubeconfig", "said"),
    [
        (True, "kubernetes_asyncio.config.kube_config"),
        (False, f"kubeconfig FILE needs the Python package kubernetes_asyncio; {INSTALL}"),
    ],
)
def test_packages_for_kubeconfigs(tmp_path: Path, kubeconfig: bool, said: str) -> None:
    copy_packages(tmp_path, kubeconfig=kubeconfig)
    assert not (tmp_path / "kubernetes_asyncio/client").exists()
    command = [sys.executable, "-IS", "-c", LOAD, str(tmp_path)]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert found.stdout == f"{said}\n"
