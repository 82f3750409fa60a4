"""Queries the DNS servers of a cluster one by one for the names of its objects; the answers are an object of the dump.

Path: cli/doctor.py -> here -> load_cluster.py (right answers), exchange.py (sends queries) ->
rules/checks/dns.py.
Rule 1: the cluster is watched at the same time, as configured in the servers' Corefile.  The query of a wrong answer is
        repeated for a second, because a change takes a moment to reach a server.
Rule 2: a silent pod counts only if another pod was reached: otherwise pods are unreachable from here, which is not
        their fault.  The same applies to the cluster IP.  Servers given by flags always count.
Rule 3: an answer of a pod or of the cluster IP counts only if it is known to be of this cluster: outside of it, port 53
        may be intercepted, and another cluster may have the same addresses.  A server is known if it gave an address
        that only this cluster has; one known pod makes all pods known.
Rule 4: an error here does not affect the rest of the report: it is the reason why this was not checked.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from hsdns.audit.questions import replicas
from hsdns.cli.builtin import quoted
from hsdns.cli.doctor_answer import (
    VIEW,
    answer_object,
    is_proof,
    is_right,
    seen_from,
    server_object,
    word_of,
)
from hsdns.cli.doctor_pod import NotAsked as PodNotAsked
from hsdns.cli.doctor_pod import PodView
from hsdns.cli.doctor_questions import doctor_questions
from hsdns.cli.exchange import NoReply, Refused, ask_again
from hsdns.cli.flags import FlagError
from hsdns.cli.offline import CannotTell, configure
from hsdns.cluster.controllers.dns_service import KNOWN, PORT
from hsdns.corefile.keys import split_ip_port, zones_from_args
from hsdns.corefile.tree import CorefileError
from hsdns.load.cli.cluster import LoadCluster
from hsdns.load.errors import LoadError
from hsdns.load.questions import Question, Questions
from hsdns.load.verify.judge import Answer
from hsdns.load.verify.verifier import answer_of
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.recording.entry import SHAPING
from hsdns.rules.objects import CorefileText, zones_of
from hsdns.sources.cluster_dump import ANSWERS, OWN_ANSWERS, POD_VIEW, ClusterDump
from hsdns.wire.iana import type_to_text

POD: Final = "pod"
SERVICE: Final = "service"
GIVEN: Final = "given"
EACH: Final = 1.0  # seconds for a reply
TRIES: Final = 2  # a datagram may be lost
LOOKS: Final = 6  # queries for an answer that is not right
PAUSE: Final = 0.2  # seconds between two of them
AT_ONCE: Final = 16  # servers
NEEDED: Final = ("services", "endpointslices", "namespaces")  # to compute right answers
NO_SERVICE: Final = "no Service for DNS is known (kube-system/kube-dns); name servers with -server"
UNREACHED: Final = (
    "no pod of the cluster's DNS can be reached from here, as is usual outside of the cluster; "
    "run it on a node or in a pod, or name servers with -server"
)
UNKNOWN: Final = (
    "no DNS server has answered with an address that only this cluster has, so the answers may be those of something "
    "between, or of another cluster; run it in a pod, or name servers with -server"
)
_ZONES: Final = "cluster.local in-addr.arpa ip6.arpa"
# What shapes answers, but for pods, whose names are not queried.  Others wrote the rest, for files of another machine.
_KEPT: Final = frozenset({*SHAPING, "labels", "namespace_labels"} - {"pods"})


class DnsServer(NamedTuple):
    """A server to query; `role` is one of the words above, `about` the object of its findings."""

    role: str
    about: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host} port {self.port}"


class NotAsked(Exception):
    """No server was queried; the message is a sentence that says why."""


def given_servers(words: Sequence[str]) -> list[DnsServer]:
    """The servers of -server; raise FlagError."""
    found = []
    for word in words:
        place = split_ip_port(word, PORT)
        if place is None:
            raise FlagError(f'-server needs an IP address, or one with a port, found "{word}"')
        found.append(DnsServer(GIVEN, "-server", place.host, place.port))
    return found


def add_answers(
    dump: ClusterDump,
    access: Sequence[str],
    target: str,
    given: Sequence[DnsServer],
    *,
    asks: bool = True,
    view: PodView | None = None,
    runs_code: bool = True,
) -> None:
    """Add the answers of the servers to a dump, also to the Pod of `view`, or why there are none; see ask_servers()."""
    lacking = next((dump.unread[each] for each in NEEDED if each in dump.unread), "")
    if lacking or not asks:
        dump.unread[ANSWERS] = lacking if asks else "left out by -no-ask"
        return
    try:
        answers, why = ask_servers(dump.items, access, target, given, view, runs_code=runs_code)
    except NotAsked as error:
        dump.unread[ANSWERS] = str(error)
        return
    dump.items += answers
    if not any(each["counts"] for each in answers):
        dump.unread[ANSWERS] = UNREACHED if answers else NO_SERVICE
    elif not any(each["known"] for each in answers):
        dump.unread[OWN_ANSWERS] = UNKNOWN
    if why:
        dump.unread[POD_VIEW] = why


def ask_servers(
    items: Sequence[Mapping[str, Any]],
    access: Sequence[str],
    target: str,
    given: Sequence[DnsServer],
    view: PodView | None = None,
    sleep: Callable[[float], None] = time.sleep,
    *,
    runs_code: bool = True,
) -> tuple[list[dict[str, Any]], str]:
    """The answers of each server, as objects for the dump, and why there are none from a Pod; raise NotAsked.

    `items` are the objects of the dump, `access` are FILE and CONTEXT of a kubeconfig, `given` servers to query
    instead, `view` is the Pod.
    """
    servers: list[DnsServer] = list(given)

    def choose(blocks: Sequence[Kubernetes]) -> Questions:
        if not given:
            servers.extend(_of_cluster(items, blocks))
        sets = [block.answer_set() for block in blocks]
        addresses = _pod_addresses(items, target)
        return Questions(doctor_questions(sets[0], target, addresses, _labelled(items)))

    try:
        configuration, problems = configure(
            None, None, text=corefile(items, access), runs_code=runs_code
        )
    except (CorefileError, OSError) as error:
        raise NotAsked(str(error)) from None

    def is_denied() -> bool:
        return problems.is_denied

    try:
        with LoadCluster(configuration, choose, verifies=True, is_denied=is_denied) as cluster:
            truth, questions = cluster.truth, cluster.questions.all
            assert truth is not None, "it verifies"
            if not questions:
                raise NotAsked("the kubernetes block of the Corefile has reverse zones only")
            if not servers and view is None:
                raise NotAsked(NO_SERVICE)

            def look(server: DnsServer) -> dict[str, Any]:
                return _look(server, questions, truth.latest, sleep)

            with ThreadPoolExecutor(AT_ONCE) as pool:
                found = list(pool.map(look, servers))
            seen, why_not = ([], "") if view is None else _seen(view, questions, truth.latest)
    except CannotTell as error:
        why = "; standard error says which right is missing" if is_denied() else ""
        raise NotAsked(f"{error}{why}") from None
    except (CorefileError, LoadError, OSError) as error:
        raise NotAsked(str(error)) from None
    return judged([*found, *seen]), why_not


def _seen(
    view: PodView, questions: Sequence[Question], expected: Callable[[int], Answer | None]
) -> tuple[list[dict[str, Any]], str]:
    """The answers of the servers to a Pod, or why there are none."""
    before = [expected(number) for number in range(len(questions))]
    try:
        printed = view.ask([word_of(each) for each in questions])
        after = [expected(number) for number in range(len(questions))]
        return seen_from(str(view), printed, questions, before, after), ""
    except PodNotAsked as error:
        return [], str(error)
    except (KeyError, TypeError, ValueError):
        return [], f"what the container in {view} printed is not that of this hsdns ask; see -image"


def judged(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The objects, with `counts`: whether silence counts against the server; one known pod makes all pods known."""
    pods = any(each["role"] == POD and _is_reached(each) for each in found)
    known = any(each["role"] == POD and each["known"] for each in found)
    return [
        {
            **each,
            "counts": each["role"] in (GIVEN, VIEW)
            or pods
            or (each["role"] == SERVICE and _is_reached(each)),
            "known": each["role"] in (GIVEN, VIEW)
            or each["known"]
            or (each["role"] == POD and known),
        }
        for each in found
    ]


