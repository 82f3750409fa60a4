"""Cluster: the DNS of a Kubernetes cluster, for one test or several.

Path: a test, or pytest_plugin.py -> here -> objects.py (the objects), server.py (the server).
Rule 1: when a call returns, answers show its change; calls of several threads are serialised.
Rule 2: every call on a cluster that has ended raises ClusterError.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.resources import files
from ipaddress import ip_network
from typing import Any, Final, Self

from hsdns.testing.answers import wait_answer
from hsdns.testing.errors import ClusterError, checks_keywords, hides, unknown
from hsdns.testing.fault import Fault
from hsdns.testing.fault_words import Keywords, rule_words
from hsdns.testing.handles import Ports, Service, StatefulSet, port_list
from hsdns.testing.names import NAMESPACE, POD_NETWORK, PodIdentity
from hsdns.testing.objects import Objects
from hsdns.testing.patch import PodResolver, patched
from hsdns.testing.pod import Pod
from hsdns.testing.queries import Queries
from hsdns.testing.scenario import Scenario
from hsdns.testing.scenario import find as find_scenario
from hsdns.testing.server import LOOPBACK, ServerThread

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
        self._queries = Queries(self._settle, lambda: [*self._pods])
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
        thread = ServerThread(self._objects.take_events(), self._queries.note, self._ttl)
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
        return self._server.port

    @property
    def objects(self) -> Objects:
        """The objects, for the handles; raise ClusterError if the cluster has ended."""
        self._server  # noqa: B018 - it raises
        return self._objects

    @property
    def queries(self) -> Queries:
        """The recorded queries."""
        return self._queries

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
                self._server.deliver(objects.take_events())

    # who asks

    @checks_keywords
    def wait_answer(self, name: str, addresses: Sequence[str], *, within: float = 0.05) -> None:
        """Wait until `name` has these addresses and no others; raise AssertionError after `within` seconds.

        A name is written as in a pod of the namespace default; [] waits until it has none.
        """
        __tracebackhide__ = True
        wait_answer(lambda wire: self._server.ask(wire), name, addresses, within)

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
        return Pod(lambda: self._server, self._pods[chosen])

    @checks_keywords
    def patch(
        self, *, namespace: str = NAMESPACE, resolver: str = "glibc"
    ) -> AbstractContextManager[None]:
        """Make socket.getaddrinfo and its users query the cluster, as in a pod of a namespace.

        `resolver` is the C library whose lookups are simulated: glibc or musl.
        """
        self._server  # noqa: B018 - it raises
        return patched(PodResolver(lambda: (self.address, self.port), namespace, resolver))

    @checks_keywords
    def fault(
        self,
        rule: str,
        *,
        client: str | None = None,
        pod: Pod | str | None = None,
        transport: str | None = None,
        name: str | None = None,
        below: str | None = None,
        qtype: str | None = None,
        flow: str | None = None,
        after: float | str | None = None,
        before: float | str | None = None,
        nth: int | None = None,
        share: float | None = None,
        times: int | None = None,
        seed: int | None = None,
        named: str | None = None,
    ) -> Fault:
        """Make DNS misbehave within `with cluster.fault(...) as fault:`; raise ClusterError.

        `rule` is an action such as "drop" or "delay 200ms", or a whole rule such as "drop type AAAA share 0.5".  The
        keywords are its selectors and options; selectors are evaluated in the order of the parameters.  `after` and
        `before` in seconds, or as text.  A name is written as in assert_asked().
        """
        self._server  # noqa: B018 - it raises
        keywords = Keywords(
            client=client, pod=pod, transport=transport, name=name, below=below, qtype=qtype, flow=flow,
            after=after, before=before, nth=nth, share=share, times=times, seed=seed, named=named,
        )  # fmt: skip
        words = rule_words(rule, keywords, self._pods, next(self._seeds))
        return Fault(words, lambda: self._server, self._queries)

    @checks_keywords
    def scenario(self, name: str, *, about: str | None = None) -> Scenario:
        """Run a fault scenario within `with cluster.scenario(NAME) as scenario:`; raise ClusterError.

        `name` is one of `hsdns fault scenarios`, or the path of a file.  The scenario uses its own names and objects,
        or the name `about` of this cluster.
        """
        self._server  # noqa: B018 - it raises
        return find_scenario(name, about, lambda file: Scenario(file, self))

    @property
    def _server(self) -> ServerThread:
        if self._thread is None:
            what = "has ended" if self._ended else "was not started"
            raise ClusterError(
                f"this cluster {what}; use it within `with Cluster() as cluster:`, or while its fixture lives"
            )
        return self._thread

    def _settle(self) -> None:
        if self._thread is not None:  # queries received before the end can be asserted after it
            self._thread.settle()
