"""A node of a cluster in its own namespaces, with the paths and addresses that stock Corefiles name.

Path: node.py starts it -> an API server, upstreams and a web server here, on one side of a veth pair; the server under
test and its clients on the other.

    unshare --user --map-root-user --net --mount python -m tests.support.site_process FOLDER

reads one JSON object a line from standard input, {"do": WORD, ...}, and answers each with one line, {"error": TEXT} where
it failed; it ends with its input, and with it everything that it started.

    start   {"command": [...], "files": {PATH: TEXT}}   replace /etc/coredns by files under /etc, start a server
    ask     {"host", "port", "wire": HEX, "protocol"}   -> {"reply": HEX}
    get     {"url"}                                     -> {"status", "body"}
    run     {"command": [...]}                          run a program as in a pod -> {"status", "printed"}
    stop    {}                                          end the server at once -> {"status", "printed"}

Rule 1: nothing outside of the namespaces is changed.  What is written is in a tmpfs on the empty FOLDER, which goes with
        the namespaces: nothing is removed, because the folder also holds the way to the real /etc.
Rule 2: the server and the programs see the network of a pod: eth0 with SERVER_ADDRESS, and the networks behind GATEWAY.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Final

import aiohttp
import yaml
from aiohttp import web

from loadtest.apiserver.fake_api import FakeApi
from tests.support.clients.exchange import ask_tcp, ask_udp
from tests.support.upstreams.dns_upstream import Answer, answer, serve

SERVER_ADDRESS: Final = "10.244.0.2"  # of the server
GATEWAY: Final = "10.244.0.1"  # this side
CLUSTER_DNS: Final = ("10.96.0.10", "169.254.20.10")  # more addresses of the server's side
API: Final = "10.96.0.1"
WEB: Final = "10.96.0.80"  # the ClusterIP of `web`, as if kube-proxy led here
# DNS servers on this side: the node's resolver, that of a stub domain, the cluster's DNS behind NodeLocal DNSCache.
UPSTREAMS: Final = ("192.0.2.53", "10.150.0.1", "10.96.0.11")
TLS_UPSTREAM: Final = "192.0.2.54"
TLS_NAME: Final = "dns.example.org"
OWN: Final = (
    "coredns",
    "pki",
    "Corefile",
)  # in /etc: the files that Corefiles name, beside those that every program needs
BANNER: Final = "CoreDNS-1.14.7"  # both servers print it when they start to serve
START_DEADLINE: Final = 20.0  # seconds; a start takes half a second on an idle machine
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CLUSTER: Final = Path(__file__).resolve().parents[2] / "stock" / "cluster.yaml"


class Node:
    """The namespaces and the servers in them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._etc = folder / "etc"
        self._certificate = folder / "cert.pem"
        self._holder: subprocess.Popen[bytes] | None = None
        self._server: asyncio.subprocess.Process | None = None
        self._log: IO[bytes] | None = None
        self._stack = contextlib.AsyncExitStack()

    async def open(self) -> None:
        """Create everything; raise RuntimeError if a program fails."""
        self._mount()
        self._connect()
        self._certify()
        await self._serve()

    async def close(self) -> None:
        """End all servers; the mounts and addresses end with the process."""
        await self.stop()
        await self._stack.aclose()
        if self._holder is not None and self._holder.stdin is not None:
            self._holder.stdin.close()
            self._holder.wait()

    async def start(self, command: list[str], files: dict[str, str]) -> dict[str, Any]:
        """Start a server with these files under /etc; wait until it prints the banner."""
        await self.stop()
        for path in sorted((self._etc / "coredns").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        for name, text in files.items():
            assert name.startswith(OWN), "no link to the real /etc"
            path = self._etc / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self._log = (self._folder / "log").open("w+b")
        environ = {
            **os.environ,
            "KUBERNETES_SERVICE_HOST": API,
            "KUBERNETES_SERVICE_PORT": "443",
            "PYTHONUNBUFFERED": "1",
        }
        self._server = await asyncio.create_subprocess_exec(
            *self._inside(), *command, stdout=self._log, stderr=self._log, env=environ, cwd="/"
        )
        try:
            async with asyncio.timeout(START_DEADLINE):
                while BANNER not in self._printed():
                    if self._server.returncode is not None:
                        return {"error": f"the server has ended:\n{self._printed()}"}
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return {"error": f"the server does not serve:\n{self._printed()}"}
        return {}

    async def ask(self, host: str, port: int, wire: str, protocol: str) -> dict[str, Any]:
        """Query the server."""
        asker = ask_tcp if protocol == "tcp" else ask_udp
        return {"reply": (await asker((host, port), bytes.fromhex(wire))).hex()}

    async def get(self, url: str) -> dict[str, Any]:
        """Get one of its HTTP pages."""
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return {"status": response.status, "body": await response.text()}

    async def run(self, command: list[str]) -> dict[str, Any]:
        """Run a program with the resolv.conf of a pod."""
        mounted = 'mount --bind /etc/pod-resolv.conf /etc/resolv.conf && exec "$@"'
        process = await asyncio.create_subprocess_exec(
            *(*self._inside(), "unshare", "--mount", "sh", "-c", mounted, "sh", *command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        async with asyncio.timeout(START_DEADLINE):
            printed, _ = await process.communicate()
        return {"status": process.returncode, "printed": printed.decode()}

    async def stop(self) -> dict[str, Any]:
        """End the server without its lameduck period."""
        server, self._server = self._server, None
        if server is None or self._log is None:
            return {}
        if server.returncode is None:
            server.send_signal(signal.SIGQUIT)
        status = await server.wait()
        printed = self._printed()
        self._log.close()
        return {"status": status, "printed": printed}

    def _printed(self) -> str:
        return (self._folder / "log").read_text()

    def _inside(self) -> tuple[str, ...]:
        """The prefix that runs a command on the other side of the veth pair; nsenter execs it, so it gets the signals."""
        assert self._holder is not None
        return "nsenter", f"--net=/proc/{self._holder.pid}/ns/net"

    def _mount(self) -> None:
        _call("mount", "-t", "tmpfs", "none", str(self._folder))
        was = self._folder / "was"
        was.mkdir()
        self._etc.mkdir()
        _call("mount", "--bind", "/etc", str(was))
        own = {
            "hosts": "127.0.0.1 localhost\n",
            "nsswitch.conf": "hosts: files dns\n",
            "resolv.conf": f"nameserver {UPSTREAMS[0]}\n",
            "pod-resolv.conf": f"nameserver {CLUSTER_DNS[0]}\n"
            "search default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n",
        }
        for name in os.listdir(was):
            if name not in (*own, *OWN):
                (self._etc / name).symlink_to(was / name)
        for name, text in own.items():
            (self._etc / name).write_text(text)
        _call("mount", "--bind", str(self._etc), "/etc")
        _call("mount", "-t", "tmpfs", "none", str(Path("/var/run").resolve()))

    def _connect(self) -> None:
        # It ends with its input, so nothing remains if this process is killed.
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        self._holder.stdout.readline()
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", str(self._holder.pid))  # fmt: skip
        _ip("address", "add", f"{GATEWAY}/24", "dev", "up0")
        for address in (*UPSTREAMS, TLS_UPSTREAM, API, WEB):
            _ip("address", "add", f"{address}/32", "dev", "lo")
        _ip("link", "set", "up0", "up")
        inside = self._inside()
        _ip("link", "set", "lo", "up", inside=inside)
        _ip("address", "add", f"{SERVER_ADDRESS}/24", "dev", "eth0", inside=inside)
        _ip("link", "set", "eth0", "up", inside=inside)
        _ip("route", "add", "default", "via", GATEWAY, inside=inside)
        for address in CLUSTER_DNS:
            _ip("address", "add", f"{address}/32", "dev", "lo", inside=inside)
            _ip("route", "add", f"{address}/32", "via", SERVER_ADDRESS)

    def _certify(self) -> None:
        """Create the self-signed certificate of the API server and of the upstream with TLS."""
        names = f"subjectAltName=IP:{API},DNS:{TLS_NAME}"
        command = (
            *("openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=node"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-addext", names),
            *("-keyout", str(self._folder / "key.pem"), "-out", str(self._certificate)),
        )
        _call(*command)
        SERVICE_ACCOUNT.mkdir(parents=True)
        authority = self._certificate.read_text()
        (SERVICE_ACCOUNT / "ca.crt").write_text(authority)
        (SERVICE_ACCOUNT / "token").write_text("a-token\n")
        (SERVICE_ACCOUNT / "namespace").write_text("kube-system\n")
        bundle = self._etc / "pki" / f"{TLS_NAME}-4601" / "ca-bundle.crt"
        bundle.parent.mkdir(parents=True)
        bundle.write_text(authority)

    async def _serve(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, self._folder / "key.pem")
        api = FakeApi(tls=context, host=API, port=443)
        for manifest in yaml.safe_load_all(CLUSTER.read_text()):
            api.apply(manifest)
        await self._stack.enter_async_context(api)
        for host in UPSTREAMS:
            upstream = serve(scripted(host, "udp"), scripted(host, "tcp"), host=host, port=53)
            await self._stack.enter_async_context(upstream)
        over_tls = serve(
            scripted(TLS_UPSTREAM, "no"), scripted(TLS_UPSTREAM, "tls"), tls=context, host=TLS_UPSTREAM, port=853
        )  # fmt: skip
        await self._stack.enter_async_context(over_tls)
        app = web.Application()
        app.router.add_get("/", _welcome)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, WEB, 80).start()


async def _welcome(request: web.Request) -> web.Response:
    return web.Response(text=f"served to {request.host}\n")


def scripted(host: str, way: str) -> Answer:
    """Make the script of an upstream: some names, and for `which.` its address and the protocol of the query."""
    known = {
        ("www.example.org.", 1): answer("www.example.org. 300 IN A 192.0.2.80"),
        ("9.2.0.192.in-addr.arpa.", 12): answer("9.2.0.192.in-addr.arpa. 300 IN PTR nine.example.org."),
        ("web.default.svc.cluster.local.", 1): answer(f"web.default.svc.cluster.local. 30 IN A {WEB}"),
        ("80.0.96.10.in-addr.arpa.", 12): answer(
            "80.0.96.10.in-addr.arpa. 30 IN PTR web.default.svc.cluster.local."
        ),
    }  # fmt: skip
    unknown = answer(rcode=3)

    def reply(wire: bytes) -> list[bytes]:
        import dns.message  # noqa: PLC0415 - this process is started once for all tests

        question = dns.message.from_wire(wire).question[0]
        name = question.name.to_text().lower()
        if name.startswith("which."):
            return answer(f'{name} 300 IN TXT "{host} {way}"')(wire)
        return known.get((name, int(question.rdtype)), unknown)(wire)

    return reply


def _ip(*words: str, inside: tuple[str, ...] = ()) -> None:
    _call(*inside, "ip", *words)


def _call(*command: str) -> None:
    """Run a program to its end; raise RuntimeError with its output if it fails."""
    found = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if found.returncode:
        raise RuntimeError(f"{' '.join(command)}: {found.stdout}{found.stderr}".strip())


async def main() -> None:
    """Read commands until the input ends."""
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    def say(found: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()

    node = Node(Path(sys.argv[1]))
    try:
        try:
            await node.open()
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})
            return
        say({})
        while line := await reader.readline():
            asked = json.loads(line)
            try:
                say(await getattr(node, asked.pop("do"))(**asked))
            except Exception as error:
                say({"error": f"{type(error).__name__}: {error}"})
    finally:
        await node.close()


if __name__ == "__main__":
    asyncio.run(main())