def corefile(items: Sequence[Mapping[str, Any]], access: Sequence[str]) -> str:
    """A Corefile that reads the cluster as its own DNS server does, over a kubeconfig; raise CorefileError."""
    zones, lines = _ZONES, ""
    for item in items:
        data = item.get("data")
        text = data.get("Corefile") if isinstance(data, dict) else None
        if item.get("kind") != "ConfigMap" or not isinstance(text, str):
            continue
        block = next(CorefileText("Corefile", text).directives("kubernetes"), None)
        if block is None:
            continue
        try:
            found = zones_from_args(block[1].args) or zones_of(block[0])
        except CorefileError:
            continue
        zones = " ".join(quoted(each.to_text()) for each in found)
        for line in block[1].lines:
            if line.name.text in _KEPT:
                words = [line.name.text, *(quoted(each.text) for each in line.args)]
                lines += f"        {' '.join(words)}\n"
        break
    by = " ".join(quoted(each) for each in access if each)
    return f"{zones} {{\n    kubernetes {zones} {{\n        kubeconfig {by}\n{lines}    }}\n}}\n"


def _of_cluster(
    items: Sequence[Mapping[str, Any]], blocks: Sequence[Kubernetes]
) -> list[DnsServer]:
    """The ready endpoints of the Service for DNS, and its cluster IPs."""
    for namespace, name in (*((each.namespace, each.name) for each in KNOWN), *_labelled(items)):
        for block in blocks:
            value = block.store.services.values.get((namespace.encode(), name.encode()))
            if value is None or value.kind is None:
                continue
            service, pods = f"Service {namespace}/{name}", _pods(items, namespace)
            found = [
                DnsServer(POD, pods.get(host, service), host, port)
                for host, port in replicas(value)
            ]
            cluster_ips = (str(ip_address(each)) for each in value.cluster_ips)
            return [*found, *(DnsServer(SERVICE, service, each, PORT) for each in cluster_ips)]
    return []


