"""Cluster: the DNS of a Kubernetes cluster, for one test or several.

Path: a test, or pytest_plugin.py -> here -> objects.py (the objects), server.py (the server).
Rule 1: when a call returns, answers show its change; calls of several threads are serialised.
Rule 2: every call on a cluster that has ended raises ClusterError.

Waits for answers of the server of a test's cluster; these queries are not recorded.

Makes Python's own resolver query a test's cluster: socket.getaddrinfo and related functions:
Rule 1: the machine still resolves addresses, `localhost` and its own name, which are in a pod's /etc/hosts; all other
        names are looked up with the search list of a pod.
Rule 2: asyncio's loop, trio and aiohttp's ThreadedResolver call socket.getaddrinfo, so they need no change; aiohttp's
        AsyncResolver has its own resolver and is replaced too.  uvloop resolves names in compiled code: it needs a pod.
Rule 3: at the end, all functions are restored.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.resources import files
from importlib.util import find_spec
from ipaddress import ip_network
from random import Random
from typing import Any, Final, Self, Unpack
from unittest.mock import patch as replaced

from hsdns.ask.lookup import Sockets
from hsdns.resolver import glibc, musl
from hsdns.resolver.model import (
    Answer,
    Model,
    Packet,
    Result,
    answer_of,
    look_up,
    wire_of,
)
from hsdns.testing.errors import ClusterError, checks_keywords, hides, unknown
from hsdns.testing.fault import Fault, Keywords, Scenario, rule_words
from hsdns.testing.fault import find as find_scenario
from hsdns.testing.objects import Objects, Ports, Service, StatefulSet, port_list
from hsdns.testing.pod import (
    NAMESPACE,
    POD_NETWORK,
    Pod,
    PodIdentity,
    forms,
    resolv_conf,
)
from hsdns.testing.queries import Queries
from hsdns.testing.server import LOOPBACK, ServerThread
from hsdns.wire import is_address
from hsdns.wire.iana import Rcode, RRType, rcode_to_text

POLL: Final = 0.001  # seconds between two queries


def wait_answer(
    ask: Callable[[bytes], bytes | None],
    name: str,
    addresses: Sequence[str],
    within: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until `name` has these addresses, in any order; raise AssertionError after `within` seconds."""
    __tracebackhide__ = True  # pytest shows the line of the test
    for each in addresses:
        if not is_address(each):
            raise ClusterError(
                f'wait_answer() takes the addresses to wait for, and "{each}" is none'
            )
    wanted = sorted(addresses)
    types = [
        rrtype
        for rrtype, mark in ((RRType.A, "."), (RRType.AAAA, ":"))
        if any(mark in each for each in addresses)
    ] or [RRType.A, RRType.AAAA]
    deadline = clock() + within
    while True:
        found, said = _look_up(ask, name, types)
        if sorted(found) == wanted:
            return
        if clock() >= deadline:
            raise AssertionError(
                f"{name} has not {' '.join(wanted) or 'lost its addresses'} within {within:g} s; "
                f"{said}{': ' + ' '.join(sorted(found)) if found else ''}"
            )
        sleep(POLL)


def _look_up(
    ask: Callable[[bytes], bytes | None], name: str, types: Sequence[int]
) -> tuple[list[str], str]:
    """The addresses of the first form of a name that exists, and a sentence about it."""
    tried: list[str] = []
    for form in forms(name, NAMESPACE):
        answers = [_answer(ask, form, rrtype) for rrtype in types]
        found = [address for each in answers for address in each.addresses]
        if all(each.rcode == Rcode.NOERROR for each in answers):
            return found, f"{form} has {'these' if found else 'no address'}"
        tried.append(f"{form} {rcode_to_text(answers[0].rcode)}")
    return [], f"no name exists: {', '.join(tried)}"


def _answer(ask: Callable[[bytes], bytes | None], name: str, rrtype: int) -> Answer:
    packet = Packet(0.0, "tcp", 0, "t1", 1, rrtype, name)
    try:
        reply = ask(wire_of(packet, 1))
    except ValueError as error:
        raise ClusterError(f'"{name}" is not a name that can be looked up: {error}') from None
    return Answer(Rcode.SERVFAIL) if reply is None else answer_of(reply, packet)


# A failed lookup has a traceback without lines of this module, like a failure of the C library.
__tracebackhide__ = lambda raised: hides(raised) or isinstance(raised.value, socket.gaierror)  # noqa: E731 - a value

