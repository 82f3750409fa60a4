import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

import pytest

from hsdns.testing import Cluster, ClusterError, NoNamespaces, Pod
from hsdns.testing import pod as pod_module

pytestmark = [pytest.mark.sockets, pytest.mark.slow]
WEB = "web.default.svc.cluster.local"
LOOK_UP = "import socket; print(*sorted({each[4][0] for each in socket.getaddrinfo('web', 80)}))"


@pytest.fixture
def pod(cluster: Cluster) -> Iterator[Pod]:
    cluster.service("web", headless=True).endpoints("10.0.0.1", "10.0.0.2")
    made = cluster.pod()
    try:
        made.__enter__()
    except NoNamespaces as error:
        if os.environ.get("HSDNS_NAMESPACES") == "required":
            pytest.fail(str(error))
        raise
    yield made
    made.__exit__()


def test_programs_look_up_as_in_a_pod(cluster: Cluster, pod: Pod) -> None:
    assert pod.run([sys.executable, "-c", LOOK_UP]).stdout == "10.0.0.1 10.0.0.2\n"
    cluster.queries.assert_asked(WEB, "A", from_=pod, times=1)
    cluster.queries.assert_asked(WEB, from_="pod-1")
    cluster["web"]["10.0.0.1"].not_ready()
    found = pod.run([Path(sys.executable), "-c", LOOK_UP])
    assert (found.stdout, found.stderr, found.returncode) == ("10.0.0.2\n", "", 0)
    cluster.queries.assert_not_asked("web", from_="127.0.0.1")


def test_replies_that_do_not_fit_come_over_tcp(cluster: Cluster, pod: Pod) -> None:
    cluster["web"].endpoints(*(f"10.0.1.{number}" for number in range(1, 101)))
    found = pod.run([sys.executable, "-c", LOOK_UP])
    assert len(found.stdout.split()) == 102
    assert {each.transport for each in cluster.queries} == {"udp", "tcp"}


def test_its_files_and_user(pod: Pod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = Path("/etc/resolv.conf").read_text()
    shown = pod.run(["sh", "-c", "cat /etc/resolv.conf; id -u; pwd; cat"], input="given\n", env={"PATH": os.environ["PATH"]})  # fmt: skip
    assert shown.stdout.splitlines() == [
        "search default.svc.cluster.local svc.cluster.local cluster.local",
        "nameserver 10.96.0.10",
        "options ndots:5",
        str(os.getuid()),
        str(tmp_path),
        "given",
    ]
    assert Path("/etc/resolv.conf").read_text() == before


def test_commands_can_be_started(pod: Pod) -> None:
    with subprocess.Popen(pod.command(["getent", "hosts", "web"]), stdout=subprocess.PIPE) as ran:
        assert ran.stdout is not None
        assert b"10.0.0.1" in ran.stdout.read()
    with pytest.raises(subprocess.CalledProcessError) as raised:
        pod.run(["sh", "-c", "echo no prices >&2; exit 3"], check=True)
    error = raised.value
    assert (error.returncode, error.cmd[0], error.stderr) == (3, "sh", "no prices\n")
    assert error.__notes__ == ["standard error: no prices"]


def test_nothing_remains(cluster: Cluster, pod: Pod) -> None:
    assert pod._folder is not None
    assert pod._holder is not None
    folder, holder = Path(pod._folder.name), pod._holder
    pod.__exit__()
    assert not folder.exists()
    assert holder.returncode == 0
    with pytest.raises(ClusterError, match=r"<Pod pod-1> does not run; use it in `with"):
        pod.run(["true"])
    pod.__enter__()
    assert pod.run(["getent", "hosts", "web"]).returncode == 0


def test_a_string_is_no_command(pod: Pod) -> None:
    with pytest.raises(ClusterError) as raised:
        pod.run("getent hosts web")
    assert (
        str(raised.value)
        == """a command is a list of words, such as ["sh", "-c", 'getent hosts web']"""
    )
    with pytest.raises(ClusterError, match="is used twice at the same time"):
        pod.__enter__()


def refusing(folder: Path) -> Path:
    program = folder / "refuses.py"
    program.write_text("import socket; socket.socket(fileno=0).sendall(b'the kernel refuses')")
    return program


def test_it_is_skipped_where_namespaces_are_refused(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_module, "PROGRAM", refusing(tmp_path))
    for _ in range(2):
        with pytest.raises(NoNamespaces) as raised:
            cluster.pod().__enter__()
        assert isinstance(raised.value, SkipTest)
        expected = "a pod needs namespaces, and they are refused here: the kernel refuses"
        assert str(raised.value) == expected
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NoNamespaces, match="a pod needs nsenter, of util-linux; install it"):
        cluster.pod().__enter__()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(NoNamespaces, match="needs the namespaces of Linux, and this is darwin"):
        cluster.pod().__enter__()