def _labelled(items: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The Services with the usual label, for distributions that use another name."""
    found = []
    for item in items:
        metadata = _metadata(item)
        if item.get("kind") == "Service" and _is_for_dns(item):
            found.append((str(metadata.get("namespace")), str(metadata.get("name"))))
    return found


def _pods(items: Sequence[Mapping[str, Any]], namespace: str) -> dict[str, str]:
    """The Pods of a namespace by address; of several on the host network, the one for DNS."""
    found = [
        item
        for item in items
        if item.get("kind") == "Pod" and _metadata(item).get("namespace") == namespace
    ]
    return {
        address: f"Pod {namespace}/{_metadata(item).get('name')}"
        for item in sorted(found, key=_is_for_dns)  # the last one counts
        for address in _addresses(item)
    }


def _is_for_dns(item: Mapping[str, Any]) -> bool:
    labels = _metadata(item).get("labels")
    return isinstance(labels, dict) and any(each.labels.items() <= labels.items() for each in KNOWN)


def _pod_addresses(items: Sequence[Mapping[str, Any]], target: str) -> list[str]:
    """The addresses of the Pod that is the target."""
    namespace, _, name = target.partition("/")
    return [
        address
        for item in items
        if item.get("kind") == "Pod"
        and (_metadata(item).get("namespace"), _metadata(item).get("name")) == (namespace, name)
        for address in _addresses(item)
    ]


def _addresses(pod: Mapping[str, Any]) -> list[str]:
    status = pod.get("status")
    listed = status.get("podIPs") if isinstance(status, dict) else None
    found = [each.get("ip") for each in listed or () if isinstance(each, dict)]
    if not found and isinstance(status, dict):
        found = [status.get("podIP")]
    return [each for each in found if isinstance(each, str)]


def _metadata(item: Mapping[str, Any]) -> Mapping[str, Any]:
    found = item.get("metadata")
    return found if isinstance(found, dict) else {}


def _look(
    server: DnsServer,
    questions: Sequence[Question],
    expected: Callable[[int], Answer | None],
    sleep: Callable[[float], None],
) -> dict[str, Any]:
    """The answers of a server to all questions, until it is silent."""
    drawn, answers, silence, refused = random.Random(), [], "", False
    for number, question in enumerate(questions):
        try:
            answers.append(_answer(server, question, partial(expected, number), drawn, sleep))
        except NoReply as error:
            name = f"{question.name.to_text()} {type_to_text(question.qtype)}"
            silence, refused = f"{error}, when asked for {name}", isinstance(error, Refused)
            break
    is_known = any(map(is_proof, questions, answers))
    return server_object(
        server.role,
        server.about,
        server.host,
        server.port,
        answers,
        silence,
        refused=refused,
        is_known=is_known,
    )


def _answer(
    server: DnsServer,
    question: Question,
    expected: Callable[[], Answer | None],
    drawn: random.Random,
    sleep: Callable[[float], None],
) -> dict[str, Any]:
    """A right answer, or the last one; raise NoReply."""
    looks = LOOKS
    while True:
        before = expected()
        reply = ask_again(server.host, server.port, question.query(), EACH, drawn, TRIES)
        right = expected()
        said, looks = answer_of(reply.rcode, reply.answer), looks - 1
        found = is_right(said, (before if right is not None else None, right))
        if found or not looks:
            return answer_object(question, said, right, is_right=found)
        sleep(PAUSE)


def _is_reached(found: Mapping[str, Any]) -> bool:
    """Whether it is there; an answer without the right records may come from something between."""
    return found["refused"] or any(each["right"] and each["records"] for each in found["answers"])
