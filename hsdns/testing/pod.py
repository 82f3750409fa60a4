"""A pod: commands in a user, mount and network namespace, with the resolv.conf and port 53 of a pod.

Path: cluster.pod() -> here -> pod_process.py in the namespaces; its sockets of port 53 are read by server.py.
Rule 1: no root, no container: user namespaces need no privileges.  If the kernel does not allow them, NoNamespaces
        skips the test and gives the reason.
Rule 2: all queries over the sockets of a pod belong to the pod, whatever their source address is.

The names of a test's cluster, as a program in a pod writes them:
Rule 1: a name with a trailing dot, or in the cluster's zones, is complete; any other may be completed by the search
        list of the namespace.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from hsdns.resolver.resolv_conf import PodDns, pod_resolv_conf
from hsdns.testing.errors import ClusterError, NoNamespaces, checks_keywords, hides
from hsdns.wire import is_address

if TYPE_CHECKING:
    from hsdns.testing.cluster import Cluster
    from hsdns.testing.server import ServerThread

ZONE: Final = "cluster.local"
ZONES: Final = (ZONE, "in-addr.arpa", "ip6.arpa")
NAMESPACE: Final = "default"
CLUSTER_DNS: Final = "10.96.0.10"  # as in kubeadm's clusters
POD_NETWORK: Final = "10.245.0.0/16"  # of client pods; pods of workloads are in 10.244.0.0/16


class PodIdentity(NamedTuple):
    """A client pod; fault rules identify it by its `address`."""

    name: str
    namespace: str
    address: str


def resolv_conf(namespace: str) -> str:
    """The resolv.conf of a pod in a namespace."""
    return pod_resolv_conf(PodDns(namespace), CLUSTER_DNS, ZONE, "")


def forms(name: str, namespace: str) -> tuple[str, ...]:
    """The names that may be queried for this name, without trailing dots, in lower case."""
    bare = name.lower().removesuffix(".")
    if name.endswith(".") or any(bare == zone or bare.endswith(f".{zone}") for zone in ZONES):
        return (bare,)
    suffixes = (f".{namespace}.svc.{ZONE}", f".svc.{ZONE}", f".{ZONE}", "")
    return tuple(bare + suffix for suffix in suffixes)


def is_loopback(text: str) -> bool:
    """Whether a text is an IP address of this machine alone."""
    return is_address(text) and ip_address(text).is_loopback


__tracebackhide__ = hides

TIMEOUT: Final = 10.0  # seconds for the namespaces; they take some 50 ms
PROGRAM: Final = Path(__file__).with_name("pod_process.py")
FILES: Final = {
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
RUN_TIMEOUT: Final = 60.0  # seconds for a command, if the test gives none


class Pod:
    """A context manager: within it the namespaces exist.

    `name` is the client of its queries, `namespace` determines its search list, fault rules identify it by `address`.
    """

    def __init__(self, cluster: Cluster, identity: PodIdentity) -> None:
        self.name, self.namespace, self.address = identity
        self._identity, self._cluster = identity, cluster
        self._holder: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._server: ServerThread | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __repr__(self) -> str:
        """Show the name."""
        return f"<Pod {self.name}>"

    def __enter__(self) -> Self:
        """Create the namespaces; raise NoNamespaces, which skips a test, if the kernel does not allow them."""
        if self._holder is not None:
            raise ClusterError(f"{self!r} is used twice at the same time; make another one")
        server = self._cluster.server
        try:
            udp, tcp = self._open()
            server.add_pod(self._identity, udp, tcp)
            self._server = server
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Release the namespaces; processes that still run in them keep them, but have no DNS."""
        try:
            if self._server is not None:
                self._server.remove_pod(self._identity)
        finally:
            self._close()

    def command(self, words: Sequence[str | os.PathLike[str]]) -> list[str]:
        """The command line that runs a command in the pod, for subprocess.Popen or asyncio; raise ClusterError."""
        self._cluster.server  # noqa: B018 - it raises
        if self._holder is None:
            raise ClusterError(f"{self!r} does not run; use it in `with cluster.pod() as pod:`")
        if isinstance(words, str):
            raise ClusterError(f'a command is a list of words, such as ["sh", "-c", {words!r}]')
        entering = (
            f"nsenter --preserve-credentials --user --mount --net --target {self._holder.pid}"
        )
        # Entering a mount namespace leaves the folder that the test is in.
        inside = ["sh", "-c", 'cd "$0" && exec "$@"', os.getcwd()]
        return [*entering.split(), *inside, *(os.fspath(each) for each in words)]

    @checks_keywords
    def run(
        self,
        words: Sequence[str | os.PathLike[str]],
        *,
        input: str | None = None,  # noqa: A002 - as in subprocess.run
        env: dict[str, str] | None = None,
        timeout: float = RUN_TIMEOUT,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, with its output as text; raise the exceptions of subprocess.run()."""
        __tracebackhide__ = True  # pytest shows the line of the test
        streams: dict[str, Any] = (
            {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        )
        done = subprocess.run(
            self.command(words),
            capture_output=True,
            text=True,
            env=env,
            timeout=timeout,
            check=False,
            **streams,
        )
        if check and done.returncode:
            failed = subprocess.CalledProcessError(
                done.returncode, [*words], done.stdout, done.stderr
            )
            if done.stderr:
                failed.add_note(f"standard error: {done.stderr.strip()}")
            raise failed
        return done

    def _open(self) -> tuple[socket.socket, socket.socket]:
        """Start the process that creates the namespaces; return its UDP and TCP socket."""
        if sys.platform != "linux":
            raise NoNamespaces(f"a pod needs the namespaces of Linux, and this is {sys.platform}")
        if shutil.which("nsenter") is None:
            raise NoNamespaces("a pod needs nsenter, of util-linux; install it")
        self._folder = tempfile.TemporaryDirectory(prefix="hsdns-pod-")
        folder = Path(self._folder.name)
        for name, text in {**FILES, "resolv.conf": resolv_conf(self.namespace)}.items():
            (folder / name).write_text(text)
        self._connection, theirs = socket.socketpair()
        self._connection.settimeout(TIMEOUT)
        with theirs:
            self._holder = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROGRAM), str(folder), CLUSTER_DNS],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        said, descriptors, _, _ = socket.recv_fds(self._connection, 4096, 2)
        if len(descriptors) != 2:
            assert self._holder.stderr is not None
            reason = (
                said.decode() or self._holder.stderr.read().decode().strip().rpartition("\n")[2]
            )
            raise NoNamespaces(f"a pod needs namespaces, and they are refused here: {reason}")
        udp, tcp = (socket.socket(fileno=each) for each in descriptors)
        for each in (udp, tcp):
            each.setblocking(False)
        return udp, tcp

    def _close(self) -> None:
        """End the process by closing its connection."""
        holder, self._holder = self._holder, None
        self._server = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if holder is not None:
            holder.wait(TIMEOUT)
            if holder.stderr is not None:
                holder.stderr.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
