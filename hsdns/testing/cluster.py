"""Cluster: the DNS of a Kubernetes cluster, for one test or several.

Path: a test, or pytest_plugin.py -> here -> objects.py (the objects), server.py (the server).
Rule 1: when a call returns, answers show its change; calls of several threads are serialised.
Rule 2: every call on a cluster that has ended raises ClusterError.

Waits for answers of the server of a test's cluster; these queries are not recorded.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.resources import files
from ipaddress import ip_network
from typing import Any, Final, Self

from hsdns.faults.words import Do, Words
from hsdns.resolver.model import (
    Answer,
    Packet,
    answer_of,
    wire_of,
)
from hsdns.testing.errors import ClusterError, checks_keywords, hides, unknown
from hsdns.testing.fault import Fault, Scenario, rule_words
from hsdns.testing.fault import find as find_scenario
from hsdns.testing.objects import Objects, Ports, Service, StatefulSet, port_list
from hsdns.testing.patch import PodResolver, patched
from hsdns.testing.pod import (
    NAMESPACE,
    POD_NETWORK,
    Pod,
    PodIdentity,
    forms,
)
from hsdns.testing.queries import Queries
from hsdns.testing.server import LOOPBACK, ServerThread
from hsdns.wire import is_address
from hsdns.wire.iana import ADDRESSES, Rcode, RRType, rcode_to_text

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


__tracebackhide__ = hides

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
                f'Service "{name}" is headless, so it has no cluster_ip; use only one'
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
                    f'the ports are those of the Service "{service}"; remove `ports`'
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
        """Add or replace objects: a text in YAML or JSON, or one object as a mapping.

        A kind that is not known, or no object that DNS is about, raises ClusterError.
        """
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

    async def wait_answer_async(
        self, name: str, addresses: Sequence[str], *, within: float = 0.05
    ) -> None:
        """The same in a coroutine of asyncio or trio, whose loop goes on."""
        __tracebackhide__ = True
        waiting = partial(self.wait_answer, name, addresses, within=within)
        trio: Any = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_run():
            await trio.to_thread.run_sync(waiting)
        else:
            await asyncio.to_thread(waiting)

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
        return patched(self._resolver(namespace, resolver))

    @checks_keywords
    def resolve(
        self, name: str, *, namespace: str = NAMESPACE, resolver: str = "glibc"
    ) -> list[str]:
        """The addresses that a program in a pod gets for a name; raise socket.gaierror."""
        types = ADDRESSES
        return [*self._resolver(namespace, resolver).addresses(name, types)]

    def _resolver(self, namespace: str, resolver: str) -> PodResolver:
        def exists(name: str) -> bool:
            return _answer(self.server.ask, name, RRType.A).rcode == Rcode.NOERROR

        return PodResolver((self.address, self.port), exists, namespace, resolver)

    @checks_keywords
    def fault(
        self,
        rule: str | Do | Words,
        *selectors: str | Words,
        times: int | None = None,
        seed: int | None = None,
        named: str | None = None,
    ) -> Fault:
        """Make DNS misbehave within `with cluster.fault(...) as fault:`; raise ClusterError.

        `rule` is an action such as Do.DROP or "delay 200ms", or a whole rule such as "drop type AAAA share 0.5".  All
        `selectors` must match, such as When.TYPE("AAAA") or "type AAAA".  In When.NAME() a name is written as in
        assert_asked(), and When.POD() takes a pod of the cluster.
        """
        self.server  # noqa: B018 - it raises
        options = {"times": times, "seed": seed, "named": named}
        words = rule_words((rule, *selectors), options, self._pods, next(self._seeds))
        return Fault(words, self)

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