# The machine's own names, and names that resolvers never query.
LOCAL: Final = ("", "localhost", "localhost.localdomain", "ip6-localhost")
FAMILIES: Final = {socket.AF_INET: (RRType.A,), socket.AF_INET6: (RRType.AAAA,)}
# The C libraries, whose getaddrinfo Python calls.
MODELS: Final[dict[str, type[Model]]] = {each.name: each for each in (glibc.Glibc, musl.Musl)}
CODES: Final = {
    glibc.AGAIN: socket.EAI_AGAIN,
    glibc.NODATA: socket.EAI_NODATA,
    musl.AGAIN: socket.EAI_AGAIN,
    musl.NODATA: socket.EAI_NODATA,
}  # all others are EAI_NONAME
_Host = bytes | str | None


class PodResolver:
    """Looks up names as a program in a pod does; `find_server` returns the server's address and port."""

    def __init__(
        self, find_server: Callable[[], tuple[str, int]], namespace: str, resolver: str
    ) -> None:
        if resolver not in MODELS:
            raise unknown("there is no model of a resolver", resolver, MODELS)
        self._find_server = find_server
        self._model = MODELS[resolver]
        self._conf = resolv_conf(namespace)
        self._machine = socket.getaddrinfo
        self._own_name = socket.gethostname()

    def getaddrinfo(
        self,
        host: _Host,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,  # noqa: A002 - as in socket.getaddrinfo
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        """As socket.getaddrinfo; raise socket.gaierror."""
        name = _text(host)
        if self._is_local(name) or flags & socket.AI_NUMERICHOST:
            return self._machine(host, port, family, type, proto, flags)
        types = FAMILIES.get(socket.AddressFamily(family), (RRType.A, RRType.AAAA))
        found: list[Any] = []
        for address in self._look_up(name, types):
            numeric = flags & ~(socket.AI_CANONNAME | socket.AI_ADDRCONFIG) | socket.AI_NUMERICHOST
            found += self._machine(address, port, family, type, proto, numeric)
        if flags & socket.AI_CANONNAME and found:
            found[0] = (*found[0][:3], name, found[0][4])
        return found

    def gethostbyname(self, host: str) -> str:
        """As socket.gethostbyname; raise socket.gaierror."""
        found: str = self.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
        return found

    def gethostbyname_ex(self, host: str) -> tuple[str, list[str], list[str]]:
        """As socket.gethostbyname_ex; raise socket.gaierror."""
        found = self.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
        return host, [], [each[4][0] for each in found]

    def _is_local(self, name: str) -> bool:
        plain = name.lower().removesuffix(".")
        return (
            plain in LOCAL or plain == self._own_name.lower() or is_address(name.partition("%")[0])
        )

    def _look_up(self, name: str, types: tuple[int, ...]) -> tuple[str, ...]:
        async def ask() -> Result:
            model = self._model(self._conf, Random())
            sockets = Sockets(model, self._find_server(), Random())
            return (await look_up(model, name, types, sockets)).result

        result = Result((), glibc.NONAME, "")
        with (
            suppress(ValueError),
            ThreadPoolExecutor(1) as thread,
        ):  # this thread may run a loop of its own
            result = thread.submit(asyncio.run, ask()).result()
        if not result.addresses:
            raise socket.gaierror(CODES.get(result.error, socket.EAI_NONAME), result.error)
        return result.addresses


@contextmanager
def patched(resolver: PodResolver) -> Iterator[None]:
    """Use a resolver for all lookups of the process."""
    names = ("getaddrinfo", "gethostbyname", "gethostbyname_ex")
    with replaced.multiple(socket, **{name: getattr(resolver, name) for name in names}):
        # Without aiodns aiohttp has only the resolver that calls getaddrinfo, and may not be loaded at all.
        if "aiohttp" not in sys.modules and find_spec("aiodns") is None:
            yield
            return
        from aiohttp.resolver import AsyncResolver, ThreadedResolver  # noqa: PLC0415 - it takes 0.1 s

        async def resolve(
            self: object, host: str, port: int = 0, family: int = socket.AF_INET
        ) -> Any:
            return await ThreadedResolver().resolve(host, port, socket.AddressFamily(family))

        with replaced.object(AsyncResolver, "resolve", resolve):
            yield


def _text(host: _Host) -> str:
    if host is None:
        return ""
    if isinstance(host, bytes):
        return host.decode("ascii", "replace")
    try:
        return host.encode("idna").decode()  # as socket.getaddrinfo does
    except UnicodeError:
        return host


log = logging.getLogger("hsdns.testing")

TTL: Final = 30  # seconds, as in kubeadm's Corefile
RESOLVERS: Final = ("system",)


class Cluster:
    """A context manager that serves the names of the cluster on `address` and `port`, over UDP and TCP.

    `manifests` are files and folders of YAML or JSON; with `demo` the objects of `hsdns serve` are there too.
    `ttl` is the TTL of all records, in seconds.
    """

    @checks_keywords
    def __init__(
        self, *manifests: str | os.PathLike[str], demo: bool = False, ttl: int = TTL
    ) -> None:
        self.address = LOOPBACK
        self._objects = Objects(log.warning)
        self._lock = threading.RLock()
        self._ttl = ttl
        self._thread: ServerThread | None = None
        self._ended = False
        self.queries = Queries(self._settle, lambda: [*self._pods])
        self._pods: dict[str, PodIdentity] = {}
        self._pod_addresses = map(str, ip_network(POD_NETWORK).hosts())
        self._numbers = itertools.count(1)
        self._seeds = itertools.count(1)
        if demo:
            self._objects.apply_paths([str(files("hsdns") / "demo")])
        self._objects.apply_paths([os.fspath(each) for each in manifests])

    def __repr__(self) -> str:
        """Show where it serves."""
        if self._thread is None:
            return "<Cluster that has ended>" if self._ended else "<Cluster that was not started>"
        return f"<Cluster on {self.address}:{self.port}>"

    def __enter__(self) -> Self:
        """Start serving; raise ClusterError if it was started before."""
        if self._ended or self._thread is not None:
            raise ClusterError("a cluster starts once; make another one with Cluster()")
        thread = ServerThread(self._objects.take_events(), self.queries.note, self._ttl)
        thread.start()
        self._thread = thread
        return self

    def __exit__(self, *error: object) -> None:
        """End the server and its thread."""
        with self._lock:
            thread, self._thread, self._ended = self._thread, None, True
        if thread is not None:
            thread.stop()

    @property
    def port(self) -> int:
        """The port of the server, which the kernel chose."""
        return self.server.port

    @property
    def objects(self) -> Objects:
        """The objects, for the handles; raise ClusterError if the cluster has ended."""
        self.server  # noqa: B018 - it raises
        return self._objects

    # what there is

    @checks_keywords
    def service(
        self,
        name: str,
        *,
        namespace: str = NAMESPACE,
        headless: bool = False,
        ports: Ports | None = None,
        selector: Mapping[str, str] | None = None,
        cluster_ip: str | None = None,
        external_name: str | None = None,
        publish_not_ready: bool = False,
    ) -> Service:
        """Add a Service; raise ClusterError if there is one of that name.

        `ports` maps names to numbers, or to "NUMBER/PROTOCOL".  Without `headless`, `cluster_ip` and `external_name` it
        gets a cluster IP.  With a `selector` its endpoints are the pods of workloads; else endpoints() adds them.
        """
        if headless and cluster_ip is not None:
            raise ClusterError(
                f'Service "{name}" is headless, so it has no cluster_ip; leave one of them out'
            )
        spec: dict[str, Any] = {"ports": port_list(ports or {})}
        if headless or cluster_ip is not None:
            spec["clusterIP"] = "None" if headless else cluster_ip
        if selector:
            spec["selector"] = dict(selector)
        if publish_not_ready:
            spec["publishNotReadyAddresses"] = True
        if external_name is not None:
            spec |= {"type": "ExternalName", "externalName": external_name}
        made = {
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        }  # fmt: skip
        with self.changing() as objects:
            if objects.service(namespace, name) is not None:
                raise ClusterError(
                    f'there is a Service "{namespace}/{name}" already; it is cluster["{namespace}/{name}"]'
                )
            objects.apply_objects("service()", [made])
        return Service(self, namespace, name)

    @checks_keywords
    def statefulset(
        self,
        name: str,
        *,
        replicas: int = 1,
        namespace: str = NAMESPACE,
        service: str | None = None,
        ports: Ports | None = None,
    ) -> StatefulSet:
        """Add a StatefulSet with its pods; raise ClusterError if there is one of that name.

        It gets a headless Service with the same name and with `ports`, unless `service` names an existing one.
        """
        with self.changing() as objects:
            if objects.has("StatefulSet", namespace, name):
                raise ClusterError(
                    f'there is a StatefulSet "{namespace}/{name}" already; scale() it'
                )
            if service is None:
                of = self.service(
                    name, namespace=namespace, headless=True, ports=ports, selector={"app": name}
                )
            elif ports is not None:
                raise ClusterError(
                    f'the ports are those of the Service "{service}"; leave `ports` out'
                )
            else:
                of = self[f"{namespace}/{service}"]
            found = objects.service(namespace, of.name)
            labels = found.spec.selector if found is not None else None
            if not labels:
                raise ClusterError(
                    f'{of!r} has no selector, so it has no pods; make it with selector={{"app": "{name}"}}'
                )
            made = StatefulSet(self, namespace, name, of, labels)
            made._write(objects, replicas)
        return made

    def apply(self, manifest: str | Mapping[str, Any]) -> None:
        """Add or replace objects: a text in YAML or JSON, or one object as a mapping."""
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        with self.changing() as objects:
            objects.apply_text(text)

    def __getitem__(self, name: str) -> Service:
        """The Service NAME of the namespace default, or NAMESPACE/NAME; raise ClusterError if there is none."""
        namespace, slash, plain = name.rpartition("/")
        namespace = namespace if slash else NAMESPACE
        if self.objects.service(namespace, plain) is None:
            known = [
                each if of == NAMESPACE else f"{of}/{each}" for of, each in self._objects.services()
            ]
            raise unknown("there is no Service", name.removeprefix(f"{NAMESPACE}/"), known)
        return Service(self, namespace, plain)

    @contextmanager
    def changing(self) -> Iterator[Objects]:
        """Change the objects, for the handles: all of it or, where it raises, nothing.  One thread at a time."""
        with self._lock:
            objects = self.objects
            before = objects.state()
            try:
                yield objects
            except BaseException:
                objects.restore(before)
                raise
            finally:
                self.server.deliver(objects.take_events())

    # who asks

    @checks_keywords
    def wait_answer(self, name: str, addresses: Sequence[str], *, within: float = 0.05) -> None:
        """Wait until `name` has these addresses and no others; raise AssertionError after `within` seconds.

        A name is written as in a pod of the namespace default; [] waits until it has none.
        """
        __tracebackhide__ = True
        wait_answer(lambda wire: self.server.ask(wire), name, addresses, within)

    @checks_keywords
    def pod(
        self, name: str | None = None, *, namespace: str = NAMESPACE, resolver: str = "system"
    ) -> Pod:
        """A pod to run commands in, as a context manager; commands use the resolver of their own C library."""
        if resolver not in RESOLVERS:
            raise unknown("a pod has no resolver", resolver, RESOLVERS)
        chosen = name or f"pod-{next(self._numbers)}"
        if chosen in self._pods:
            raise ClusterError(f'there was a pod "{chosen}" already; choose another name')
        self._pods[chosen] = PodIdentity(chosen, namespace, next(self._pod_addresses))
        return Pod(self, self._pods[chosen])

    @checks_keywords
    def patch(
        self, *, namespace: str = NAMESPACE, resolver: str = "glibc"
    ) -> AbstractContextManager[None]:
        """Make socket.getaddrinfo and its users query the cluster, as in a pod of a namespace.

        `resolver` is the C library whose lookups are simulated: glibc or musl.
        """
        self.server  # noqa: B018 - it raises
        return patched(PodResolver(lambda: (self.address, self.port), namespace, resolver))

    def fault(self, rule: str, **keywords: Unpack[Keywords]) -> Fault:
        """Make DNS misbehave within `with cluster.fault(...) as fault:`; raise ClusterError.

        `rule` is an action such as "drop" or "delay 200ms", or a whole rule such as "drop type AAAA share 0.5".  The
        keywords are its selectors and options; selectors are evaluated in the order of Keywords.  `after` and
        `before` in seconds, or as text.  A name is written as in assert_asked().
        """
        self.server  # noqa: B018 - it raises
        return Fault(rule_words(rule, keywords, self._pods, next(self._seeds)), self)

    @checks_keywords
    def scenario(self, name: str, *, about: str | None = None) -> Scenario:
        """Run a fault scenario within `with cluster.scenario(NAME) as scenario:`; raise ClusterError.

        `name` is one of `hsdns fault scenarios`, or the path of a file.  The scenario uses its own names and objects,
        or the name `about` of this cluster.
        """
        self.server  # noqa: B018 - it raises
        return Scenario(find_scenario(name, about), self)

    @property
    def server(self) -> ServerThread:
        """The server that runs; raise ClusterError if there is none."""
        if self._thread is None:
            what = "has ended" if self._ended else "was not started"
            raise ClusterError(
                f"this cluster {what}; use it within `with Cluster() as cluster:`, or while its fixture lives"
            )
        return self._thread

    def _settle(self) -> None:
        if self._thread is not None:  # queries received before the end can be asserted after it
            self._thread.settle()
